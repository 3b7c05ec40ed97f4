// SPDX-License-Identifier: Apache-2.0
// The oracle of trimul where data choose what f32 rounds, at all edges and in all channels alike: of x near a far value, of
// terms that are less than half a unit of the sum, of what underflows.
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/trimul/trimul.h"
#include "oracles/core/compare.h"
#include "properties/core/random.h"
#include "properties/self/support.h"
#include "properties/self/trimul_loop.h"

namespace assay::trimul {
namespace {

using test::Change;
using test::changed;
using test::compare_loop;
using test::expected_of;
using test::problem_of;
using test::recipe_of;
using test::Sums;

constexpr int64_t kHidden = 32;
constexpr double kLittle = 0.98 * 0x1p-24;  // less than half a unit of 1

Case sized(int64_t n, int64_t c, int64_t h = kHidden) {
  Case which = problem_of(n, 1);
  which.dims = {{"b", 1}, {"n", n}, {"c", c}, {"h", h}, {"mask", 1}};
  return which;
}

double sign_of(int64_t i) {
  return i % 2 == 0 ? 1 : -1;
}

// right is as large as its one channel of xn. out is the first channel of hidden, whose norm eps makes linear.
void set_right_and_out(Input input, int64_t e, int64_t channels, float& value) {
  if (input == kMask || input == kToOutNormWeight) value = 1;
  if (input == kLeftGate || input == kRightGate || input == kOutGate || input == kToOutNormBias) value = 0;
  if (input == kRightProj) value = e == 0 ? 1 : 0;
  if (input == kLeftProj && e >= channels) value = 0;
  if (input == kToOut) value = e % kHidden == 0 ? 1 : 0;
}

// The CPU path, and a loop of sums in f32.
void expect_bounded(const Case& which, const Change& change) {
  const Recipe recipe = recipe_of(Factor::kStored, DType::kF32);
  const int64_t count = 2 * which.dims["c"];
  const Comparison of_loop = compare_loop(recipe, recipe, which, change, count, Sums::kRounded);
  EXPECT_EQ(of_loop.wrong, 0) << "loop: " << of_loop.max_error_over_bound;
  Problem problem = changed(which, change);
  problem.run();
  const TensorBytes outputs = problem.outputs();
  const auto* got = reinterpret_cast<const float*>(outputs[0].data());
  const std::vector<Expected> expected = expected_of(problem, recipe, count);
  Comparison of_path;
  for (size_t i = 0; i < expected.size(); ++i)
    of_path.add(expected[i], got[i], static_cast<int64_t>(i), DType::kF32);
  EXPECT_EQ(of_path.wrong, 0) << "path: " << of_path.max_error_over_bound;
}

// x - x[0] rounds all channels but the first one, by a sign that alternates as the weights do.
TEST(TriMulOracle, BoundsDifferencesFromAFarValue) {
  constexpr int64_t kChannels = 129;
  const auto change = [](Input input, int64_t e, float& value) {
    const int64_t c = e % kChannels;
    set_right_and_out(input, e, kChannels, value);
    if (input == kX) {
      const double uniform = CounterRandom(1, 77).uniform(static_cast<uint64_t>(e));
      value = c == 0 ? -1.0f
                     : static_cast<float>(std::floor(8192 + 8192 * uniform) * 0x1p-22 + sign_of(c) * kLittle);
    }
    if (input == kNormWeight) value = 1;
    if (input == kNormBias) value = 0;
    if (input == kLeftProj && e < kChannels) value = c > 0 ? static_cast<float>(sign_of(c) * 0x1p-12) : 0;
  };
  expect_bounded(sized(32, kChannels), change);
}

// What the bias takes from xn, at all edges.
TEST(TriMulOracle, BoundsBiasesThatAbsorbXn) {
  constexpr int64_t kChannels = 4;
  const auto change = [](Input input, int64_t e, float& value) {
    const int64_t c = e % kChannels;
    set_right_and_out(input, e, kChannels, value);
    if (input == kX) {
      const double uniform = CounterRandom(2, 77).uniform(static_cast<uint64_t>(e));
      value = static_cast<float>(sign_of(c) * (0.95 + 0.05 * uniform));
    }
    if (input == kNormWeight) value = 5.6e-8f;
    if (input == kNormBias) value = 1.5f;
    if (input == kLeftProj && e < kChannels) value = static_cast<float>(sign_of(c) * 0x1p-6);
  };
  expect_bounded(sized(1024, kChannels), change);
}

// Terms that a sum of 1 does not take notice of: of a projection at edges that differ in a channel which p does not see, of
// hidden, of the last sum.
TEST(TriMulOracle, BoundsProjectionsOfLittleTerms) {
  constexpr int64_t kChannels = 128;
  const auto change = [](Input input, int64_t e, float& value) {
    const int64_t c = e % kChannels;
    set_right_and_out(input, e, kChannels, value);
    if (input == kNormWeight) value = c == kChannels - 2 ? 1e-3f : 0;
    if (input == kNormBias) value = 1;
    if (input != kLeftProj || e >= kChannels) return;
    const double last = c == kChannels - 1 ? -1 : c == kChannels - 2 ? 0 : kLittle;
    value = static_cast<float>(0x1p-12 * (c == 0 ? 1 : last));
  };
  expect_bounded(sized(32, kChannels), change);
}
TEST(TriMulOracle, BoundsHiddenOfLittleTerms) {
  constexpr int64_t kChannels = 4, kNodes = 768;
  const auto change = [](Input input, int64_t e, float& value) {
    set_right_and_out(input, e, kChannels, value);
    if (input == kMask && e > 0 && e < kNodes) value = static_cast<float>(kLittle);
    if (input == kNormWeight) value = 1e-3f;
    if (input == kNormBias) value = 1;
    if (input == kLeftProj && e < kChannels) value = e == 0 ? 0x1p-12f : 0;
  };
  expect_bounded(sized(kNodes, kChannels), change);
}
TEST(TriMulOracle, BoundsLastSumsOfLittleTerms) {
  for (const int64_t h : {128, 1024}) {
    const auto change = [h](Input input, int64_t e, float& value) {
      if (input == kToOutNormWeight || input == kOutGate) value = 0;
      if (input == kToOutNormBias) value = 1;
      if (input == kToOut) value = e % h == 0 ? 1 : static_cast<float>(kLittle);
    };
    expect_bounded(sized(2, 4, h), change);
  }
}

// All of xn but two values is less than half of 2^-149, and has the signs of the weights.
TEST(TriMulOracle, BoundsUnderflowOfXn) {
  constexpr int64_t kChannels = 34;
  const auto change = [](Input input, int64_t e, float& value) {
    const int64_t c = e % kChannels;
    set_right_and_out(input, e, kChannels, value);
    if (input == kX) {
      const double uniform = CounterRandom(6, 77).uniform(static_cast<uint64_t>(e));
      value = static_cast<float>(sign_of(c) * (c < 2 ? 4 : 0.40 + 0.08 * uniform));
    }
    if (input == kNormWeight) value = c < 2 ? 1 : 0x1p-149f;
    if (input == kNormBias) value = 0;
    if (input == kLeftProj && e < kChannels) value = c < 2 ? 0 : static_cast<float>(sign_of(c) * 0x1p120);
  };
  expect_bounded(sized(64, kChannels), change);
}

// Sigmoids below 2^-126, which the path takes for 0, times what makes them visible.
TEST(TriMulOracle, BoundsUnderflowOfGates) {
  constexpr int64_t kChannels = 4;
  const auto change = [](Input input, int64_t e, float& value) {
    const int64_t c = e % kChannels;
    set_right_and_out(input, e, kChannels, value);
    if (input == kNormWeight) value = c == 1 ? 0 : 1e-4f;
    if (input == kNormBias) value = 1;
    if (input == kLeftProj && e < kChannels) value = e == 0 ? 0x1p100f : 0;
    if (input == kLeftGate) value = c == 1 ? -87.34f : 0;
    if (input == kRightProj) value = e == 0 ? 0x1p7f : 0;
  };
  expect_bounded(sized(384, kChannels), change);
}

// left is less than half of 2^-149 by its gate, right is large; and products of both are.
TEST(TriMulOracle, BoundsUnderflowOfFactorsAndProducts) {
  constexpr int64_t kChannels = 2;
  for (const bool is_product : {false, true}) {
    const auto change = [is_product](Input input, int64_t e, float& value) {
      set_right_and_out(input, e, kChannels, value);
      if (input == kNormWeight) value = 1e-4f;
      if (input == kNormBias) value = 1;
      if (input == kLeftGate) value = !is_product && e % kChannels == 0 ? -34 : 0;
      if (input == kLeftProj && e < kChannels) value = e > 0 ? 0 : is_product ? 0x1p-74f : 0x1p-101f;
      if (input == kRightProj) value = e > 0 ? 0 : is_product ? 0.95f * 0x1p-74f : 0x1p115f;
      if (input == kToOutNormWeight && is_product) value = 0x1p126f;
    };
    expect_bounded(sized(is_product ? 768 : 1152, kChannels), change);
  }
}

// A problem of which only a few tensors are not 0, 1 where they multiply: N nodes, one batch.
struct Sparse {
  int64_t n, c, h;
  Change change;  // sees 0, or 1 in mask and weights of norms
  Case sized() const { return trimul::sized(n, c, h); }
  Change all() const {
    return [change = change](Input input, int64_t e, float& value) {
      value = input == kMask || input == kNormWeight || input == kToOutNormWeight ? 1 : 0;
      change(input, e, value);
    };
  }
};

void expect_loop_bounded(Factor factor, const Sparse& problem) {
  const Recipe recipe = recipe_of(factor, DType::kF32);
  const Comparison of_loop =
      compare_loop(recipe, recipe, problem.sized(), problem.all(), problem.c, Sums::kRounded);
  EXPECT_EQ(of_loop.wrong, 0) << name_of(factor) << ": " << of_loop.max_error_over_bound;
}

// The first channel of xn is 2^-70, the others are about +-1.002 * 2^-137, or 2^-136 and 0 as factors in tf32.
float about_half_of_the_smallest(int64_t c) {
  return c == 0 ? 0x1p-80f : static_cast<float>((1 + sign_of(c) * 0.002) * 0x1p-137);
}

// left is 1.008 * 2^-137, and so is 2^-136 as a factor; right is what xn lost.
TEST(TriMulOracle, BoundsProductsOfUnderflowOfBothSides) {
  for (const int64_t n : {1, 4}) {
    const Sparse problem{n, 257, 64, [](Input input, int64_t e, float& value) {
                           const int64_t c = e % 257;
                           if (input == kX) value = c == 0 ? 0 : static_cast<float>(sign_of(c));
                           if (input == kNormWeight) value = about_half_of_the_smallest(c);
                           if (input == kNormBias) value = c == 0 ? 0x1p-70f : 0;
                           if (input == kLeftProj) value = e == 0 ? (1 + 0x1p-7f) * 0x1p-66f : 0;
                           if (input == kRightProj) value = e > 0 && e < 257 ? 0x1p126f : 0;
                           if (input == kToOutNormWeight) value = 0x1p126f;
                           if (input == kToOut) value = e % 64 == 0 ? 1 : 0;
                         }};
    expect_loop_bounded(Factor::kTF32, problem);
    expect_loop_bounded(Factor::kTF32x3, problem);
  }
}

// y is what left lost, its gate what xn lost.
TEST(TriMulOracle, BoundsProductsOfUnderflowAndTheGatesError) {
  constexpr int64_t kChannels = 769, kHiddenChannels = 8;
  const Sparse problem{1, kChannels, kHiddenChannels, [](Input input, int64_t e, float& value) {
                         const int64_t c = e % kChannels;
                         if (input == kX) value = c == 0 ? 0 : static_cast<float>(sign_of(c));
                         if (input == kNormWeight) value = about_half_of_the_smallest(c);
                         if (input == kNormBias) value = c == 0 ? 0x1p-70f : 0;
                         if (input == kLeftProj) value = e == 0 ? (1 + 0x1p-7f) * 0x1p-66f : 0;
                         if (input == kRightProj) value = e == 0 ? 0x1p71f : 0;
                         if (input == kOutGate && e < kChannels)
                           value = e == 0 ? -20 * 0x1p70f : 1.875f * 0x1p127f;
                         if (input == kToOutNormWeight) value = 0x1p126f;
                         if (input == kToOutNormBias) {
                           const double hidden = (1 + 0x1p-7) * 0x1p-137, share = 1.0 / kHiddenChannels;
                           const double sigma =
                               std::sqrt(hidden * hidden * (share - share * share) + kEpsilon);
                           value = static_cast<float>(-hidden * (1 - share) / sigma * 0x1p126);
                         }
                         if (input == kToOut) value = e % kHiddenChannels == 0 ? 1 : 0;
                       }};
  expect_loop_bounded(Factor::kTF32, problem);
  expect_loop_bounded(Factor::kTF32x3, problem);
}

// p is 0, but not with what xn lost; what a path has of it is no factor.
TEST(TriMulOracle, BoundsUnderflowWherePCancels) {
  constexpr int64_t kParts = 64, kChannels = 4 * kParts + 2;
  const Sparse problem{1, kChannels, 64, [](Input input, int64_t e, float& value) {
                         const int64_t c = e % kChannels;
                         const bool is_last = c >= kChannels - 2, is_fourth = c % 4 == 3;
                         if (input == kX) value = is_last ? (c == kChannels - 1 ? 1 : -1) : 0;
                         if (input == kNormWeight) value = is_last ? 0x1p-80f : 0x1p-149f;
                         if (input == kNormBias)
                           value = is_last ? 0x1p-70f : (is_fourth ? 12280 : 4605) * 0x1p-149f;
                         if (input == kLeftProj && e < kChannels)
                           value = is_last ? 0 : is_fourth ? -1.125f : 1;
                         if (input == kRightProj) value = e == kChannels - 1 ? 0x1p71f : 0;
                         if (input == kMask) value = 1.004f / (1.875f * kParts);
                         if (input == kToOutNormWeight) value = 0x1p126f;
                         if (input == kToOut) value = e % 64 == 0 ? 1 : 0;
                       }};
  expect_loop_bounded(Factor::kTF32, problem);
  expect_loop_bounded(Factor::kTF32x3, problem);
}

// The mean of a row and its normalised deviations underflow before large weights.
TEST(TriMulOracle, BoundsUnderflowBeforeTheWeightsOfTheNorms) {
  for (const float first : {0.0f, -0x1p-149f}) {
    const auto change = [first](Input input, int64_t e, float& value) {
      if (input == kX) value = e % 2 == 0 ? first : 0x1p-149f;
      if (input == kNormWeight) value = 0x1p120f;
      if ((input == kLeftProj || input == kRightProj) && e == 0) value = 0x1p20f;
      if (input == kToOut) value = e % 4 == 0 ? 1 : 0;
    };
    const Sparse problem{1, 2, 4, change};
    expect_bounded(problem.sized(), problem.all());
    expect_loop_bounded(Factor::kTF32, problem);
  }
  for (const int64_t h : {64, 256, 1000}) {
    const Sparse problem{1, 2, h, [h](Input input, int64_t e, float& value) {
                           if (input == kNormWeight) value = 0;
                           if (input == kNormBias) value = 1;
                           if (input == kLeftProj && e == 0) value = 0.4f * static_cast<float>(h) * 0x1p-100f;
                           if (input == kRightProj && e == 0) value = 0x1p-47f;
                           if (input == kToOutNormWeight) value = 0x1p126f;
                           if (input == kToOut) value = e % h == 0 ? 0 : 1;
                         }};
    expect_bounded(problem.sized(), problem.all());
  }
}

// y is large, z is less than half of 2^-149; and a sigmoid that is hardly above 2^-126.
TEST(TriMulOracle, BoundsUnderflowOfZ) {
  for (const bool is_edge : {false, true}) {
    const Sparse problem{1, 1, 1, [is_edge](Input input, int64_t, float& value) {
                           if (input == kNormWeight || input == kToOutNormWeight) value = 0;
                           if (input == kNormBias) value = 1;
                           if (input == kOutGate) value = is_edge ? -87.3365f : -40;
                           if (input == kToOutNormBias)
                             value = is_edge ? 0x1p120f : static_cast<float>(0.9 * 0x1p-150 * std::exp(40.0));
                           if (input == kToOut) value = is_edge ? 1 : 0x1p126f;
                         }};
    expect_bounded(problem.sized(), problem.all());
  }
}

// What may exceed the range of f32 on the way to a result within it, or as a factor.
TEST(TriMulOracle, IsOpenWhereWhatIsBetweenMayOverflow) {
  const auto is_open = [](Factor factor, Input large, float by) {
    const Sparse problem{1, 1, 2, [=](Input input, int64_t e, float& value) {
                           if (input == kNormBias) value = 1;
                           if (input == kNormWeight) value = 0;
                           if (input == kLeftProj || input == kRightProj) value = e == 0 ? 0x1p-100f : 0;
                           if (input == kToOut) value = 0x1p-100f;
                           if (input == large && e == 0) value = by;
                         }};
    const Problem changed_problem = changed(problem.sized(), problem.all());
    return expected_of(changed_problem, recipe_of(factor, DType::kF32))[0].is_open;
  };
  for (const Factor factor : {Factor::kStored, Factor::kTF32, Factor::kTF32x3, Factor::kBF16}) {
    EXPECT_TRUE(is_open(factor, kToOutNormBias, 3e38f)) << name_of(factor);
    EXPECT_FALSE(is_open(factor, kToOutNormBias, 1e38f)) << name_of(factor);
    EXPECT_FALSE(is_open(factor, kLeftProj, 1e25f)) << name_of(factor);
  }
  const float most = std::numeric_limits<float>::max();
  for (const Input input : {kLeftProj, kRightProj, kLeftGate, kRightGate, kOutGate, kToOut}) {
    EXPECT_TRUE(is_open(Factor::kTF32, input, most)) << input;
    EXPECT_TRUE(is_open(Factor::kTF32x3, input, most)) << input;
    EXPECT_TRUE(is_open(Factor::kBF16, input, 3.4e38f)) << input;
  }
}

}  // namespace
}  // namespace assay::trimul
