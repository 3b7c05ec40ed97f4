// SPDX-License-Identifier: Apache-2.0
// Factors in two parts in balls.
#include <cmath>
#include <vector>

#include "oracles/core/arithmetic.h"
#include "properties/self/support.h"

namespace assay {
namespace {

const Arithmetic kBalls(Arithmetic::Mode::kBall);

// The ball holds what was got, and half of it would not.
void expect_tight(Ball ball, double got) {
  EXPECT_LE(std::abs(got - ball.mid), ball.radius);
  EXPECT_GT(std::abs(got - ball.mid), ball.radius / 2);
}

Ball dot_of_parts(const std::vector<double>& a, const std::vector<double>& b, const Sum& sum) {
  return kBalls.dot(Balls(a).row(), Balls(b).row(), sum);
}

// The smallest number of the path is 2 * kLost. Half of it becomes 0, if only the second part holds
// it.
TEST(Rounding, OfScaledPartsLosesWhatUnderflows) {
  constexpr double kLost = 0x1p-38;
  const double value = 0x1p-20 + kLost * (1 - 0x1p-10);
  Rounding to_parts{.format = Format::kF16x3, .is_scaled = true};
  const Arithmetic path(Arithmetic::Mode::kSampled, 0);
  expect_tight(kBalls.round(to_parts, {value}, kLost), path.round(to_parts, {value}, kLost).mid);
  EXPECT_EQ(kBalls.round(to_parts, {0x1p-14}, kLost).radius, 0);
  to_parts.is_scaled = false;
  EXPECT_EQ(kBalls.round(to_parts, {value}, kLost).radius, 0);
}

TEST(Dot, LeavesOutWhatSplittingLosesOfFactors) {
  const FloatFormat bf16 = format_of(DType::kBF16);
  const double a = 1 + 0x1p-8 - 0x1p-17 - 0x1p-23;
  const double high = rounded(bf16, a), low = rounded(bf16, a - high);
  expect_tight(dot_of_parts({a}, {a}, {.factors = Format::kBF16x3, .truncates = true}),
               high * high + 2 * high * low);
  EXPECT_TRUE(dot_of_parts({HUGE_VAL}, {1}, {.factors = Format::kBF16x3}).is_open());
}

// Scaled factors have any size. Others underflow and overflow in f16.
TEST(Dot, OfScaledPartsLeavesOutAShareOfEachProduct) {
  const Sum plain{.factors = Format::kF16x3}, scaled{.factors = Format::kF16x3, .is_scaled = true};
  const double a = 1 + 0x1p-11 - 0x1p-23, tiny = a * 0x1p-30, large = 1e5;
  EXPECT_LE(dot_of_parts({a}, {tiny}, scaled).radius, 0x1p-20 * tiny);
  EXPECT_GT(dot_of_parts({a}, {tiny}, plain).radius, 0x1p-25);
  EXPECT_LE(dot_of_parts({a}, {large}, scaled).radius, 0x1p-20 * large);
  EXPECT_TRUE(dot_of_parts({a}, {large}, plain).is_open());
}

// Of one product of factors in two parts, something is left out.
TEST(Dot, OfOneProductOfPartsIsInDoubt) {
  const Sum sum{.factors = Format::kBF16x3};
  const Ball ball = dot_of_parts({1.2345679}, {0.7654321}, sum);
  const Ball got = Arithmetic(Arithmetic::Mode::kSampled, 3)
                       .dot(Balls(std::vector{1.2345679}).row(), Balls(std::vector{0.7654321}).row(), sum);
  EXPECT_LE(std::abs(got.mid - ball.mid), ball.radius);
  EXPECT_GT(ball.radius, 0);
}

}  // namespace
}  // namespace assay
