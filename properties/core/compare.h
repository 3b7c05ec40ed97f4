// SPDX-License-Identifier: Apache-2.0
// Compares what a path computed with what its recipe computes, and with the exact values. Reports
// quote the numbers.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "kernels/core/dtype.h"

namespace assay {

// What is expected of one element: got is right iff |got - value| <= bound. A NaN value asks for
// NaN, and an infinite value for the same infinity. is_right() has the details.
struct Expected {
  double value;  // what the recipe computes
  double bound;  // the radius of the ball around it; finite
  double exact;
  bool is_open = false;    // anything is right: right paths differ without limit
  bool is_signed = false;  // of a value of 0 that is certain: its sign counts
};

// Whether `got` is right. Let t be the overflow threshold of `dtype`: the smallest real that rounds
// to infinity.
//   expected                got is right iff
//   open                    always
//   NaN                     it is NaN
//   0 with a sign           it is 0 with this sign
//   +-inf                   it is the same infinity
//   finite, got finite      |got - value| <= bound and |value| - bound <= t
//   finite, got infinite    a real of its sign within the bound is at least t in magnitude
bool is_right(const Expected& expected, double got, DType dtype);

struct WorstElement {
  int64_t element;  // row-major position in the output
  double got;
  double want;
  double bound;
};

// What was seen of one output. Comparisons of disjoint elements can be merged. The order of
// elements and merges changes only the rounding of the sums.
struct Comparison {
  int64_t count = 0;      // elements compared
  int64_t wrong = 0;      // elements that are not right
  int64_t open = 0;       // elements for which anything is right
  int64_t nonfinite = 0;  // elements for which a NaN or an infinity was got
  // Conformity: elements that are the computed value to the bit, or NaN as it is. Records of older
  // versions have none.
  std::optional<int64_t> equal = 0;
  // Conformity: |got - computed| in units of the ball's radius. Infinity if a wrong element has no
  // finite ratio.
  double max_error_over_bound = 0;
  // Accuracy, against the exact values.
  double max_ulp = 0;    // [ulp] of the output dtype at the exact value
  double max_abs = 0;    // largest |got - exact|, finite elements
  double sum_error = 0;  // of got - exact, finite elements
  double sum_square_error = 0;
  double sum_square_value = 0;        // of exact values
  int64_t finite = 0;                 // elements of finite numbers that are not open
  std::optional<WorstElement> worst;  // the first with the largest error/bound

  void add(const Expected& expected, double got, int64_t element, DType dtype);
  void merge(const Comparison& other);

  // [1] The normwise error. Absent if there is an error and all exact values are 0.
  std::optional<double> rel_l2() const;
  // [1] max_abs over the rms of the exact values. Absent likewise.
  std::optional<double> largest_error() const;
  double bias() const;  // mean of got - exact
  double rms() const;
};

// How far the path is from what its recipe computes, all elements together. What right paths have
// is sampled (properties/core/conformity.h).
struct Conformity {
  double rms;          // of got - computed
  double predicted;    // that of right paths, at most
  double allowed;      // a path like the sampled ones exceeds it once in 10^9 cases
  double largest = 0;  // distance of a right path, of one element
  int64_t count = 0;   // elements that were sampled
  int64_t doubts = 0;  // roundings inside the formula that right paths may decide either way
  // Where such roundings exist, on continuous data: rows that were sampled, and those in which the
  // path is more than twice as far as each sampled path.
  int64_t rows = 0;
  int64_t farthest = 0;
};

}  // namespace assay
