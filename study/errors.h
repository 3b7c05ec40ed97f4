// SPDX-License-Identifier: Apache-2.0
// How wrong one output of one call is.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "oracles/core/oracle.h"

namespace assay::study {

// The elements of an output that are looked at: whole rows along the last axis, all or about
// kElements, but at least kRows. They have all combinations of a few indices along each other axis,
// chosen at random: where rows with a common index share work, an oracle does it once.
inline constexpr int64_t kElements = 4096, kRows = 16;
std::vector<int64_t> chosen_elements(const Extents& shape, uint64_t seed);

// The formula's values there, in parallel.
std::vector<Ball> evaluate(const Oracle& oracle, const Question& question, int output,
                           const Arithmetic& arithmetic, std::span<const int64_t> elements, int64_t row);

// sqrt(sum (a - b)^2 / sum exact^2) over elements that are finite in all three. 0 if a = b; absent
// if the exact values are 0 and there is an error, or if no element is finite.
std::optional<double> normwise(std::span<const double> a, std::span<const double> b,
                               std::span<const double> exact);

// Let e = got - exact, of elements that are finite in both.
struct Errors {
  int64_t elements = 0;                 // looked at
  int64_t nonfinite = 0;                // infinite or NaN where the exact value is finite
  int64_t outside = 0;                  // outside the ball of the recipe: a right path has none
  std::optional<double> normwise = {};  // |e| over |exact|, 2-norms
  // |e_i| over the rms of the exact values: the largest, and what 99.9 % of the elements do not
  // exceed.
  std::optional<double> worst = {}, worst_p999 = {};
  // |e_i| over |exact_i|, likewise, of elements whose exact value is not 0.
  std::optional<double> componentwise = {}, componentwise_p999 = {};
  // The largest of |e_i| over S_i, or over |exact_i| if that is larger (study/terms.h).
  std::optional<double> over_terms = {};
  // The means of e_i and of e_i * sign(exact_i), over the rms of the exact values: the path errs in
  // one direction, or away from 0.
  std::optional<double> mean = {}, mean_outward = {};
  // normwise over that of the computed value: the recipe's roundings with exact arithmetic between
  // them. 1 is as good as the recipe gets. Absent if the computed value has no error.
  std::optional<double> over_best = {};
  // normwise over what rounding the inputs once did to the exact value. Below 1, more precision
  // inside buys nothing. Absent if rounding changed nothing.
  std::optional<double> over_input_rounding = {};
};

struct Answered {
  std::span<const double> got, exact, unrounded;  // `unrounded`: exact values of inputs as drawn
  std::span<const Ball> balls;
  std::span<const double> sizes = {};  // S_i; empty if it is not known
};
Errors errors_of(const Answered& answered, DType dtype);

}  // namespace assay::study
