// SPDX-License-Identifier: Apache-2.0
// Every law holds for every production path that this machine can run, and at least one specimen
// breaks it.
#include <cmath>
#include <limits>
#include <map>

#include "kernels/trimul/trimul.h"
#include "properties/core/planted.h"
#include "properties/core/precheck.h"
#include "properties/core/runs.h"
#include "properties/core/specimen.h"
#include "properties/self/gpu.h"
#include "properties/self/support.h"

namespace assay {
namespace {

constexpr uint64_t kSeeds = 32;
constexpr uint64_t kSeedsOnTheCpu = test::kIsSanitized ? 8 : kSeeds;

class EveryLaw : public testing::TestWithParam<const Law*> {
 protected:
  const Law& law() const { return *GetParam(); }
  const Op& op() const { return registry().op(law().op); }
  void expect_held_on_cases(DeviceKind kind, Device& device, int cases) const;

  void expect_held(DeviceKind kind, Device& device, uint64_t seeds) const {
    for (const Path& path : op().paths) {
      if (path.device != kind) continue;
      for (uint64_t seed = 0; seed < seeds; ++seed) {
        const auto violation = law().violation(op(), path, device, seed);
        EXPECT_FALSE(violation) << law().statement << ": " << *violation;
      }
    }
  }
};

std::vector<const Law*> all_laws() {
  std::vector<const Law*> all;
  for (const Law& law : registry().laws()) all.push_back(&law);
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, EveryLaw, testing::ValuesIn(all_laws()), [](const auto& test) {
  return fmt::format("{}_{}", test.param->op, test.param->name);
});

TEST_P(EveryLaw, HoldsOnTheCpu) {
  expect_held(DeviceKind::kCpu, test::cpu(), kSeedsOnTheCpu);
}

// On the inputs of cases, which are small here: any data, layouts and sizes.
void EveryLaw::expect_held_on_cases(DeviceKind kind, Device& device, int cases) const {
  for (const Path& path : op().paths) {
    if (path.device != kind) continue;
    const Subject subject = registry().subject(op().name, path.name);
    const rc::Gen<Case> generator = arbitrary_case(op(), path, 512);
    rc::Random random(11);
    int tried = 0;
    for (int drawn = 0; drawn < 40 * cases && tried < cases; ++drawn) {
      const Case which = generator(random.split(), rc::kNominalSize).value();
      if (precheck(subject, which).verdict) continue;
      if (std::ranges::count(laws_on(subject, which), &law()) == 0) continue;
      Problem problem(op(), path, which, device);
      problem.draw_inputs(which.seed);
      const auto violation = law().violation_by(problem);
      EXPECT_FALSE(violation) << which.to_string() << ": " << law().statement << ": " << *violation;
      ++tried;
    }
    EXPECT_EQ(tried, cases) << path.name;
  }
}

TEST_P(EveryLaw, HoldsOnCasesOnTheCpu) {
  expect_held_on_cases(DeviceKind::kCpu, test::cpu(), test::kIsSanitized ? 10 : 60);
}

TEST_P(EveryLaw, HoldsOnCasesOnTheGpu) {
  const test::Gpu gpu = test::gpu();
  if (gpu.device == nullptr) GTEST_SKIP() << gpu.why_not;
  expect_held_on_cases(DeviceKind::kCuda, *gpu.device, 60);
}

TEST_P(EveryLaw, HoldsOnTheGpu) {
  const test::Gpu gpu = test::gpu();
  if (gpu.device == nullptr) GTEST_SKIP() << gpu.why_not;
  expect_held(DeviceKind::kCuda, *gpu.device, kSeeds);
}

TEST_P(EveryLaw, IsBrokenBySomeSpecimenAndNamesTheCase) {
  NOT_SANITIZED("a specimen is a loop that is tested, with a fault in it; nobody ships one");
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    for (const Specimen& specimen : registry().specimens(op())) {
      // A specimen that differs from call to call breaks almost every law, so it shows nothing
      // about this one.
      if (specimen.path.name == "specimen.nondeterministic") continue;
      const auto violation = law().violation(op(), specimen.path, test::cpu(), seed);
      if (!violation) continue;
      EXPECT_THAT(*violation, testing::HasSubstr(fmt::format("{}/{}", specimen.op, specimen.path.name)));
      EXPECT_THAT(*violation, testing::HasSubstr(fmt::format("seed={}", seed)));
      return;
    }
  }
  ADD_FAILURE() << "nothing breaks the law: " << law().statement;
}

const Law& law_of(std::string_view op, std::string_view name) {
  for (const Law* law : all_laws()) {
    if (law->op == op && law->name == name) return *law;
  }
  throw Error("{} has no law {}", op, name);
}

// Factors in f16 that are scaled by the largest element of the mask are stored as they are where
// that is infinite. Large ones overflow. Of small ones the sums underflow.
TEST(InfinityInMask, DecidesNoScale) {
  using namespace trimul;
  const Law& law = law_of("trimul", "infinity_in_mask");
  const Op& op = registry().op(law.op);
  for (const bool overflows : {true, false}) {
    Path path = op.path("cpu");
    path.run = [run = path.run, overflows](const Call& call) {
      run(call);
      const Elements<float> mask(call.inputs[kMask]), out(call.outputs[kOut]);
      const int64_t nodes = call.dims[kN];
      for (int64_t b = 0; b < call.dims[kB]; ++b) {
        bool is_infinite = false;
        float largest = 0;  // of the finite ones
        const auto for_each_edge = [&](auto visit) {
          for (int64_t e = 0; e < nodes * nodes; ++e) visit(e / nodes, e % nodes);
        };
        for_each_edge([&](int64_t i, int64_t k) {
          const float magnitude = call.dims[kM] == 0 ? 1 : std::abs(mask(b, i, k));
          is_infinite |= std::isinf(magnitude);
          if (std::isfinite(magnitude)) largest = std::max(largest, magnitude);
        });
        if (!is_infinite || (overflows ? largest < 65504 : largest > 0.125F)) continue;
        for_each_edge([&](int64_t i, int64_t k) {
          for (int64_t c = 0; c < call.dims[kC]; ++c) {
            float& value = out(b, i, k, c);
            value = overflows ? std::numeric_limits<float>::quiet_NaN() : value + 1;
          }
        });
      }
    };
    uint64_t broken = 0;
    for (uint64_t seed = 0; seed < kSeeds; ++seed)
      broken += law.violation(op, path, test::cpu(), seed).has_value();
    EXPECT_GE(broken, kSeeds / 4) << overflows;
  }
}

// hidden of an example is normalised with the scales of example 0. So epsilon counts as for a mask
// that is as large as that of example 0.
TEST(MasksOfOtherExamples, DecideNoScale) {
  using namespace trimul;
  const Law& law = law_of("trimul", "masks_of_other_examples");
  const Op& op = registry().op(law.op);
  Path path = op.path("cpu");
  path.run = [run = path.run](const Call& call) {
    const Elements<float> mask(call.inputs[kMask]);
    const int64_t nodes = call.dims[kN], edges = nodes * nodes;
    int first = 0;  // exponent of the largest element of example 0
    for (int64_t b = 0; b < call.dims[kB]; ++b) {
      float largest = 0;
      for (int64_t e = 0; e < edges; ++e)
        largest = std::max(largest, std::abs(mask(b, e / nodes, e % nodes)));
      if (b == 0) first = std::ilogb(largest);
      for (int64_t e = 0; e < edges; ++e) {
        float& value = mask(b, e / nodes, e % nodes);
        value = std::ldexp(value, first - std::ilogb(largest));
      }
    }
    run(call);
  };
  uint64_t broken = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed)
    broken += law.violation(op, path, test::cpu(), seed).has_value();
  EXPECT_EQ(broken, kSeeds);
}

// The law with a tolerance sees faults of either output. In bf16 the rounding of the outputs hides
// some of them.
TEST(Adjointness, SeesFaultsOfEitherGradient) {
  const Law& law = law_of("cheri_conv_norm_grad", "adjointness");
  const Op& op = registry().op(law.op);
  for (std::string_view fault : {"mean_of_dy_left_out", "second_term_left_out", "taps_of_dx_not_swapped",
                                 "dw_of_last_example", "sample_variance"}) {
    std::map<DType, int> broken;
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      const auto violation = law.violation(op, test::specimen(law.op, fault).path, test::cpu(), seed);
      if (!violation) continue;
      for (DType dtype : {DType::kF32, DType::kF16})
        broken[dtype] += violation->find(fmt::format("/{}/", name_of(dtype))) != std::string::npos;
    }
    EXPECT_GE(broken[DType::kF32], 3) << fault;
    EXPECT_GE(broken[DType::kF16], 1) << fault;
  }
}

}  // namespace
}  // namespace assay
