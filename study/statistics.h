// SPDX-License-Identifier: Apache-2.0
// The statistics of a study. All random choices follow from a seed.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace assay::study {

// The smallest value that at least this share of the values does not exceed. Throws Error if empty.
double quantile(std::vector<double> values, double share);

struct Interval {
  double low, high;
};

// A limit that 95 % of all draws do not exceed, right with a probability of 95 % if the logarithms
// of the errors are normal over draws: exp(mean + k * sd) with the factor k of a one-sided
// tolerance limit [Natrella 1963, 2-15; NIST Handbook 7.2.6.3]. The largest value if all are equal.
// Infinite for less than three values, or where one is not finite. The lower limit is below the
// 95 % quantile with a probability of 95 %; 0 for less than three values.
double upper_limit(const std::vector<double>& errors);
double lower_limit(const std::vector<double>& errors);

// The mean of log10 of the errors with its 95 % interval, by Student's t. Absent if an error is 0
// or not finite, or if there are fewer than two.
std::optional<Interval> log10_interval(const std::vector<double>& errors);

// What a fit is made from: error `y` at the axis value `x`, in draw `draw`. Points of one group
// agree in all other axes.
struct Observation {
  double x, y;
  uint64_t group, draw;
};

// The exponent e of y = c_group * x^e by least squares of the logarithms, and an interval from
// resampled draws (percentile bootstrap, kResamples of them). Of eight draws it holds the exponent
// in about 90 % of studies. Absent unless some group has positive values at two different positive
// x.
inline constexpr int kResamples = 999;
struct Exponent {
  double value;
  Interval interval;
};
std::optional<Exponent> exponent_of(const std::vector<Observation>& observations, uint64_t seed);

// The probability that of n fair coins at least max(a, n - a) fall on one side: the sign test.
double sign_test(int64_t n, int64_t a);

}  // namespace assay::study
