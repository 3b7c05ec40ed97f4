// SPDX-License-Identifier: Apache-2.0
// What a study found: who meets the target, how errors grow, where the target is missed, and the
// answer in one sentence. All of it follows from the study alone.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "study/statistics.h"
#include "study/study.h"

namespace assay::study {

// Whether a target is met, as far as the draws tell.
enum class Standing : uint8_t {
  kMet,     // the upper limits are below it, and all is finite and in its ball
  kOpen,    // it lies between the lower limit and the upper one
  kMissed,  // a lower limit is above it, or something is not finite or not in its ball
};
std::string_view name_of(Standing standing);  // "met"

// One contender at one point, over its draws and outputs: of each draw the largest error of all
// outputs.
struct PointSummary {
  size_t point = 0;
  int64_t draws = 0;
  double median = 0;                    // normwise
  double limit = 0;                     // upper_limit() of normwise
  double worst_limit = 0;               // upper_limit() of Errors::worst
  std::optional<Interval> digits = {};  // -log10(normwise): its mean, 95 %
  int64_t nonfinite = 0, outside = 0;   // elements, all draws
  Standing standing = Standing::kOpen;
};

struct Summary {
  size_t contender = 0;
  std::vector<PointSummary> points = {};
  std::string why_not = {};                         // why there are no points
  Standing standing = Standing::kOpen;              // the worst of all points
  std::optional<size_t> decisive = {};              // of `points`: the one with the largest limit
  std::optional<double> median_ns = {};             // [ns] the geometric mean over dimensions
  std::optional<double> low_ns = {}, high_ns = {};  // [ns] of its 95 % intervals, likewise
  std::string no_time = {};                         // why there is none
  // Medians over all cells.
  std::optional<double> over_best = {}, over_input_rounding = {}, bias = {}, bias_outward = {},
                        componentwise = {}, worst = {};
  std::optional<bool> repeats = {};
};
std::vector<Summary> summarize(const Study& study);

// How the error grows along an axis: normwise ~ value^exponent, other axes fixed.
struct Fit {
  size_t contender = 0, axis = 0;
  Exponent exponent;
  std::string reading = {};  // "as sqrt(n)": what the interval holds of 0, 1/2 and 1
};
std::vector<Fit> fits(const Study& study);

// The smallest value of an axis at which a contender misses the target at some point.
struct Onset {
  size_t contender = 0, axis = 0;
  std::optional<size_t> value = {};  // number; absent if the target is met everywhere
};
std::vector<Onset> onsets(const Study& study, const std::vector<Summary>& summaries);

struct Answer {
  std::string sentence = {};              // without numbers that change from seed to seed
  std::vector<std::string> grounds = {};  // limits, times, shares
};
Answer answer_of(const Study& study, const std::vector<Summary>& summaries);

}  // namespace assay::study
