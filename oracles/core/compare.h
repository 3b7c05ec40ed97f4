// SPDX-License-Identifier: Apache-2.0
// The comparison of what a path computed with what the oracle expects, and the numbers that reports quote.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "kernels/core/dtype.h"
#include "oracles/core/oracle.h"

namespace assay {

// One element: right iff
//   expected open       always
//   expected NaN        got is NaN
//   expected +-inf      got is the same infinity
//   expected finite     got is finite and |got - value| <= bound;
//                       or got is an infinity, and within the bound lies a real of its sign that reaches the
//                       overflow threshold of `dtype`, the smallest that rounds to infinity; and a finite got
//                       is wrong where |value| - bound exceeds that threshold
bool is_right(const Expected& expected, double got, DType dtype);

struct WorstElement {
  int64_t element;  // row-major position in the output
  double got;
  double want;
  double bound;
};

// What was seen of one output. Mergeable: the order of elements and of merges does not change any field but
// the rounding of the sums.
struct Comparison {
  int64_t count = 0;                // elements compared
  int64_t wrong = 0;                // elements that are not right
  int64_t open = 0;                 // elements of which the oracle says that anything is right
  int64_t nonfinite = 0;            // elements for which a NaN or an infinity was got
  double max_error_over_bound = 0;  // [1] infinity for a wrong element without a finite ratio
  double max_ulp = 0;               // [ulp] of the output dtype at the expected value
  double max_abs = 0;               // largest |got - value|, finite elements
  double sum_error = 0;             // of got - value, finite elements
  double sum_square_error = 0;
  double sum_square_value = 0;
  double sum_variance = 0;  // of Expected::variance, finite elements
  double sum_square_variance = 0;
  double max_bound = 0;               // of Expected::bound, finite elements
  int64_t finite = 0;                 // elements with finite got and value, the open ones left out
  std::optional<WorstElement> worst;  // the one with the largest error/bound, the first of them

  void add(const Expected& expected, double got, int64_t element, DType dtype);
  void merge(const Comparison& other);

  // [1] normwise error; nothing if there is an error and the exact values are all 0.
  std::optional<double> rel_l2() const;
  double bias() const;  // mean of got - value
  double rms() const;
  double predicted_rms() const;  // sqrt of the mean variance
};

// The rms law. Let the errors e_i be independent with variances at most v_i, magnitudes at most b_i (the
// bounds) and kurtosis at most 3, as sums of uniform errors have. Then by Bernstein's inequality
//   P( sum e_i^2 > V + sqrt(4 L * sum v_i^2) + 2/3 * L * max b_i^2 ) <= exp(-L),   V = sum v_i,
// for the variance of e_i^2 is at most 2 v_i^2. With L = ln(1e9) a right path breaks the law on one case in a
// thousand million. Data that repeats itself makes errors dependent, so the judge applies the law to
// continuous regimes only. Returns the largest allowed rms; nothing if fewer than kRmsMinimum elements were
// compared.
inline constexpr int64_t kRmsMinimum = 64;
std::optional<double> largest_allowed_rms(const Comparison& comparison);

}  // namespace assay
