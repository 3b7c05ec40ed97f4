// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
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

std::string energy_text(std::optional<double> joules) {
  if (!joules) return "–";
  const bool is_small = *joules < 1e-3;
  return format_number(*joules * (is_small ? 1e6 : 1e3)) + (is_small ? " µJ" : " mJ");
}

// Leaves out what no contender has, such as the energy on a machine that tells none.
StudyTable without_empty_columns(StudyTable table) {
  for (size_t i = table.heads.size(); i-- > table.words;) {
    if (!std::ranges::all_of(table.rows, [i](const auto& row) { return row[i] == "–"; })) continue;
    const auto at = static_cast<std::ptrdiff_t>(i);
    table.heads.erase(table.heads.begin() + at);
    for (auto& row : table.rows) row.erase(row.begin() + at);
  }
  return table;
}

std::string yes_or_no(std::optional<bool> answer) {
  return !answer ? "–" : *answer ? "yes" : "no";
}

// What the largest error of the draws says about all draws (study/statistics.h).
std::string limits_text(const Study& study) {
  return fmt::format(
      "Met: no draw is above the target. Then 95 % of all draws are not either, with {:.0f} % confidence: 1 "
      "- "
      "0.95^{}; {} draws give 95 %. Missed: {} of {} draws are above it, which is unlikely (5 %) if 95 % of "
      "all "
      "draws meet it. Too close to tell: fewer.",
      100 * confidence_of(study.draws), study.draws, kDrawsFor95, draws_that_tell(study.draws), study.draws);
}

// The columns of the first table, and what the note says of them.
struct Explained {
  std::string_view head, meaning = {};
};
constexpr std::array kColumns{
    Explained{"contender"},
    Explained{"target"},
    Explained{"largest of draws"},
    Explained{"time", "A time with a question mark is implausible."},
    Explained{"of floor"},
    Explained{"energy", "Energy: the time at the mean power meanwhile."},
    Explained{"digits, 95 %", "Digits: the mean, by Student's t."},
    Explained{"over best", "Over best: 1 is as good as the recipe gets."},
    Explained{"over input rounding", "Over input rounding: below 1 more precision inside buys nothing."},
    Explained{"over |W||z|",
              "Over |W||z|: the largest error over the magnitudes of the terms of the last sum."},
    Explained{"largest element"},
    Explained{"componentwise, 99.9 %"},
    Explained{"bias", "Bias: the mean signed error in standard errors over draws."},
    Explained{"outward", "Outward: away from 0."},
    Explained{"repeats"},
    Explained{"alone", "Alone: an entry of the batch has the same bits without the others."}};

std::string mark_of(Standing standing) {
  switch (standing) {
    case Standing::kMet:
    case Standing::kAbsent:
      return "";
    case Standing::kOpen:
      return " ?";
    case Standing::kMissed:
      return " !";
  }
  throw Error("Standing({}) is no standing", static_cast<int>(standing));
}

StudyTable contenders_table(const Study& study, const std::vector<Summary>& summaries) {
  StudyTable table{.title = "How wrong, how fast", .note = "", .heads = {}, .rows = {}, .words = 2};
  for (const Explained& column : kColumns) table.heads.emplace_back(column.head);
  const auto point = deciding_point(study, summaries);
  if (!point) return table;
  for (const Summary& summary : summaries) {
    const PointSummary* const at = summary.at(*point);
    if (at == nullptr || at->standing == Standing::kAbsent) {
      const std::string why = at == nullptr ? "not reached" : at->why_not;
      table.rows.push_back({study.label(summary.contender), fmt::format("not there: {}", excerpt(why))});
      table.rows.back().resize(table.heads.size(), "–");
      continue;
    }
    const Time* const time = time_at(study, summary.contender, *point);
    const bool is_timed = time != nullptr && time->median_ns;
    const std::string no_time = study.emulated[summary.contender] ? "emulated"
                                : time == nullptr                 ? "–"
                                                                  : time->reason;
    const bool has_floor = is_timed && time->floor_ns;
    table.rows.push_back(
        {study.label(summary.contender), std::string(name_of(at->standing)), format_number(at->largest),
         is_timed ? format_time(*time->median_ns) + (time->counts() ? "" : " ?") : excerpt(no_time),
         format_percent(has_floor ? std::optional(*time->floor_ns / *time->median_ns) : std::nullopt),
         energy_text(is_timed ? time->energy_j() : std::nullopt), digits_text(*at),
         format_number(at->over_best), format_number(at->over_input_rounding), format_number(at->over_terms),
         format_number(at->worst), format_number(at->componentwise), format_number(at->bias),
         format_number(at->bias_outward), yes_or_no(summary.repeats), yes_or_no(summary.alone)});
  }
  table = without_empty_columns(std::move(table));
  if (study.points.size() > 1) table.note = fmt::format("At {}. ", text_of(study.axes, study.points[*point]));
  table.note += limits_text(study) +
                " The other errors are medians over draws; an emulated recipe errs as its "
                "plainest right path.";
  for (const Explained& column : kColumns) {
    if (!column.meaning.empty() && std::ranges::count(table.heads, column.head) > 0)
      table.note += fmt::format(" {}", column.meaning);
  }
  return table;
}

StudyTable points_table(const Study& study, const std::vector<Summary>& summaries) {
  StudyTable table{
      .title = "Largest errors at each point",
      .note = fmt::format("Normwise, of all draws; the target is {}. An exclamation mark: missed; a "
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
      const PointSummary* const at = summary.at(point);
      const bool is_absent = at == nullptr || at->standing == Standing::kAbsent;
      row.push_back(at == nullptr ? "–"
                    : is_absent   ? "not there"
                                  : format_number(at->largest) + mark_of(at->standing));
      has_any |= at != nullptr;
    }
    if (has_any) table.rows.push_back(std::move(row));
  }
  return table;
}

// Why contenders are not at some points, a row for each reason.
StudyTable absences_table(const Study& study, const std::vector<Summary>& summaries) {
  StudyTable table{.title = "Not there",
                   .note = "",
                   .heads = {"contender", "reason", "points", "the first"},
                   .rows = {},
                   .words = 2};
  for (const Summary& summary : summaries) {
    std::vector<std::string> reasons;
    for (const PointSummary& at : summary.points) {
      if (at.standing == Standing::kAbsent && std::ranges::count(reasons, at.why_not) == 0)
        reasons.push_back(at.why_not);
    }
    for (const std::string& reason : reasons) {
      const auto first = std::ranges::find(summary.points, reason, &PointSummary::why_not);
      table.rows.push_back(
          {study.label(summary.contender), excerpt(reason),
           fmt::format("{}", std::ranges::count(summary.points, reason, &PointSummary::why_not)),
           text_of(study.axes, study.points[first->point])});
    }
  }
  return table;
}

std::string two_digits(double value) {
  const std::string text = fmt::format("{:.2f}", value);
  return text == "-0.00" ? "0.00" : text;
}

StudyTable fits_table(const Study& study) {
  StudyTable table{
      .title = "How errors grow",
      .note =
          "The exponent of the error in each axis, other axes fixed; its 95 % interval is from resampled "
          "draws. A length has 1/2 (√n) for rounding, 1 (n) for truncation or swamping. Values of 0 have "
          "no logarithm and are left out.",
      .heads = {"contender", "axis", "reading", "exponent", "interval", "less 1/2", "less 1"},
      .rows = {},
      .words = 3};
  for (const Fit& fit : fits(study)) {
    table.rows.push_back(
        {study.label(fit.contender), study.axes[fit.axis].name, fit.reading, two_digits(fit.exponent.value),
         two_digits(fit.exponent.interval.low) + " – " + two_digits(fit.exponent.interval.high),
         fmt::format("{:+.2f}", fit.exponent.value - 0.5), fmt::format("{:+.2f}", fit.exponent.value - 1)});
  }
  return table;
}

StudyTable onsets_table(const Study& study, const std::vector<Summary>& summaries) {
  StudyTable table{.title = "Where the target is missed first",
                   .note =
                       "The smallest value of each axis at which some point misses the target. If none does: "
                       "met, open if a point is too close to tell, or not there.",
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
        row.push_back(onset.value ? study.axes[onset.axis].values[*onset.value].text
                                  : std::string(name_of(onset.standing)));
    }
    if (row.size() > 1) table.rows.push_back(std::move(row));
  }
  return table;
}

StudyTable sites_table(const Study& study, const std::vector<Summary>& summaries) {
  StudyTable table{.title = "What each site does",
                   .note =
                       "Alone: the normwise error if this site alone is performed. Without: that "
                       "of the recipe if this site alone is exact. All are of the plainest right path of the "
                       "recipe, which "
                       "may err more than the path itself. Shares of the squared errors of all sites alone; "
                       "where they interact, their sum is not the whole.",
                   .heads = {"contender", "output", "site", "alone", "share", "without", "whole recipe"},
                   .rows = {},
                   .words = 3};
  const auto point = detailed_point(study, summaries);
  if (point && study.points.size() > 1)
    table.note = fmt::format("At {}. ", text_of(study.axes, study.points[*point])) + table.note;
  for (const SiteShare& share : study.sites) {
    if (share.point != point) continue;
    double sum = 0;
    for (const SiteShare& other : study.sites) {
      if (other.point == share.point && other.contender == share.contender && other.output == share.output)
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

std::vector<std::string> disturbed_times(const StudyRecord& record) {
  std::vector<std::string> lines;
  if (!record.origin.conditions) return lines;
  for (const Disturbance& one : record.origin.conditions->disturbances)
    lines.push_back("Times are disturbed: " + one.text);
  return lines;
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
                              absences_table(study, summaries),
                              fits_table(study),
                              onsets_table(study, summaries),
                              sites_table(study, summaries),
                              recipes_table(study)};
  std::erase_if(all, [](const StudyTable& table) { return table.rows.empty(); });
  return all;
}

}  // namespace assay
