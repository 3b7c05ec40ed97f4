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

// What n draws say about all draws, whatever their distribution. Suppose that more than 5 % of all
// draws exceed a limit. Then n draws stay within it with a probability below 0.95^n. So n draws
// within a limit say that 95 % of all draws are, with this confidence: 34 % for 8 draws, 95 % for
// 59.
double confidence_of(int64_t n);  // 1 - 0.95^n
inline constexpr int64_t kDrawsFor95 = 59;

// The other way: if at most 5 % of all draws exceed a limit, so many of n draws do so with a
// probability of 5 % at most (binomial). 2 of 4, 3 of 8.
int64_t draws_that_tell(int64_t n);

// The mean of log10 of the errors with its 95 % interval, by Student's t: for logarithms that are
// normal over draws. Absent if an error is 0 or not finite, if there are fewer than three, or if
// all are equal.
std::optional<Interval> log10_interval(const std::vector<double>& errors);

// The mean over its standard error. Absent for fewer than three values, or if all are equal.
std::optional<double> in_standard_errors(const std::vector<double>& values);

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
