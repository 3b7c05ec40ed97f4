// SPDX-License-Identifier: Apache-2.0
#include "study/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "properties/core/random.h"

namespace assay::study {
namespace {

TEST(Statistics, QuantilesAreValues) {
  EXPECT_EQ(quantile({3, 1, 2}, 0.5), 2);
  EXPECT_EQ(quantile({3, 1, 2}, 1), 3);
  EXPECT_EQ(quantile({3, 1, 2}, 0), 1);
}

// Of log-normal errors the limit holds 95 % of all draws in 95 % of studies.
TEST(Statistics, TheLimitsCoverWhatTheySay) {
  const CounterRandom random(1, 2);
  constexpr int kStudies = 2000, kDraws = 8;
  const double true_quantile = std::exp(1.6448536);
  int right = 0, right_below = 0;
  uint64_t counter = 0;
  for (int i = 0; i < kStudies; ++i) {
    std::vector<double> errors;
    for (int draw = 0; draw < kDraws; ++draw) errors.push_back(std::exp(random.normal(counter++)));
    right += upper_limit(errors) >= true_quantile;
    right_below += lower_limit(errors) <= true_quantile;
  }
  EXPECT_NEAR(right / double{kStudies}, 0.95, 0.015);
  EXPECT_NEAR(right_below / double{kStudies}, 0.95, 0.02);
}

TEST(Statistics, TwoDrawsLimitNothing) {
  EXPECT_TRUE(std::isinf(upper_limit({1e-3, 1e-3})));
  EXPECT_TRUE(std::isinf(upper_limit({1e-3, 1e-3, HUGE_VAL})));
  EXPECT_EQ(upper_limit({1e-3, 1e-3, 1e-3}), 1e-3);
  EXPECT_EQ(upper_limit({0, 0, 0}), 0);
}

std::vector<Observation> power_law(double exponent, uint64_t seed) {
  const CounterRandom random(seed, 6);
  std::vector<Observation> all;
  uint64_t counter = 0;
  for (uint64_t group = 0; group < 2; ++group) {
    for (uint64_t draw = 0; draw < 8; ++draw) {
      for (double x : {1.0, 2.0, 4.0, 8.0}) {
        const double noise = std::exp(0.1 * random.normal(counter++));
        all.push_back({x, (group == 0 ? 1 : 100) * std::pow(x, exponent) * noise, group, draw});
      }
    }
  }
  return all;
}

TEST(Statistics, AnExponentIsFoundWithItsInterval) {
  for (double exponent : {0.0, 0.5, 1.0}) {
    constexpr int kStudies = 100;
    int right = 0;
    for (uint64_t seed = 0; seed < kStudies; ++seed) {
      const auto found = exponent_of(power_law(exponent, seed), 1);
      ASSERT_TRUE(found);
      right += found->interval.low <= exponent && exponent <= found->interval.high;
      // An interval that held everything would be right, too.
      EXPECT_LT(found->interval.high - found->interval.low, 0.2);
    }
    EXPECT_GE(right, 0.8 * kStudies) << exponent;
  }
  EXPECT_FALSE(exponent_of({{0, 1, 0, 0}, {1, 1, 0, 0}}, 1));
}

TEST(Statistics, SignTestsCountBothSides) {
  EXPECT_DOUBLE_EQ(sign_test(10, 5), 1);
  EXPECT_NEAR(sign_test(10, 10), 2.0 / 1024, 1e-12);
  EXPECT_NEAR(sign_test(10, 1), 2 * 11.0 / 1024, 1e-12);
  EXPECT_EQ(sign_test(0, 0), 1);
}

}  // namespace
}  // namespace assay::study
