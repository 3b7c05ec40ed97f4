// SPDX-License-Identifier: Apache-2.0
// The sign of zeros in balls.
#include <cmath>
#include <vector>

#include "oracles/core/arithmetic.h"
#include "properties/self/support.h"

namespace assay {
namespace {

const Arithmetic kBall(Arithmetic::Mode::kBall);

Ball dot(const std::vector<double>& a, const std::vector<double>& b, const Sum& sum = {}) {
  return kBall.dot(Balls(a).row(), Balls(b).row(), sum);
}

// Of a sum that is 0 where right paths agree: +0, unless all terms are -0.
TEST(Zero, HasASignWhereRightPathsAgree) {
  const auto is_positive = [](Ball ball) { return ball.is_signed && !std::signbit(ball.mid); };
  EXPECT_TRUE(is_positive(dot({0, 1}, {-1, 0})));
  EXPECT_TRUE(is_positive(dot({3, -3}, {2, 2})));
  EXPECT_TRUE(is_positive(dot({3, -3, -1}, {2, 2, 0})));
  EXPECT_TRUE(is_positive(dot({0}, {5})));
  EXPECT_FALSE(dot({0, -2}, {-1, 0}).is_signed);
  EXPECT_FALSE(dot({0, 1}, {-1, 0}, {.truncates = true}).is_signed);
  EXPECT_FALSE(dot({1}, {0}, {.factors = Format::kBF16x3}).is_signed);
  EXPECT_FALSE(dot({1, 0x1p-30}, {0x1p-140, -1}).is_signed);
  const Ball zero{.mid = 0, .is_signed = true};
  EXPECT_TRUE(is_positive(kBall.multiply(zero, {5})));
  EXPECT_FALSE(kBall.multiply(zero, {-5}).is_signed);
  // Of a zero whose sign is not known nothing is known, even of what a positive factor makes of it.
  EXPECT_FALSE(kBall.multiply(dot({-0.0}, {1}), {2}).is_signed);
  EXPECT_FALSE(kBall.multiply(kBall.multiply(zero, {-1}), {-1}).is_signed);
  EXPECT_FALSE(kBall.multiply({0}, {1, 2}).is_signed);
  EXPECT_FALSE(kBall.multiply({0x1p-100}, {0x1p-100}).is_signed);
  EXPECT_TRUE(is_positive(kBall.round(DType::kF16, dot({3, -3}, {2, 2}))));
  for (double tiny : {0x1p-60, -0x1p-60}) {
    const Ball stored = kBall.round(DType::kF16, Ball{tiny});
    EXPECT_EQ(stored.mid, 0);
    EXPECT_TRUE(stored.is_signed);
    EXPECT_EQ(std::signbit(stored.mid), tiny < 0);
    EXPECT_FALSE(kBall.round(DType::kF16, Ball{tiny, 0x1p-70}).is_signed);
  }
}

}  // namespace
}  // namespace assay
