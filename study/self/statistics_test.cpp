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

TEST(Statistics, DrawsWithinALimitSayHowManyOfAllAre) {
  EXPECT_GE(confidence_of(kDrawsFor95), 0.95);
  EXPECT_LT(confidence_of(kDrawsFor95 - 1), 0.95);
  // A limit that 94.99 % of all draws keep: by chance eight keep it about as often as is said.
  const CounterRandom random(1, 2);
  constexpr int kStudies = 20000, kDraws = 8;
  int deceived = 0;
  uint64_t counter = 0;
  for (int i = 0; i < kStudies; ++i) {
    bool is_within = true;
    for (int draw = 0; draw < kDraws; ++draw) is_within &= random.uniform(counter++) < 0.9499;
    deceived += is_within;
  }
  EXPECT_NEAR(deceived / double{kStudies}, 1 - confidence_of(kDraws), 0.015);
}

// So many of n draws above a limit are unlikely if 95 % of all are below, and one less is not.
TEST(Statistics, SoManyDrawsTell) {
  for (const auto& [n, k] :
       {std::pair(1, 1), std::pair(3, 2), std::pair(7, 2), std::pair(8, 3), std::pair(59, 7)})
    EXPECT_EQ(draws_that_tell(n), k) << n;
  for (int64_t n = 1; n <= 200; ++n) {
    const auto at_least = [&](int64_t k) {
      double sum = 0;
      for (int64_t i = k; i <= n; ++i) {
        const auto all = static_cast<double>(n), above = static_cast<double>(i);
        sum += std::exp(std::lgamma(all + 1) - std::lgamma(above + 1) - std::lgamma(all - above + 1) +
                        above * std::log(0.05) + (all - above) * std::log(0.95));
      }
      return sum;
    };
    const int64_t k = draws_that_tell(n);
    EXPECT_LE(at_least(k), 0.0501) << n;
    EXPECT_GT(at_least(k - 1), 0.0499) << n;
  }
}

TEST(Statistics, EqualOrFewDrawsHaveNoInterval) {
  EXPECT_FALSE(log10_interval({1e-3, 1e-3, 1e-3}));
  EXPECT_FALSE(log10_interval({1e-3, 2e-3}));
  EXPECT_TRUE(log10_interval({1e-3, 1e-3, 2e-3}));
  EXPECT_FALSE(in_standard_errors({1, 1, 1}));
  EXPECT_DOUBLE_EQ(*in_standard_errors({1, 2, 3}), 2 * std::sqrt(3));
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
  // One x in each group: the logarithm of 10 is no mean of its copies.
  std::vector<Observation> one_x;
  for (uint64_t draw = 0; draw < 7; ++draw)
    one_x.push_back({10, 1 + 0.1 * static_cast<double>(draw), 0, draw});
  EXPECT_FALSE(exponent_of(one_x, 1));
}

TEST(Statistics, SignTestsCountBothSides) {
  EXPECT_DOUBLE_EQ(sign_test(10, 5), 1);
  EXPECT_NEAR(sign_test(10, 10), 2.0 / 1024, 1e-12);
  EXPECT_NEAR(sign_test(10, 1), 2 * 11.0 / 1024, 1e-12);
  EXPECT_EQ(sign_test(0, 0), 1);
}

}  // namespace
}  // namespace assay::study
