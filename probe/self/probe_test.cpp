// SPDX-License-Identifier: Apache-2.0
// Whole paths: ours, and simulated ones whose answers are known.
#include "probe/probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/trimul/trimul.h"
#include "probe/describe.h"
#include "probe/self/tensor_core_trimul.h"
#include "properties/core/registry.h"
#include "properties/self/marks.h"

namespace assay {
namespace {

class Probing : public testing::Test {
 protected:
  Probed probe_sum(const Subject& subject, Site site, DType dtype = DType::kF32,
                   std::optional<int64_t> terms = {}) {
    for (const ProbedSum* sum : registry().probed_sums(subject.op->name)) {
      if (sum->site == site && sum->site.name == site.name)
        return probe(subject, calls_here(subject, *device_), *sum, dtype, {.terms = terms});
    }
    throw Error("{} has no sum {}", subject.op->name, site.name);
  }

  std::unique_ptr<Device> device_ = open_cpu();
};

TEST_F(Probing, ReproducesEachReachedSumOfTheCpuPaths) {
  size_t reproduced = 0;
  for (const Op* op : registry().ops()) {
    for (const ProbedSum* sum : registry().probed_sums(op->name)) {
      if (!sum->why_not.empty()) continue;
      for (DType dtype : op->path("cpu").dtypes) {
        const Subject subject = registry().subject(op->name, "cpu");
        const Probed probed = probe(subject, calls_here(subject, *device_), *sum, dtype, {});
        const std::string where =
            fmt::format("{} {} {}: {}", op->name, sum->what, name_of(dtype), probed.proof.first);
        EXPECT_TRUE(probed.why_not.empty() == probed.tree.has_value()) << where << probed.why_not;
        EXPECT_TRUE(is_consistent(probed)) << where << testing::PrintToString(probed.contradictions);
        EXPECT_THAT(probed.differing, testing::IsEmpty()) << where;
        EXPECT_EQ(probed.proof.reproduced, probed.proof.draws) << where;
        if (probed.proof.draws == 0) continue;
        ++reproduced;
        EXPECT_GT(probed.proof.largest_error, 0) << where;
        EXPECT_LE(probed.proof.largest_error, probed.bounds.of_tree) << where;
      }
    }
  }
  // In f32: mhc_post, dynamic_conv and its dx, three of trimul, three of cheri_block, conv and dx.
  EXPECT_EQ(reproduced, 11u);
}

TEST_F(Probing, SeesAPathThatRoundsItsInputs) {
  const Probed probed = probe_sum(registry().subject("mhc_post", "specimen.inputs_rounded"), {0, "out"});
  EXPECT_THAT(probed.contradictions,
              testing::ElementsAre("factors keep 8 bits; the recipe declares no rounding: 24 bits"));
  EXPECT_EQ(probed.proof.reproduced, probed.proof.draws);
}

TEST_F(Probing, SeesTapsBehindANormThatAreRounded) {
  const std::string_view path = "specimen.inputs_rounded";
  for (const auto& [op, site] : {std::pair{"cheri_conv_norm", Site{0, "conv"}},
                                 {"cheri_block", Site{0, "conv"}},
                                 {"cheri_conv_norm_grad", Site{1, "dx"}}}) {
    const Probed probed = probe_sum(registry().subject(op, path), site);
    EXPECT_THAT(probed.contradictions,
                testing::ElementsAre("factors keep 8 bits; the recipe declares no rounding: 24 bits"))
        << op;
  }
}

// Of the norm alone: conv is x where this sum is asked for.
template <class Real>
void norm_with_mean_in(const Call& call) {
  const Extents& shape = call.outputs[0].shape;
  const int64_t size = shape[1] * shape[2];
  for (int64_t n = 0; n < shape[0]; ++n) {
    const float* x = call.inputs[0].as<float>() + n * size;
    Real sum = 0;
    double squares = 0;
    for (int64_t i = 0; i < size; ++i) sum += static_cast<Real>(x[i]);
    const double mean = static_cast<double>(sum) / static_cast<double>(size);
    for (int64_t i = 0; i < size; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const double std = std::sqrt(squares / static_cast<double>(size) + 1e-3);
    for (int64_t i = 0; i < size; ++i)
      call.outputs[0].as<float>()[n * size + i] = static_cast<float>((x[i] - mean) / std);
  }
}

TEST_F(Probing, SeesAMeanThatIsKeptInF32) {
  const Op& op = registry().op("cheri_conv_norm");
  Path path = op.path("cpu");
  const Subject subject{&op, &path, &registry().oracle("cheri_conv_norm")};
  path.run = norm_with_mean_in<float>;
  const Probed narrow = probe_sum(subject, {11, "mean"});
  EXPECT_EQ(narrow.tree, sequential({255})) << narrow.why_not;
  EXPECT_THAT(narrow.contradictions,
              testing::ElementsAre("the sum is kept in 24 bits; the contract promises 53"));
  path.run = norm_with_mean_in<double>;
  EXPECT_TRUE(is_consistent(probe_sum(subject, {11, "mean"})));
}

constexpr Site kMeanOfX{9, "mean of x"}, kMeanOfHidden{10, "mean of hidden"};

// Parts of 32 deviations from the first value.
TEST_F(Probing, SeesTheMeansOfBothNormsOfTrimul) {
  const Subject subject = registry().subject("trimul", "cpu");
  std::vector<SumTree> parts{sequential({31}), sequential({32, 31}), sequential({32, 63}),
                             sequential({32, 95})};
  for (const Site& site : {kMeanOfX, kMeanOfHidden}) {
    const Probed probed = probe_sum(subject, site);
    EXPECT_EQ(probed.tree, sequential_of(parts)) << probed.why_not;
    EXPECT_EQ(probed.accumulator.bits, 24);
    EXPECT_TRUE(is_consistent(probed));
    EXPECT_EQ(probe_sum(subject, site, DType::kF32, 31).proof.reproduced, 1000) << "a single part";
  }
}

// Simulated norms add up in one chain. In f64 that is no worse than what the contract promises.
TEST_F(Probing, SeesANormThatAddsInAChain) {
  const Op& op = registry().op("trimul");
  Path path = op.path("cpu");
  const Subject subject{&op, &path, &registry().oracle("trimul")};
  const auto probe_mean = [&](const Site& site, int bits) {
    path.run = [bits](const Call& call) { test::TensorCoreTrimul(call, {.mean_bits = bits}).run(); };
    return probe_sum(subject, site, DType::kF32, 48);
  };
  for (const Site& site : {kMeanOfX, kMeanOfHidden}) {
    path.recipe = [](const Dims&, DType) { return trimul::recipe_of(Format::kBF16); };
    const Probed wide = probe_mean(site, 53), narrow = probe_mean(site, 24), in_bf16 = probe_mean(site, 8);
    EXPECT_EQ(wide.tree, sequential({48})) << wide.why_not;
    EXPECT_TRUE(is_consistent(wide)) << testing::PrintToString(wide.contradictions);
    EXPECT_EQ(narrow.tree, sequential({48})) << narrow.why_not;
    EXPECT_THAT(narrow.contradictions,
                testing::ElementsAre("a term goes through 47 additions; the contract promises 37 at most"));
    EXPECT_THAT(in_bf16.contradictions,
                testing::Contains("the sum is kept in 8 bits; the contract promises 24"));
    path.recipe = [](const Dims&, DType) { return trimul::recipe_of(Format::kF16); };
    EXPECT_THAT(probe_mean(site, 24).why_not, testing::HasSubstr("vanishes among scaled values in f16"));
  }
}

TEST_F(Probing, SeesAPathThatAddsInBf16) {
  const Probed probed =
      probe_sum(registry().subject("dynamic_conv", "specimen.sums_rounded"), {0, "out"}, DType::kBF16);
  EXPECT_THAT(probed.contradictions,
              testing::Contains("the sum is kept in 8 bits; the recipe declares f32, which has 24"));
}

TEST_F(Probing, SeesEntriesThatAddInAnotherOrder) {
  const Probed probed =
      probe_sum(registry().subject("dynamic_conv", "specimen.later_entries_backwards"), {0, "out"});
  EXPECT_FALSE(probed.tree);
  EXPECT_THAT(probed.differing, testing::Not(testing::IsEmpty()));
  EXPECT_TRUE(is_consistent(probed)) << "its recipe permits any order";
}

TEST_F(Probing, SeesAnotherPolynomial) {
  const Probed probed =
      probe_sum(registry().subject("mhc_post", "specimen.residual_added_unmixed"), {0, "out"});
  EXPECT_TRUE(probed.identity.value().difference);
  EXPECT_FALSE(is_consistent(probed));
}

TEST_F(Probing, SeesAnotherPolynomialWhoseTreeItCannotFind) {
  const Probed probed = probe_sum(registry().subject("mhc_post", "specimen.comb_transposed"), {0, "out"});
  EXPECT_FALSE(probed.why_not.empty());
  EXPECT_FALSE(is_consistent(probed));
}

TEST_F(Probing, ProvesNothingWithAnAdderThatItHasNotFound) {
  const Probed two = probe_sum(registry().subject("mhc_post", "cpu"), {0, "out"}, DType::kF32, 2);
  EXPECT_FALSE(two.accumulator.bits);
  EXPECT_EQ(two.proof.draws, 0);
  EXPECT_EQ(two.proof.why_not, "what the sum adds with is not known");
}

TEST_F(Probing, EqualNansAreNoOtherOrder) {
  Path path = registry().op("mhc_post").path("cpu");
  path.run = [](const Call& call) {
    std::fill_n(call.outputs[0].as<float>(), element_count(call.outputs[0].shape), std::nanf(""));
  };
  const Op& op = registry().op("mhc_post");
  const Probed probed = probe_sum({&op, &path, &registry().oracle("mhc_post")}, {0, "out"});
  EXPECT_THAT(probed.differing, testing::IsEmpty());
  EXPECT_FALSE(is_consistent(probed));
}

TEST_F(Probing, RefusesSumsOfUnknownOps) {
  Registry empty;
  EXPECT_THROW(empty.add_probed({{.op = "none", .site = {0, "out"}, .what = "a sum"}}), Error);
}

TEST_F(Probing, SaysWhichSumsItCannotReach) {
  size_t unreached = 0;
  for (const Op* op : registry().ops()) {
    for (const ProbedSum* sum : registry().probed_sums(op->name)) {
      if (sum->why_not.empty()) continue;
      const Subject subject = registry().subject(op->name, "cpu");
      const Probed probed = probe(subject, calls_here(subject, *device_), *sum, DType::kF32, {});
      EXPECT_EQ(probed.why_not, sum->why_not);
      EXPECT_FALSE(probed.tree);
      ++unreached;
    }
  }
  EXPECT_EQ(unreached, 1u);  // the convolution in the gradient of the Cheri norm
}

struct Simulated {
  test::TensorCore core;
  Site site;
};

class TensorCorePaths : public Probing, public testing::WithParamInterface<Simulated> {};

TEST_P(TensorCorePaths, AreFoundBehindTheNorm) {
  NOT_SANITIZED("what is simulated is no code of the program; Probing has the probe");
  const auto& [core, site] = GetParam();
  Path path{.name = "cpu.simulated",
            .device = DeviceKind::kCpu,
            .dtypes = {DType::kF32},
            .deterministic = true,
            .recipe = {},
            .unsupported = {},
            .run = [core = core](const Call& call) { test::TensorCoreTrimul(call, core).run(); },
            .summary = "simulated"};
  switch (core.factors) {
    case Format::kF16:
      path.recipe = [](const Dims&, DType) { return trimul::recipe_of(Format::kF16); };
      break;
    case Format::kTF32:
      path.recipe = [](const Dims&, DType) { return trimul::recipe_of(Format::kTF32); };
      break;
    case Format::kF16x3:
      path.recipe = [](const Dims&, DType) { return trimul::recipe_of(Format::kF16x3); };
      break;
    default:
      path.recipe = [](const Dims&, DType) { return trimul::recipe_of(Format::kBF16); };
  }
  const Op& op = registry().op("trimul");
  const Subject subject{&op, &path, &registry().oracle("trimul")};
  const Probed probed = probe_sum(subject, site, DType::kF32, 32);
  ASSERT_TRUE(probed.tree) << probed.why_not;
  EXPECT_EQ(*probed.tree, fused_chain({32}, core.group)) << line_of_tree(*probed.tree);
  EXPECT_EQ(probed.accumulator.fraction, core.fraction) << testing::PrintToString(probed.accumulator.unclear);
  EXPECT_EQ(probed.accumulator.bits, 24) << testing::PrintToString(probed.accumulator.unclear);
  const FactorUse factors = probed.accumulator.factors.value();
  const bool is_split = core.factors == Format::kF16x3;
  EXPECT_EQ(factors.bits, is_split ? 23 : core.factors == Format::kBF16 ? 8 : 11);
  EXPECT_EQ(factors.lacks_low_product, is_split && site == trimul::site::kContraction);
  EXPECT_EQ(probed.proof.reproduced, probed.proof.draws) << probed.proof.first;
  const bool is_hidden = core.factors == Format::kF16 && !(site == trimul::site::kUpdate);
  EXPECT_EQ(probed.proof.draws, is_hidden ? 0 : 1000) << probed.proof.why_not;
  EXPECT_THAT(probed.contradictions, testing::IsEmpty());
}

std::vector<Simulated> simulated_paths() {
  std::vector<Simulated> all;
  for (Site site : {trimul::site::kProjections, trimul::site::kContraction, trimul::site::kUpdate}) {
    for (Format format : {Format::kF16, Format::kBF16, Format::kTF32, Format::kF16x3}) {
      all.push_back({{format, format == Format::kTF32 ? 8 : 16, 25}, site});
    }
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(All, TensorCorePaths, testing::ValuesIn(simulated_paths()), [](const auto& info) {
  return fmt::format("{}_{}", name_of(info.param.core.factors), info.param.site.place);
});

}  // namespace
}  // namespace assay
