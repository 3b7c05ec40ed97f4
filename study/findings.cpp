// SPDX-License-Identifier: Apache-2.0
#include "study/findings.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace assay::study {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::optional<double> median_of(const std::vector<const Cell*>& cells,
                                std::optional<double> Errors::*member) {
  std::vector<double> values;
  for (const Cell* cell : cells) {
    if (cell->errors.*member) values.push_back(*(cell->errors.*member));
  }
  return values.empty() ? std::nullopt : std::optional(quantile(std::move(values), 0.5));
}

PointSummary summary_at(const Study& study, size_t point, const std::vector<const Cell*>& cells) {
  PointSummary summary{.point = point};
  std::map<int64_t, std::pair<double, double>> of_draws;  // the largest normwise and worst
  for (const Cell* cell : cells) {
    const Errors& errors = cell->errors;
    auto& [normwise, worst] = of_draws[cell->draw];
    // An output without an error that can be said is as wrong as can be, unless it has no elements.
    const double missing = errors.elements == 0 ? 0 : kInfinity;
    normwise = std::max(normwise, errors.normwise.value_or(missing));
    worst = std::max(worst, errors.worst.value_or(errors.normwise == 0.0 ? 0 : missing));
    summary.nonfinite += errors.nonfinite;
    summary.outside += errors.outside;
  }
  std::vector<double> normwise, worst;
  for (const auto& [draw, largest] : of_draws) {
    normwise.push_back(largest.first);
    worst.push_back(largest.second);
  }
  summary.draws = std::ssize(normwise);
  summary.median = quantile(normwise, 0.5);
  summary.limit = upper_limit(normwise);
  summary.worst_limit = upper_limit(worst);
  if (const auto logs = log10_interval(normwise)) summary.digits = Interval{-logs->high, -logs->low};
  const auto standing_of = [](const std::vector<double>& errors, double upper, double target) {
    if (upper <= target) return Standing::kMet;
    return lower_limit(errors) <= target ? Standing::kOpen : Standing::kMissed;
  };
  summary.standing = standing_of(normwise, summary.limit, study.target.normwise);
  if (study.target.worst)
    summary.standing =
        std::max(summary.standing, standing_of(worst, summary.worst_limit, *study.target.worst));
  if (summary.nonfinite > 0 || summary.outside > 0) summary.standing = Standing::kMissed;
  return summary;
}

void add_time(const Study& study, Summary& summary) {
  double median = 0, low = 0, high = 0, count = 0;  // logarithms
  for (const Time& time : study.times) {
    if (time.contender != summary.contender) continue;
    if (!time.median_ns) {
      summary.no_time = time.reason;
      return;
    }
    median += std::log(*time.median_ns);
    low += std::log(time.low_ns.value_or(*time.median_ns));
    high += std::log(time.high_ns.value_or(*time.median_ns));
    ++count;
  }
  if (count > 0) {
    summary.median_ns = std::exp(median / count);
    summary.low_ns = std::exp(low / count);
    summary.high_ns = std::exp(high / count);
  } else {
    summary.no_time = study.emulated[summary.contender] ? "emulated" : "not timed";
  }
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
  }
  throw Error("Standing({}) is no standing", static_cast<int>(standing));
}

std::vector<Summary> summarize(const Study& study) {
  std::vector<Summary> all;
  for (size_t number = 0; number < study.contenders.size(); ++number) {
    Summary summary{.contender = number};
    std::map<size_t, std::vector<const Cell*>> by_point;
    std::vector<const Cell*> cells;
    for (const Cell& cell : study.cells) {
      if (cell.contender != number) continue;
      if (!cell.why_not.empty()) {
        summary.why_not = cell.why_not;
        continue;
      }
      by_point[cell.point].push_back(&cell);
      cells.push_back(&cell);
      if (cell.repeats) summary.repeats = summary.repeats.value_or(true) && *cell.repeats;
    }
    for (const auto& [point, own] : by_point) summary.points.push_back(summary_at(study, point, own));
    if (summary.why_not.empty() && !summary.points.empty()) summary.standing = Standing::kMet;
    for (const PointSummary& point : summary.points)
      summary.standing = std::max(summary.standing, point.standing);
    for (size_t i = 0; i < summary.points.size(); ++i) {
      if (!summary.decisive || summary.points[i].limit > summary.points[*summary.decisive].limit)
        summary.decisive = i;
    }
    add_time(study, summary);
    summary.over_best = median_of(cells, &Errors::over_best);
    summary.over_input_rounding = median_of(cells, &Errors::over_input_rounding);
    summary.bias = median_of(cells, &Errors::bias);
    summary.bias_outward = median_of(cells, &Errors::bias_outward);
    summary.componentwise = median_of(cells, &Errors::componentwise_p999);
    summary.worst = median_of(cells, &Errors::worst);
    all.push_back(std::move(summary));
  }
  return all;
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
