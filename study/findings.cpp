// SPDX-License-Identifier: Apache-2.0
#include "study/findings.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace assay::study {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Over all cells that have it.
std::optional<double> median_of(const std::vector<const Cell*>& cells,
                                std::optional<double> Errors::*member) {
  std::vector<double> values;
  for (const Cell* cell : cells) {
    if (cell->errors.*member) values.push_back(*(cell->errors.*member));
  }
  return values.empty() ? std::nullopt : std::optional(quantile(std::move(values), 0.5));
}

// Of the outputs, the mean over draws that is the most standard errors from 0.
std::optional<double> bias_of(const Study& study, const std::vector<const Cell*>& cells,
                              std::optional<double> Errors::*member) {
  std::optional<double> bias;
  for (size_t output = 0; output < study.outputs.size(); ++output) {
    std::vector<double> means;
    for (const Cell* cell : cells) {
      if (cell->output == output && cell->errors.*member) means.push_back(*(cell->errors.*member));
    }
    const auto one = in_standard_errors(means);
    if (one && (!bias || std::abs(*one) > std::abs(*bias))) bias = one;
  }
  return bias;
}

Standing standing_of(const PointSummary& at) {
  if (!at.why_not.empty()) return Standing::kAbsent;
  if (at.nonfinite > 0 || at.outside > 0 || at.above >= draws_that_tell(at.draws)) return Standing::kMissed;
  return at.above > 0 ? Standing::kOpen : Standing::kMet;
}

PointSummary summary_at(const Study& study, size_t point, const std::vector<const Cell*>& cells) {
  PointSummary summary{.point = point};
  std::map<int64_t, std::pair<double, double>> of_draws;  // the largest normwise and worst
  for (const Cell* cell : cells) {
    if (!cell->why_not.empty()) {
      summary.why_not = cell->why_not;
      continue;
    }
    const Errors& errors = cell->errors;
    auto& [normwise, worst] = of_draws[cell->draw];
    // An output without an error that can be said is as wrong as can be, unless it has no elements.
    const double missing = errors.elements == 0 ? 0 : kInfinity;
    normwise = std::max(normwise, errors.normwise.value_or(missing));
    worst = std::max(worst, errors.worst.value_or(errors.normwise == 0.0 ? 0 : missing));
    summary.nonfinite += errors.nonfinite;
    summary.outside += errors.outside;
  }
  std::vector<double> all;
  for (const auto& [draw, errors] : of_draws) {
    const auto& [normwise, worst] = errors;
    all.push_back(normwise);
    summary.largest = std::max(summary.largest, normwise);
    summary.worst_largest = std::max(summary.worst_largest, worst);
    const Target& target = study.target;
    summary.above += !(normwise <= target.normwise && (!target.worst || worst <= *target.worst));
  }
  summary.draws = std::ssize(all);
  summary.standing = standing_of(summary);
  if (all.empty()) return summary;
  summary.median = quantile(all, 0.5);
  if (const auto logs = log10_interval(all)) summary.digits = Interval{-logs->high, -logs->low};
  summary.over_best = median_of(cells, &Errors::over_best);
  summary.over_input_rounding = median_of(cells, &Errors::over_input_rounding);
  summary.over_terms = median_of(cells, &Errors::over_terms);
  summary.componentwise = median_of(cells, &Errors::componentwise_p999);
  summary.worst = median_of(cells, &Errors::worst);
  summary.bias = bias_of(study, cells, &Errors::mean);
  summary.bias_outward = bias_of(study, cells, &Errors::mean_outward);
  return summary;
}

// Only a length says how a sum runs. Other axes change what is added.
std::string reading_of(const Interval& interval, bool is_length) {
  const auto holds = [&](double value) { return interval.low <= value && value <= interval.high; };
  // Small samples of small sizes bend a line a little: within 0.1 of an exponent is near it.
  const auto is_near = [&](double value) {
    return holds(value) || std::min(std::abs(interval.low - value), std::abs(interval.high - value)) <= 0.1;
  };
  const bool none = is_near(0), half = is_near(0.5), one = is_near(1);
  if (none + half + one > 1) return "open";
  if (none) return "constant";
  if (half && is_length) return "as a square root: rounding";
  if (one && is_length) return "in proportion: truncation or swamping";
  if (half) return "as a square root";
  if (one) return "in proportion";
  if (interval.low > 1) return "more than in proportion";
  if (interval.high < 0) return "falls";
  return interval.low > 0 ? "rises" : "between";
}

// All axes but one, as a number.
uint64_t group_of(const Study& study, const Point& point, size_t without) {
  uint64_t group = 0;
  for (size_t i = 0; i < point.size(); ++i)
    group = group * (study.axes[i].values.size() + 1) + (i == without ? 0 : point[i] + 1);
  return group;
}

}  // namespace

std::string_view name_of(Standing standing) {
  switch (standing) {
    case Standing::kMet:
      return "met";
    case Standing::kOpen:
      return "open";
    case Standing::kMissed:
      return "missed";
    case Standing::kAbsent:
      return "not there";
  }
  throw Error("Standing({}) is no standing", static_cast<int>(standing));
}

const PointSummary* Summary::at(size_t point) const {
  const auto found = std::ranges::find(points, point, &PointSummary::point);
  return found == points.end() ? nullptr : &*found;
}

std::vector<Summary> summarize(const Study& study) {
  std::vector<Summary> all;
  for (size_t number = 0; number < study.contenders.size(); ++number) {
    Summary summary{.contender = number};
    std::map<size_t, std::vector<const Cell*>> by_point;
    for (const Cell& cell : study.cells) {
      if (cell.contender != number) continue;
      by_point[cell.point].push_back(&cell);
      if (cell.repeats) summary.repeats = summary.repeats.value_or(true) && *cell.repeats;
      if (cell.alone) summary.alone = summary.alone.value_or(true) && *cell.alone;
    }
    for (const auto& [point, own] : by_point) summary.points.push_back(summary_at(study, point, own));
    all.push_back(std::move(summary));
  }
  return all;
}

std::optional<size_t> deciding_point(const Study& study, const std::vector<Summary>& summaries) {
  struct Rank {
    bool is_met = false;
    double size = 0;
    int64_t others = 0;  // that do not meet the target
    size_t point = 0;
    auto operator<=>(const Rank&) const = default;
  };
  std::optional<Rank> best;
  for (size_t point = 0; point < study.points.size(); ++point) {
    int64_t met = 0, reached = 0;
    for (const Summary& summary : summaries) {
      const PointSummary* const at = summary.at(point);
      reached += at != nullptr;
      met += at != nullptr && at->standing == Standing::kMet;
    }
    if (reached == 0) continue;
    double size = 1;
    const Dims dims = dims_at(study.axes, study.points[point], study.dims);
    for (const auto& [key, value] : dims.values()) size *= static_cast<double>(value);
    const Rank rank{met > 0, size, std::ssize(summaries) - met, point};
    if (!best || *best < rank) best = rank;
  }
  return best ? std::optional(best->point) : std::nullopt;
}

std::optional<size_t> detailed_point(const Study& study, const std::vector<Summary>& summaries) {
  const auto point = deciding_point(study, summaries);
  const bool is_there =
      std::ranges::any_of(study.sites, [&](const SiteShare& share) { return share.point == point; });
  return is_there || study.sites.empty() ? point : std::optional(study.sites.front().point);
}

const Time* time_at(const Study& study, size_t contender, size_t point) {
  const auto dims_of = [&](size_t at) { return dims_at(study.axes, study.points[at], study.dims); };
  for (const Time& time : study.times) {
    if (time.contender == contender && dims_of(time.point) == dims_of(point)) return &time;
  }
  return nullptr;
}

std::vector<Fit> fits(const Study& study) {
  std::vector<Fit> all;
  for (size_t axis = 0; axis < study.axes.size(); ++axis) {
    if (!study.axes[axis].is_numeric()) continue;
    for (size_t number = 0; number < study.contenders.size(); ++number) {
      std::vector<Observation> observations;
      for (const Cell& cell : study.cells) {
        if (cell.contender != number || !cell.errors.normwise) continue;
        const Point& point = study.points[cell.point];
        const uint64_t group = group_of(study, point, axis) * study.outputs.size() + cell.output;
        observations.push_back({study.axes[axis].values[point[axis]].number.value(), *cell.errors.normwise,
                                group, static_cast<uint64_t>(cell.draw)});
      }
      if (const auto exponent = exponent_of(observations, study.seed))
        all.push_back({number, axis, *exponent,
                       reading_of(exponent->interval, study.axes[axis].kind == Axis::Kind::kDim)});
    }
  }
  return all;
}

std::vector<Onset> onsets(const Study& study, const std::vector<Summary>& summaries) {
  std::vector<Onset> all;
  for (size_t axis = 0; axis < study.axes.size(); ++axis) {
    if (!study.axes[axis].is_numeric() || study.axes[axis].values.size() < 2) continue;
    for (const Summary& summary : summaries) {
      if (summary.points.empty()) continue;
      Onset onset{.contender = summary.contender, .axis = axis, .value = {}};
      const auto& values = study.axes[axis].values;
      for (const PointSummary& point : summary.points) {
        const size_t value = study.points[point.point][axis];
        onset.standing = std::max(onset.standing, point.standing);
        if (point.standing == Standing::kMissed &&
            (!onset.value || *values[value].number < *values[*onset.value].number))
          onset.value = value;
      }
      all.push_back(onset);
    }
  }
  return all;
}

}  // namespace assay::study
