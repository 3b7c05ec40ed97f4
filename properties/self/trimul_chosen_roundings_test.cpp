// SPDX-License-Identifier: Apache-2.0
// The oracle of trimul where data decide the roundings in f32, at all edges and in all channels
// alike: of x beside a far value, of terms below half a unit of the sum, of values that underflow.
#include <cmath>
#include <cstdint>

#include "kernels/trimul/trimul.h"
#include "properties/core/random.h"
#include "properties/self/support.h"
#include "properties/self/trimul_loop.h"

namespace assay::trimul {
namespace {

using test::expect_bounded;
using test::sign_of;
using test::sized;

constexpr int64_t kHidden = 32;
constexpr double kLittle = 0.98 * 0x1p-24;  // less than half a unit of 1

// right is as large as its one channel of xn. out is the first channel of hidden; eps makes its
// norm linear.
void set_right_and_out(size_t input, int64_t e, int64_t channels, float& value) {
  if (input == kMask || input == kToOutNormWeight) value = 1;
  if (input == kLeftGate || input == kRightGate || input == kOutGate || input == kToOutNormBias) value = 0;
  if (input == kRightProj) value = e == 0 ? 1 : 0;
  if (input == kLeftProj && e >= channels) value = 0;
  if (input == kToOut) value = e % kHidden == 0 ? 1 : 0;
}

// x - x[0] rounds all channels after the first one. The sign of the rounding alternates as the
// weights do.
TEST(TriMulOracle, BoundsDifferencesFromAFarValue) {
  constexpr int64_t kChannels = 129;
  const auto change = [](size_t input, int64_t e, float& value) {
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
  expect_bounded(sized(32, kChannels, kHidden), change);
}

// The bias absorbs part of xn, at all edges.
TEST(TriMulOracle, BoundsBiasesThatAbsorbXn) {
  SLOW;
  NOT_SANITIZED("minutes of the same code as in other tests, for other numbers");
  constexpr int64_t kChannels = 4;
  const auto change = [](size_t input, int64_t e, float& value) {
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
  expect_bounded(sized(1024, kChannels, kHidden), change);
}

// Terms that are lost beside a sum of 1: of a projection at edges that differ in a channel with
// weight 0, of hidden, of the last sum.
TEST(TriMulOracle, BoundsProjectionsOfLittleTerms) {
  constexpr int64_t kChannels = 128;
  const auto change = [](size_t input, int64_t e, float& value) {
    const int64_t c = e % kChannels;
    set_right_and_out(input, e, kChannels, value);
    if (input == kNormWeight) value = c == kChannels - 2 ? 1e-3f : 0;
    if (input == kNormBias) value = 1;
    if (input != kLeftProj || e >= kChannels) return;
    const double last = c == kChannels - 1 ? -1 : c == kChannels - 2 ? 0 : kLittle;
    value = static_cast<float>(0x1p-12 * (c == 0 ? 1 : last));
  };
  expect_bounded(sized(32, kChannels, kHidden), change);
}
TEST(TriMulOracle, BoundsHiddenOfLittleTerms) {
  SLOW;
  NOT_SANITIZED("minutes of the same code as in other tests, for other numbers");
  constexpr int64_t kChannels = 4, kNodes = 768;
  const auto change = [](size_t input, int64_t e, float& value) {
    set_right_and_out(input, e, kChannels, value);
    if (input == kMask && e > 0 && e < kNodes) value = static_cast<float>(kLittle);
    if (input == kNormWeight) value = 1e-3f;
    if (input == kNormBias) value = 1;
    if (input == kLeftProj && e < kChannels) value = e == 0 ? 0x1p-12f : 0;
  };
  expect_bounded(sized(kNodes, kChannels, kHidden), change);
}
TEST(TriMulOracle, BoundsLastSumsOfLittleTerms) {
  for (const int64_t h : {128, 1024}) {
    const auto change = [h](size_t input, int64_t e, float& value) {
      if (input == kToOutNormWeight || input == kOutGate) value = 0;
      if (input == kToOutNormBias) value = 1;
      if (input == kToOut) value = e % h == 0 ? 1 : static_cast<float>(kLittle);
    };
    expect_bounded(sized(2, 4, h), change);
  }
}

// All values of xn except two are below half of 2^-149 and have the signs of the weights.
TEST(TriMulOracle, BoundsUnderflowOfXn) {
  constexpr int64_t kChannels = 34;
  const auto change = [](size_t input, int64_t e, float& value) {
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
  expect_bounded(sized(64, kChannels, kHidden), change);
}

// Sigmoids below 2^-126, which the path takes as 0, times factors that make them visible.
TEST(TriMulOracle, BoundsUnderflowOfGates) {
  NOT_SANITIZED("minutes of the same code as in other tests, for other numbers");
  constexpr int64_t kChannels = 4;
  const auto change = [](size_t input, int64_t e, float& value) {
    const int64_t c = e % kChannels;
    set_right_and_out(input, e, kChannels, value);
    if (input == kNormWeight) value = c == 1 ? 0 : 1e-4f;
    if (input == kNormBias) value = 1;
    if (input == kLeftProj && e < kChannels) value = e == 0 ? 0x1p100f : 0;
    if (input == kLeftGate) value = c == 1 ? -87.34f : 0;
    if (input == kRightProj) value = e == 0 ? 0x1p7f : 0;
  };
  expect_bounded(sized(384, kChannels, kHidden), change);
}

// left is below half of 2^-149 because of its gate, and right is large. Then products of both are.
TEST(TriMulOracle, BoundsUnderflowOfFactorsAndProducts) {
  SLOW;
  NOT_SANITIZED("minutes of the same code as in other tests, for other numbers");
  constexpr int64_t kChannels = 2;
  for (const bool is_product : {false, true}) {
    const auto change = [is_product](size_t input, int64_t e, float& value) {
      set_right_and_out(input, e, kChannels, value);
      if (input == kNormWeight) value = 1e-4f;
      if (input == kNormBias) value = 1;
      if (input == kLeftGate) value = !is_product && e % kChannels == 0 ? -34 : 0;
      if (input == kLeftProj && e < kChannels) value = e > 0 ? 0 : is_product ? 0x1p-74f : 0x1p-101f;
      if (input == kRightProj) value = e > 0 ? 0 : is_product ? 0.95f * 0x1p-74f : 0x1p115f;
      if (input == kToOutNormWeight && is_product) value = 0x1p126f;
    };
    expect_bounded(sized(is_product ? 768 : 1152, kChannels, kHidden), change);
  }
}

}  // namespace
}  // namespace assay::trimul
