// SPDX-License-Identifier: Apache-2.0
// The oracle of trimul for recipes with factors of 8 and 11 bits, compared with a plain loop that
// rounds where they say. Also what its stages add to the error.
#include "oracles/trimul/trimul.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>

#include "kernels/core/build.h"
#include "kernels/trimul/trimul.h"
#include "oracles/core/compare.h"
#include "properties/core/compare_outputs.h"
#include "properties/core/fuzz.h"
#include "properties/core/judge.h"
#include "properties/core/problem.h"
#include "properties/core/random.h"
#include "properties/self/support.h"
#include "properties/self/trimul_loop.h"

namespace assay::trimul {
namespace {

using assay::test::cpu;
using test::Change;
using test::changed;
using test::compare_loop;
using test::expected_of;
using test::Loop;
using test::problem_of;
using test::recipe_of;
using test::rounded;
using test::Sums;

// A path that rounds to 16 bits as its recipe says is right, and not ten times better than its
// recipe.
TEST(TriMulOracle, BoundsPathsWithFactorsOf16Bits) {
  SLOW;
  NOT_SANITIZED("minutes of the same code as in other tests, for other numbers");
  for (const auto& [factor, dtype] : {std::pair{Factor::kF16, DType::kF16}, {Factor::kBF16, DType::kBF16}}) {
    for (uint64_t seed = 0; seed < 4; ++seed) {
      const Comparison c =
          compare_loop(recipe_of(factor, dtype), recipe_of(factor, dtype), problem_of(24, seed));
      EXPECT_EQ(c.wrong, 0) << name_of(dtype) << " " << seed << ": " << c.max_error_over_bound;
      ASSERT_TRUE(largest_allowed_rms(c));
      EXPECT_LE(c.rms(), *largest_allowed_rms(c)) << name_of(dtype) << " " << seed;
      EXPECT_GT(c.rms(), c.predicted_rms() / 10) << name_of(dtype) << " " << seed;
    }
  }
}

// In formats with the range of f32, where nothing is scaled.
TEST(TriMulOracle, BoundsFactorsThatAreSubnormal) {
  for (const Recipe& recipe :
       {recipe_of(Factor::kBF16, DType::kBF16), recipe_of(Factor::kTF32, DType::kF32)}) {
    const auto expect_bounded = [&](const Change& change) {
      const Comparison c = compare_loop(recipe, recipe, problem_of(8, 0), change);
      EXPECT_EQ(c.wrong, 0) << recipe.to_string() << ": " << c.max_error_over_bound;
    };
    expect_bounded([](size_t input, int64_t, float& value) {
      if (input == kToOut) value *= 0x1p-131f;
    });
    expect_bounded([](size_t input, int64_t, float& value) {
      if (input == kToOutNormWeight || input == kToOutNormBias) value *= 0x1p-131f;
      if (input == kToOut) value *= 0x1p100f;
    });
  }
}

// xn is nearly its bias, so all edges round it alike. The weights are numbers of the format.
TEST(TriMulOracle, BoundsWhatRoundsAlikeAtAllEdges) {
  const Recipe recipe = recipe_of(Factor::kTF32, DType::kF32);
  Case which = problem_of(140, 1);
  which.dims = {{"b", 1}, {"n", 140}, {"c", 16}, {"h", 4}, {"mask", 0}};
  const auto change = [](size_t input, int64_t e, float& value) {
    const CounterRandom random(1, input);
    const auto pair = static_cast<uint64_t>(e / 2);
    if (input == kLeftProj || input == kRightProj)
      value = static_cast<float>(rounded(11, random.normal(pair)) * (e % 2 == 0 ? 1 : -1));
    if (input == kLeftGate || input == kRightGate) value = 0;
    if (input == kOutGate || input == kToOut) value = static_cast<float>(rounded(11, value));
    if (input == kNormWeight) value = e == 0 ? 0.01f : 0;
    if (input == kNormBias)
      value = static_cast<float>(1 + random.uniform(pair) + random.uniform(static_cast<uint64_t>(e), 1));
  };
  const Comparison c = compare_loop(recipe, recipe, which, change, 128 * 16);
  EXPECT_EQ(c.wrong, 0) << c.max_error_over_bound;
}

// Edges of padding are equal, but they have no errors.
TEST(TriMulOracle, BoundsDoNotDependOnMaskedEdges) {
  for (const Recipe& recipe :
       {recipe_of(Factor::kStored, DType::kF32), recipe_of(Factor::kBF16, DType::kBF16)}) {
    const Case which = problem_of(16, 0);
    const auto padded = [&](bool is_equal) {
      const auto change = [is_equal](size_t input, int64_t e, float& value) {
        const int64_t edge = input == kX ? e / 32 : e;
        if (edge % 16 < 6) return;
        if (input == kMask) value = 0;
        if (input == kX && is_equal) value = 0;
      };
      return expected_of(changed(which, change), recipe, 6 * 32);
    };
    const std::vector<Expected> equal = padded(true), different = padded(false);
    for (size_t e = 0; e < equal.size(); ++e) {
      EXPECT_EQ(equal[e].value, different[e].value);
      EXPECT_EQ(equal[e].bound, different[e].bound) << recipe.to_string();
    }
  }
}

// f16 scales each batch by its own mask.
TEST(TriMulOracle, BoundsDoNotDependOnMasksOfOtherBatches) {
  Case which = problem_of(8, 0);
  which.dims = {{"b", 2}, {"n", 8}, {"c", 32}, {"h", 32}, {"mask", 1}};
  const auto second_batch = [&](float factor) {
    const auto change = [factor](size_t input, int64_t e, float& value) {
      if (input == kMask && e < 8 * 8) value *= factor;
    };
    std::vector<Expected> all = expected_of(changed(which, change), recipe_of(Factor::kF16, DType::kF16));
    all.erase(all.begin(), all.begin() + std::ssize(all) / 2);
    return all;
  };
  const std::vector<Expected> expected = second_batch(1), beside_large = second_batch(1e6f);
  for (size_t e = 0; e < expected.size(); ++e) EXPECT_EQ(expected[e].bound, beside_large[e].bound);
}

// Integers are numbers of the format. As weights they are not rounded, even if gates are saturated.
TEST(TriMulOracle, BoundsOfIntegersAreLessThanValues) {
  Case which = problem_of(9, 483067);
  which.dims = {{"b", 1}, {"n", 9}, {"c", 9}, {"h", 80}, {"mask", 1}};
  which.data = Regime::kIntegers;
  const auto expected = expected_of(changed(which, {}), recipe_of(Factor::kBF16, DType::kBF16));
  const auto known =
      std::ranges::count_if(expected, [](const Expected& e) { return std::abs(e.value) > e.bound; });
  EXPECT_GT(known, std::ssize(expected) / 10);
}

// A problem whose bounds come from all channels at once between some nodes only.
Case large_problem(int64_t batches = 1) {
  Case which = problem_of(48, 3);
  which.dims = {{"b", batches}, {"n", 48}, {"c", 128}, {"h", 128}, {"mask", 1}};
  return which;
}

TEST(TriMulOracle, BoundsCornersOfLargeProblems) {
  SLOW;
  NOT_SANITIZED("minutes of the same code as in other tests, for other numbers");
  const Recipe recipe = recipe_of(Factor::kBF16, DType::kBF16);
  const Comparison c = compare_loop(recipe, recipe, large_problem(), {}, 48 * 128);
  EXPECT_EQ(c.wrong, 0) << c.max_error_over_bound;
  EXPECT_GT(c.max_error_over_bound, 0.05);  // 0.006 without
}

// Weights lie 0.49 of a unit above a number of the format. All edges have the same signs.
TEST(TriMulOracle, BoundsAlikeWeightsOfLargeProblems) {
  NOT_SANITIZED("minutes of the same code as in other tests, for other numbers");
  SLOW;
  for (const Factor factor : {Factor::kBF16, Factor::kF16, Factor::kTF32}) {
    const double unit = factor == Factor::kBF16 ? 0x1p-7 : 0x1p-10;
    const auto change = [unit](size_t input, int64_t e, float& value) {
      const double sign = e % 2 == 0 ? 1 : -1;
      if (input == kLeftGate || input == kRightGate || input == kOutGate || input == kToOutNormBias)
        value = 0;
      if (input == kMask || input == kToOutNormWeight) value = 1;
      if (input == kNormWeight) value = 1e-3f;
      if (input == kNormBias) value = static_cast<float>(sign);
      if (input == kLeftProj)
        value = e < 128
                    ? static_cast<float>(sign * 0x1p-30 * (1 + (static_cast<double>(e % 50) + 0.49) * unit))
                    : 0;
      if (input == kRightProj) value = e == 0 ? 1 : 0;
      if (input == kToOut) value = e % 128 == 0 ? 1 : 0;
    };
    const Recipe recipe = recipe_of(factor, factor == Factor::kBF16 ? DType::kBF16 : DType::kF32);
    const Comparison c = compare_loop(recipe, recipe, large_problem(), change, 48 * 128);
    EXPECT_EQ(c.wrong, 0) << recipe.to_string() << ": " << c.max_error_over_bound;
    EXPECT_GT(c.max_error_over_bound, 0.01) << recipe.to_string();
  }
}

TEST(TriMulOracle, RejectsFactorsOf16BitsInPathsOfF32) {
  const Comparison c = compare_loop(recipe_of(Factor::kStored, DType::kF32),
                                    recipe_of(Factor::kF16, DType::kF16), problem_of(24, 0));
  EXPECT_GT(c.wrong, 0);
}

// A path that the loop stands in for. The recipe judges it.
template <Factor kFactor, DType kBetween>
Path stand_in() {
  Path path = registry().op("trimul").path("cpu");
  path.recipe = [](const Dims&, DType) { return recipe_of(kFactor, kBetween); };
  path.unsupported = [](const Dims& dims, DType) { return unsupported_on_cuda(dims[kC], dims[kH]); };
  path.tunables = {};
  path.run = assay::test::untuned(path.run);
  return path;
}

Subject subject_of(const Path& path) {
  return {.op = &registry().op("trimul"), .path = &path, .oracle = &registry().oracle("trimul")};
}

template <Factor kFactor, DType kBetween>
void expect_shares_to_add_up() {
  const Path path = stand_in<kFactor, kBetween>();
  Problem problem(registry().op("trimul"), path, problem_of(16, 1), cpu());
  problem.draw_inputs(1);
  const Recipe recipe = recipe_of(kFactor, kBetween);
  double bound = 0, variance = 0;
  const std::vector<Expected> expected = expected_of(problem, recipe);
  for (const Expected& e : expected) {
    bound += e.bound / static_cast<double>(expected.size());
    variance += e.variance / static_cast<double>(expected.size());
  }
  const Verdict verdict = judge(subject_of(path), problem, {.shares = true});
  ASSERT_EQ(verdict.outputs.size(), 1U) << verdict.reason;
  double shared_bound = 0, shared_variance = 0;
  for (const Share& share : verdict.outputs[kOut].shares) {
    const double share_variance = share.rms * share.rms;
    const bool is_nothing = share.stage == name_of(Stage::kHiddenStorage) && kBetween == DType::kF32;
    EXPECT_EQ(share_variance <= variance / 0x1p40, is_nothing) << share.stage << recipe.to_string();
    EXPECT_LE(share.bound, bound) << share.stage << " of " << recipe.to_string();
    shared_bound += share.bound;
    shared_variance += share_variance;
  }
  // Square roots of sums are less than sums of the roots. The rest is of second order.
  EXPECT_GE(shared_bound, bound / 2) << recipe.to_string();
  EXPECT_GE(shared_variance, variance / 2) << recipe.to_string();
  EXPECT_LE(shared_variance, variance * 2) << recipe.to_string();
}
TEST(TriMulOracle, SharesOfItsStagesAddUp) {
  NOT_SANITIZED("minutes of the same code as in other tests, for other numbers");
  expect_shares_to_add_up<Factor::kStored, DType::kF32>();
  expect_shares_to_add_up<Factor::kF16, DType::kF16>();
  expect_shares_to_add_up<Factor::kTF32, DType::kF32>();
  expect_shares_to_add_up<Factor::kBF16x3, DType::kF32>();
}

void for_cases(const Path& path, const FuzzOptions& options,
               const std::function<void(const Judged&)>& visit_one) {
  fuzz(subject_of(path), cpu(), options, [&](const Judged& judged) {
    visit_one(judged);
    return true;
  });
}

// A path that does round its factors, on data of all kinds.
template <Factor kFactor, DType kBetween, Sums kSums = Sums::kExact>
void expect_right() {
  Path path = stand_in<kFactor, kBetween>();
  path.run = [](const Call& call) {
    const std::vector<double> out = Loop(call.dims, call.inputs, recipe_of(kFactor, kBetween), kSums).out();
    const TensorView& to = call.outputs[kOut];
    for (int64_t e = 0; e < to.size(); ++e)
      to.as<float>()[offset_of(index_of(e, to.shape), to.strides)] =
          static_cast<float>(out[static_cast<size_t>(e)]);
  };
  FuzzOptions options;
  options.cases = 400;
  options.seed = 7;
  options.max_elements = 1 << 12;
  options.max_shrinks = 0;
  int passed = 0;
  for_cases(path, options, [&](const Judged& judged) {
    EXPECT_NE(judged.verdict.kind, VerdictKind::kFail)
        << judged.which.to_string() << ": " << judged.verdict.reason;
    passed += judged.verdict.kind == VerdictKind::kPass ? 1 : 0;
  });
  EXPECT_GT(passed, 200);
}
TEST(TriMulOracle, PathsOfF16AreRight) {
  SLOW;
  NOT_SANITIZED("minutes of the same code as in other tests, for other numbers");
  expect_right<Factor::kF16, DType::kF16>();
}
TEST(TriMulOracle, PathsOfBF16AreRight) {
  SLOW;
  NOT_SANITIZED("minutes of the same code as in other tests, for other numbers");
  expect_right<Factor::kBF16, DType::kBF16>();
}
TEST(TriMulOracle, PathsOfTF32AreRight) {
  SLOW;
  NOT_SANITIZED("minutes of the same code as in other tests, for other numbers");
  expect_right<Factor::kTF32, DType::kF32>();
}
TEST(TriMulOracle, PathsOfSplitTF32AreRight) {
  SLOW;
  NOT_SANITIZED("minutes of the same code as in other tests, for other numbers");
  expect_right<Factor::kTF32x3, DType::kF32, Sums::kTruncated>();
}

// Without CUDA no path has these recipes. The CPU path stands in, as in FuzzEveryOp.
template <Factor kFactor, DType kBetween>
void expect_trusted() {
  FuzzOptions options;
  options.cases = 60;
  options.max_shrinks = 0;
  for_cases(stand_in<kFactor, kBetween>(), options, [](const Judged& judged) {
    EXPECT_NE(judged.verdict.kind, VerdictKind::kMistrusted)
        << judged.which.to_string() << ": " << judged.verdict.reason;
  });
}
template <Factor kFactor, DType kBetween>
void expect_large_trusted() {
  const Path path = stand_in<kFactor, kBetween>();
  const Verdict verdict = judge(subject_of(path), large_problem(), cpu());
  EXPECT_EQ(verdict.kind, VerdictKind::kPass) << verdict.reason;
}
TEST(TriMulOracle, BoundsOfLargeProblemsMeanSomething) {
  NOT_SANITIZED("minutes of the same code as in other tests, for other numbers");
  SLOW;
  expect_large_trusted<Factor::kF16, DType::kF16>();
  expect_large_trusted<Factor::kBF16, DType::kBF16>();
  expect_large_trusted<Factor::kTF32, DType::kF32>();
  expect_large_trusted<Factor::kTF32x3, DType::kF32>();
}

// If gates are uncertain, following the errors of weights through the sum over k may say less than
// not following them.
TEST(TriMulOracle, BoundsOfHeavyTailsMeanSomething) {
  NOT_SANITIZED("minutes of the same code as in other tests, for other numbers");
  for (const uint64_t seed : {7, 14}) {
    Case which = problem_of(32, seed);
    which.dims = {{"b", 1}, {"n", 32}, {"c", 128}, {"h", 128}, {"mask", seed % 2 == 0 ? 0 : 1}};
    which.data = Regime::kHeavyTail;
    const Path path = stand_in<Factor::kBF16, DType::kBF16>();
    const Verdict verdict = judge(subject_of(path), which, cpu());
    EXPECT_EQ(verdict.kind, VerdictKind::kPass) << seed << ": " << verdict.reason;
  }
}

// A result is right except for the edges of one first node, which are 0. Tells between which nodes
// this shows.
TEST(TriMulOracle, RejectsLostRowsOfLargeProblems) {
  SLOW;
  NOT_SANITIZED("minutes of the same code as in other tests, for other numbers");
  const Case which = large_problem(2);
  const Path right = stand_in<Factor::kBF16, DType::kBF16>();
  Path wrong = right;
  wrong.run = [&](const Call& call) {
    right.run(call);
    const TensorView& to = call.outputs[kOut];
    for (int64_t e = 94 * 48 * 128; e < 95 * 48 * 128; ++e)
      to.as<float>()[offset_of(index_of(e, to.shape), to.strides)] = 0;
  };
  EXPECT_EQ(judge(subject_of(right), which, cpu()).kind, VerdictKind::kPass);
  EXPECT_EQ(judge(subject_of(wrong), which, cpu()).kind, VerdictKind::kFail);

  const std::vector<Expected> expected =
      expected_of(changed(which, {}), recipe_of(Factor::kBF16, DType::kBF16));
  for (int64_t first : {0, 19, 46, 47, 48, 67, 94, 95}) {
    const std::span row = std::span(expected).subspan(static_cast<size_t>(first * 48 * 128), 48 * 128);
    EXPECT_TRUE(std::ranges::any_of(row, [](const Expected& e) { return std::abs(e.value) > 2 * e.bound; }))
        << first;
  }
}

// A block of lost edges is rejected, too, between nodes without bounds of all channels at once, in
// bf16 and with a mask.
TEST(TriMulOracle, RejectsLostBlocksOfLargeProblems) {
  SLOW;
  NOT_SANITIZED("minutes of the same code as in other tests, for other numbers");
  for (const int64_t n : {32, 64}) {
    const Case which = {.op = "trimul",
                        .path = "stand_in",
                        .dtype = DType::kF32,
                        .dims = {{"b", 1}, {"n", n}, {"c", 128}, {"h", 128}, {"mask", 1}}};
    const Path right = stand_in<Factor::kBF16, DType::kBF16>();
    Path wrong = right;
    wrong.run = [&](const Call& call) {
      right.run(call);
      const TensorView& to = call.outputs[kOut];
      for (int64_t i = n / 2; i < n * 3 / 4; ++i) {
        for (int64_t e = (i * n + n / 2) * 128; e < (i * n + n * 3 / 4) * 128; ++e)
          to.as<float>()[offset_of(index_of(e, to.shape), to.strides)] = 0;
      }
    };
    EXPECT_EQ(judge(subject_of(right), which, cpu()).kind, VerdictKind::kPass);
    const Verdict verdict = judge(subject_of(wrong), which, cpu());
    EXPECT_EQ(verdict.kind, VerdictKind::kFail) << verdict.reason;
  }
}

// The edges whose bounds come from all channels at once are part of every sample.
TEST(TriMulOracle, SamplesOfLargeProblemsHaveTheirSharpestBounds) {
  const std::vector<int64_t> sample = compared_elements({2, 256, 256, 128}, 1, true);
  const auto channels_of = [&](int64_t b, int64_t i, int64_t j) {
    const int64_t first = ((b * 256 + i) * 256 + j) * 128;
    return std::ranges::lower_bound(sample, first + 128) - std::ranges::lower_bound(sample, first);
  };
  for (int64_t b : {0, 1}) {
    for (int64_t i : {0, 254, 255}) {
      for (int64_t j : {0, 254, 255}) EXPECT_EQ(channels_of(b, i, j), 128);
      EXPECT_GE(channels_of(b, i, 102), 6);
      EXPECT_GE(channels_of(b, 102, i), 6);
    }
  }
}
TEST(TriMulOracle, BoundsOfBF16MeanSomething) {
  if (kHasCuda) GTEST_SKIP() << "BoundsOfEveryRecipeMeanSomething asks the paths themselves";
  NOT_SANITIZED("minutes of the same code as in other tests, for other numbers");
  expect_trusted<Factor::kBF16, DType::kBF16>();
}
TEST(TriMulOracle, BoundsOfSplitTF32MeanSomething) {
  if (kHasCuda) GTEST_SKIP() << "BoundsOfEveryRecipeMeanSomething asks the paths themselves";
  NOT_SANITIZED("minutes of the same code as in other tests, for other numbers");
  expect_trusted<Factor::kTF32x3, DType::kF32>();
}
TEST(TriMulOracle, BoundsOfF16MeanSomething) {
  if (kHasCuda) GTEST_SKIP() << "BoundsOfEveryRecipeMeanSomething asks the paths themselves";
  NOT_SANITIZED("minutes of the same code as in other tests, for other numbers");
  expect_trusted<Factor::kF16, DType::kF16>();
}
}  // namespace
}  // namespace assay::trimul
