// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "reports/render/study.h"
#include "reports/render/text.h"

namespace assay {
namespace {

using namespace study;

std::string digits_text(const PointSummary& point) {
  if (!point.digits) return "–";
  return fmt::format("{:.2f} – {:.2f}", point.digits->low, point.digits->high);
}

// Where most is lost.
const PointSummary* decisive(const Summary& summary) {
  return summary.decisive ? &summary.points[*summary.decisive] : nullptr;
}

StudyTable contenders_table(const Study& study, const std::vector<Summary>& summaries) {
  StudyTable table{
      .title = "How wrong, how fast",
      .note =
          "Limits hold for 95 % of draws, with 95 % confidence, at the worst point. The other errors are "
          "medians over all cells. Over best: 1 is as good as the recipe gets. Over input rounding: "
          "below 1 more precision inside buys nothing. Outward: below -3 it errs toward 0. An "
          "emulated recipe errs as its plainest right path.",
      .heads = {"contender", "target", "upper limit", "digits, 95 %", "over best", "over input rounding",
                "largest error", "componentwise, 99.9 %", "bias", "outward", "repeats", "time", "of floor"},
      .rows = {},
      .words = 2};
  for (const Summary& summary : summaries) {
    const PointSummary* const at = decisive(summary);
    if (at == nullptr) {
      table.rows.push_back({study.label(summary.contender), excerpt(summary.why_not)});
      table.rows.back().resize(table.heads.size(), "–");
      continue;
    }
    double floor = 0, median = 0;
    for (const Time& time : study.times) {
      if (time.contender != summary.contender || !time.median_ns || !time.floor_ns) continue;
      floor += *time.floor_ns;
      median += *time.median_ns;
    }
    table.rows.push_back(
        {study.label(summary.contender), std::string(name_of(summary.standing)), format_number(at->limit),
         digits_text(*at), format_number(summary.over_best), format_number(summary.over_input_rounding),
         format_number(summary.worst), format_number(summary.componentwise), format_number(summary.bias),
         format_number(summary.bias_outward), summary.repeats ? (*summary.repeats ? "yes" : "no") : "–",
         summary.median_ns ? format_time(*summary.median_ns) : summary.no_time,
         format_percent(median > 0 ? std::optional(floor / median) : std::nullopt)});
  }
  return table;
}

StudyTable points_table(const Study& study, const std::vector<Summary>& summaries) {
  StudyTable table{.title = "Upper limits at each point",
                   .note = fmt::format("Normwise errors; the target is {}. An exclamation mark: missed; a "
                                       "question mark: too close to tell.",
                                       described(study.target)),
                   .heads = {},
                   .rows = {},
                   .words = study.axes.size()};
  for (const Axis& axis : study.axes) table.heads.push_back(axis.name);
  for (const Summary& summary : summaries) table.heads.push_back(study.label(summary.contender));
  if (study.axes.empty() || study.points.size() < 2) return table;
  for (size_t point = 0; point < study.points.size(); ++point) {
    std::vector<std::string> row;
    for (size_t axis = 0; axis < study.axes.size(); ++axis)
      row.push_back(study.axes[axis].values[study.points[point][axis]].text);
    bool has_any = false;
    for (const Summary& summary : summaries) {
      const auto at = std::ranges::find(summary.points, point, &PointSummary::point);
      const bool is_there = at != summary.points.end();
      row.push_back(is_there ? format_number(at->limit) + (at->standing == Standing::kMissed ? " !"
                                                           : at->standing == Standing::kOpen ? " ?"
                                                                                             : "")
                             : "–");
      has_any |= is_there;
    }
    if (has_any) table.rows.push_back(std::move(row));
  }
  return table;
}

StudyTable fits_table(const Study& study) {
  StudyTable table{
      .title = "How errors grow",
      .note =
          "The exponent of the error in each axis, other axes fixed; its interval is from resampled "
          "draws. 1/2 means rounding, 1 truncation or swamping.",
      .heads = {"contender", "axis", "reading", "exponent", "interval"},
      .rows = {},
      .words = 3};
  for (const Fit& fit : fits(study)) {
    table.rows.push_back(
        {study.label(fit.contender), study.axes[fit.axis].name, fit.reading,
         fmt::format("{:.2f}", fit.exponent.value),
         fmt::format("{:.2f} – {:.2f}", fit.exponent.interval.low, fit.exponent.interval.high)});
  }
  return table;
}

StudyTable onsets_table(const Study& study, const std::vector<Summary>& summaries) {
  StudyTable table{.title = "Where the target is missed first",
                   .note = "The smallest value of each axis at which some point misses the target.",
                   .heads = {"contender"},
                   .rows = {},
                   .words = 1};
  const std::vector<Onset> all = onsets(study, summaries);
  for (size_t axis = 0; axis < study.axes.size(); ++axis) {
    if (std::ranges::any_of(all, [&](const Onset& onset) { return onset.axis == axis; }))
      table.heads.push_back(study.axes[axis].name);
  }
  if (all.empty()) return table;
  for (const Summary& summary : summaries) {
    std::vector<std::string> row{study.label(summary.contender)};
    for (const Onset& onset : all) {
      if (onset.contender == summary.contender)
        row.push_back(onset.value ? study.axes[onset.axis].values[*onset.value].text : "met");
    }
    if (row.size() > 1) table.rows.push_back(std::move(row));
  }
  return table;
}

StudyTable sites_table(const Study& study) {
  StudyTable table{
      .title = "What each site does",
      .note =
          "At the first point. Alone: the normwise error if this site alone is performed. Without: that "
          "of the recipe if this site alone is exact. Shares of the squared errors of all sites alone; "
          "where they interact, their sum is not the whole.",
      .heads = {"contender", "output", "site", "alone", "share", "without", "whole recipe"},
      .rows = {},
      .words = 3};
  for (const SiteShare& share : study.sites) {
    double sum = 0;
    for (const SiteShare& other : study.sites) {
      if (other.contender == share.contender && other.output == share.output)
        sum += other.alone * other.alone;
    }
    table.rows.push_back(
        {study.label(share.contender), study.outputs[share.output], share.site, format_number(share.alone),
         format_percent(sum > 0 ? std::optional(share.alone * share.alone / sum) : std::nullopt),
         format_number(share.without), format_number(share.all)});
  }
  return table;
}

StudyTable recipes_table(const Study& study) {
  StudyTable table{.title = "Recipes",
                   .note = "As they are declared, at the first point.",
                   .heads = {"contender", "recipe"},
                   .rows = {},
                   .words = 2};
  for (size_t i = 0; i < study.contenders.size(); ++i)
    table.rows.push_back({study.label(i), study.recipes[i]});
  return table;
}

}  // namespace

std::string fixed_dims(const study::Study& study) {
  Dims fixed;
  for (const auto& [key, value] : study.dims.values()) {
    if (std::ranges::none_of(study.axes, [&, &name = key](const Axis& axis) { return axis.name == name; }))
      fixed.set(key, value);
  }
  return format_dims(fixed);
}

std::string described(const study::Target& target) {
  std::string text = fmt::format("{} normwise", format_number(target.normwise));
  if (target.worst) text += fmt::format(", {} of the rms for each element", format_number(*target.worst));
  return text;
}

std::vector<StudyTable> tables_of(const study::Study& study) {
  const std::vector<Summary> summaries = summarize(study);
  std::vector<StudyTable> all{contenders_table(study, summaries),
                              points_table(study, summaries),
                              fits_table(study),
                              onsets_table(study, summaries),
                              sites_table(study),
                              recipes_table(study)};
  std::erase_if(all, [](const StudyTable& table) { return table.rows.empty(); });
  return all;
}

}  // namespace assay
