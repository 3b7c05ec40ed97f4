// SPDX-License-Identifier: Apache-2.0
// The oracle of trimul on problems in which only a few tensors are not 0, so that one error shows:
// underflow combined with other errors, sigmas that grow, roundings of values that are wrong
// already, overflow on the way to a result within the range.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/trimul/trimul.h"
#include "oracles/core/bound.h"
#include "oracles/core/compare.h"
#include "properties/self/support.h"
#include "properties/self/trimul_loop.h"

namespace assay::trimul {
namespace {

using test::changed;
using test::compare_loop;
using test::expect_bounded;
using test::expected_of;
using test::recipe_of;
using test::rounded;
using test::sign_of;
using test::Sparse;
using test::Sums;

void expect_loop_bounded(Factor factor, const Sparse& problem) {
  const Recipe recipe = recipe_of(factor, DType::kF32);
  const Comparison of_loop =
      compare_loop(recipe, recipe, problem.sized(), problem.all(), problem.c, Sums::kRounded);
  EXPECT_EQ(of_loop.wrong, 0) << name_of(factor) << ": " << of_loop.max_error_over_bound;
}

// The first channel of xn is 2^-70, the others are about +-1.002 * 2^-137, or 2^-136 and 0 as
// factors in tf32.
float about_half_of_the_smallest(int64_t c) {
  return c == 0 ? 0x1p-80f : static_cast<float>((1 + sign_of(c) * 0.002) * 0x1p-137);
}

// left is 1.008 * 2^-137, which is 2^-136 as a factor. right is what xn lost.
TEST(TriMulOracle, BoundsProductsOfUnderflowOfBothSides) {
  for (const int64_t n : {1, 4}) {
    const Sparse problem{n, 257, 64, [](size_t input, int64_t e, float& value) {
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

// y is what left lost, and its gate is what xn lost.
TEST(TriMulOracle, BoundsProductsOfUnderflowAndTheGatesError) {
  constexpr int64_t kChannels = 769, kHiddenChannels = 8;
  const Sparse problem{1, kChannels, kHiddenChannels, [](size_t input, int64_t e, float& value) {
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

// p is 0, but not after the losses of xn. What a path gets for p is no factor.
TEST(TriMulOracle, BoundsUnderflowWherePCancels) {
  constexpr int64_t kParts = 64, kChannels = 4 * kParts + 2;
  const Sparse problem{1, kChannels, 64, [](size_t input, int64_t e, float& value) {
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

// The mean of a row and its normalised deviations underflow before they meet large weights.
TEST(TriMulOracle, BoundsUnderflowBeforeTheWeightsOfTheNorms) {
  for (const float first : {0.0f, -0x1p-149f}) {
    const auto change = [first](size_t input, int64_t e, float& value) {
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
    const Sparse problem{1, 2, h, [h](size_t input, int64_t e, float& value) {
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

// y is large, z is below half of 2^-149, and a sigmoid is hardly above 2^-126.
TEST(TriMulOracle, BoundsUnderflowOfZ) {
  for (const bool is_edge : {false, true}) {
    const Sparse problem{1, 1, 1, [is_edge](size_t input, int64_t, float& value) {
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

// One hidden channel, which is not judged, has all of the error E. Underflow makes it larger, and
// 1/sigma of the others smaller, by more than it could make 1/sigma larger.
TEST(TriMulOracle, BoundsSigmasThatGrow) {
  struct Setting {
    int64_t n, h;
    double squares, units;  // of hidden by eps; of left after underflow
  };
  for (const auto& [n, h, squares, units] :
       {Setting{8, 128, 60, 1.51}, {8, 128, 60, 0.51}, {32, 32, 4, 0.51}}) {
    for (const double judged : {-1.0, -0.2, 0.05, 0.5, 1.0}) {
      const double one = std::sqrt(static_cast<double>(h) * kEpsilon / squares);
      const auto change = [=](size_t input, int64_t e, float& value) {
        if (input == kMask) value = e / n == 1 ? 0x1p-61f : 1;
        if (input == kNormWeight) value = 0;
        if (input == kNormBias || input == kToOutNormWeight) value = 1;
        if (input == kLeftProj && e == 0) value = static_cast<float>(2 * units * 0x1p-75);
        if (input == kLeftProj && e == 2)
          value = static_cast<float>(2 * judged * one / static_cast<double>(n) * 0x1p61);
        if (input == kRightProj && e == 0)
          value = static_cast<float>(2 * one * 0x1p120 / static_cast<double>(n) * 0x1p16);
        if (input == kRightProj && e == 2) value = 2;
        if (input == kToOut) value = e % h == 1 ? 1 : 0;
      };
      const Sparse problem{n, 2, h, change};
      const Recipe recipe = recipe_of(Factor::kTF32x3, DType::kF32);
      const Comparison of_loop = compare_loop(recipe, recipe, problem.sized(), problem.all(), 4 * n);
      EXPECT_EQ(of_loop.wrong, 0) << n << " " << units << " " << judged << ": "
                                  << of_loop.max_error_over_bound;
    }
  }
}

// xn loses to underflow, always with one sign. The gate, z and the weight are rounded up with it.
TEST(TriMulOracle, BoundsRoundingsOfWhatIsWrongAlready) {
  constexpr int64_t kChannels = 4098;
  const double many = kChannels - 2, gate = rounded(8, 2 * 0.0039 / many * 0x1p100) * 0x1p33;
  const double rest = 4 * 0x1p-9 + 2.5e-7 - gate * 0x1p-133 * many;
  const double first = rounded(8, rest), second = rounded(8, (rest - first) * 0x1p9);
  const auto change = [&](size_t input, int64_t e, float& value) {
    if (input == kNormWeight || input == kToOutNormWeight) value = 0;
    if (input == kNormBias) {
      const double part = 0.5 + 0x1p-15 + 0x1p-8 * static_cast<double>((e - 2) % 256) / 256;
      value = e == 0 ? 1 : e == 1 ? 0x1p-9f : static_cast<float>(part * 0x1p-133);
    }
    if (input == kOutGate) value = static_cast<float>(e == 0 ? first : e == 1 ? second : gate);
    if (input == kToOut) value = 1 + 0x1p-8f + 0x1p-20f;
    if (input == kToOutNormBias) value = (1 + 0x1p-8f + 0x1p-20f) / 0.50390625f;
  };
  const Sparse problem{1, kChannels, 1, change};
  const Recipe recipe = recipe_of(Factor::kBF16, DType::kBF16);
  const Comparison of_loop = compare_loop(recipe, recipe, problem.sized(), problem.all(), 1);
  EXPECT_EQ(of_loop.wrong, 0) << of_loop.max_error_over_bound;
  EXPECT_GT(of_loop.max_error_over_bound, 0.99);
}

// A value may exceed the range of f32 on the way to a result within it, or as a factor.
TEST(TriMulOracle, IsOpenWhereWhatIsBetweenMayOverflow) {
  const auto is_open = [](Factor factor, size_t large, float by) {
    const Sparse problem{1, 1, 2, [=](size_t input, int64_t e, float& value) {
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
  for (const size_t input : {kLeftProj, kRightProj, kLeftGate, kRightGate, kOutGate, kToOut}) {
    EXPECT_TRUE(is_open(Factor::kTF32, input, most)) << input;
    EXPECT_TRUE(is_open(Factor::kTF32x3, input, most)) << input;
    EXPECT_TRUE(is_open(Factor::kBF16, input, 3.4e38f)) << input;
  }
}

TEST(TriMulOracle, IsOpenWhereErrorsOrTheBiasOverflow) {
  // d/sigma * weight is 3.7e38.
  const Sparse first_norm{1, 16, 2, [](size_t input, int64_t e, float& value) {
                            if (input == kX) value = e == 0 ? 1 : 0;
                            if (input == kNormWeight) value = e == 0 ? 0.95e38f : 0;
                            if (input == kNormBias) value = e == 0 ? -3.3e38f : 0;
                            if (input == kLeftProj || input == kRightProj) value = e == 0 ? 1e-38f : 0;
                            if (input == kToOut) value = e % 2 == 0 ? 1 : 0;
                          }};
  // p is 0, and -2^116 with rounded weights.
  const Sparse left{1, 4, 2, [](size_t input, int64_t e, float& value) {
                      if (input == kMask) value = 1e6f;
                      if (input == kNormWeight) value = 0;
                      if (input == kNormBias) value = 1;
                      if (input == kLeftProj) value = e == 0 ? 257 : e == 1 ? 261 : e == 2 ? -518 : 0;
                      if (input == kLeftProj) value *= 0x1p114f;
                      if (input == kRightProj) value = e == 0 ? 1e-30f : 0;
                      if (input == kToOut) value = e % 2 == 0 ? 1 : 0;
                    }};
  for (const auto& [problem, factor] : {std::pair(first_norm, Factor::kStored), {left, Factor::kBF16}}) {
    const Problem changed_problem = changed(problem.sized(), problem.all());
    EXPECT_TRUE(expected_of(changed_problem, recipe_of(factor, DType::kF32))[0].is_open) << name_of(factor);
  }
}

}  // namespace
}  // namespace assay::trimul
