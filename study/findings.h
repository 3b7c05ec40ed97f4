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

// Whether a target is met at a point, as far as the draws tell (statistics.h).
enum class Standing : uint8_t {
  kMet,     // by all draws, and all is finite and in its ball
  kOpen,    // some draws are above it, but fewer than draws_that_tell()
  kMissed,  // so many are above it, or something is not finite or not in its ball
  kAbsent,  // the path does not run there, or has no error that can be said
};
std::string_view name_of(Standing standing);  // "met"

// One contender at one point, over its draws and outputs: of each draw the largest error of all
// outputs. Medians are over all cells.
struct PointSummary {
  size_t point = 0;
  Standing standing = Standing::kAbsent;
  std::string why_not = {};             // why it is absent
  int64_t draws = 0, above = 0;         // `above` the target
  double median = 0, largest = 0;       // normwise, of the draws
  double worst_largest = 0;             // the largest Errors::worst
  std::optional<Interval> digits = {};  // log10_interval() of normwise, as -log10
  int64_t nonfinite = 0, outside = 0;   // elements, all draws
  std::optional<double> over_best = {}, over_input_rounding = {}, over_terms = {}, componentwise = {},
                        worst = {};
  // Errors::mean and Errors::mean_outward: their means over draws, in standard errors over draws.
  // Elements of a draw may depend on each other, draws do not. Of several outputs the largest in
  // magnitude.
  std::optional<double> bias = {}, bias_outward = {};
};

struct Summary {
  size_t contender = 0;
  std::vector<PointSummary> points = {};         // that were reached, ascending
  std::optional<bool> repeats = {}, alone = {};  // at all points where it was asked

  const PointSummary* at(size_t point) const;  // null if it was not reached
};
std::vector<Summary> summarize(const Study& study);

// The point that the answer is about: the largest problem, by the product of its dimensions, at
// which some contender meets the target. Of such points with equally large problems it is the one
// at which the fewest meet it, and of those the last. If nothing meets the target anywhere, all
// points count. Absent if no point was reached.
std::optional<size_t> deciding_point(const Study& study, const std::vector<Summary>& summaries);

// The point that sites and distances are of: the deciding one, but in older records the first.
std::optional<size_t> detailed_point(const Study& study, const std::vector<Summary>& summaries);

// The time of a contender on the dimensions of a point; null if it was not judged there.
const Time* time_at(const Study& study, size_t contender, size_t point);

// How the error grows along an axis: normwise ~ value^exponent, other axes fixed. Values that are
// not positive have no logarithm and are left out.
struct Fit {
  size_t contender = 0, axis = 0;
  Exponent exponent;
  std::string reading = {};  // "as sqrt(n)": what the interval holds of 0, 1/2 and 1
};
std::vector<Fit> fits(const Study& study);

// The smallest value of an axis at which a contender misses the target at some point.
struct Onset {
  size_t contender = 0, axis = 0;
  std::optional<size_t> value = {};  // number; absent if no point misses it
  // Without a value: the weakest standing of all points.
  Standing standing = Standing::kMet;
};
std::vector<Onset> onsets(const Study& study, const std::vector<Summary>& summaries);

struct Answer {
  std::string sentence = {};              // without numbers that change from seed to seed
  std::vector<std::string> grounds = {};  // errors, times, shares, all at the deciding point
};
Answer answer_of(const Study& study, const std::vector<Summary>& summaries);

}  // namespace assay::study
