// SPDX-License-Identifier: Apache-2.0
// Charts of one contender each show all others in grey, so that cards can be compared.
#include "reports/render/study_charts.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "reports/render/study_plot.h"
#include "reports/render/text.h"

namespace assay {
namespace {

using study::Study;
using study::Summary;

std::string card(const std::string& title, const std::string& note, const std::string& content) {
  return fmt::format("<div class=\"card\"><h3>{}</h3><div class=\"small muted\">{}</div>{}</div>\n",
                     escape_markup(title), escape_markup(note), content);
}

std::string cards(const std::string& content) {
  return content.empty() ? "" : "<div class=\"cards narrow\">" + content + "</div>\n";
}

// ---- error against time

// A part of a note: the point that sites and distances are of.
std::string at_point(const Study& study, std::optional<size_t> point) {
  return point && study.points.size() > 1 ? fmt::format("At {}. ", text_of(study.axes, study.points[*point]))
                                          : "";
}

StudyChart pareto(const Study& study, const std::vector<Summary>& summaries) {
  StudyChart chart{.id = "pareto",
                   .title = "Error against time",
                   .note =
                       "The largest normwise error of the draws, and the median time. The dotted line is the "
                       "target. What is not timed stands at the right.",
                   .content = {}};
  const auto point = deciding_point(study, summaries);
  if (!point) return chart;
  chart.note = at_point(study, point) + chart.note;
  std::vector<double> times, errors{study.target.normwise};
  const auto time_of = [&](const Summary& summary) {
    const study::Time* const time = time_at(study, summary.contender, *point);
    return time != nullptr && time->counts() ? time->median_ns : std::nullopt;
  };
  const auto is_there = [&](const Summary& summary) {
    const study::PointSummary* const at = summary.at(*point);
    return at != nullptr && at->standing != study::Standing::kAbsent;
  };
  for (const Summary& summary : summaries) {
    if (!is_there(summary)) continue;
    errors.push_back(summary.at(*point)->largest);
    if (const auto time = time_of(summary)) times.push_back(*time);
  }
  if (errors.size() < 2) return chart;
  Plot plot(860, 300, 170);
  plot.set_x(times.empty() ? std::vector<double>{1} : times);
  plot.set_y(errors);
  plot.horizontal(study.target.normwise, "floor");
  if (!times.empty()) plot.axis_of_times();
  for (const Summary& summary : summaries) {
    if (!is_there(summary)) continue;
    const study::PointSummary& at = *summary.at(*point);
    plot.point(time_of(summary), at.largest, at.standing == study::Standing::kMissed ? "beyond" : "within",
               study.contenders[summary.contender].label());
  }
  chart.content = plot.svg("error against time");
  return chart;
}

// ---- error against an axis

// The median normwise error of each value of an axis, over all other axes and draws.
std::vector<double> medians_along(const Study& study, size_t axis, size_t contender) {
  std::vector<std::vector<double>> by_value(study.axes[axis].values.size());
  for (const study::Cell& cell : study.cells) {
    if (cell.contender == contender && cell.errors.normwise)
      by_value[study.points[cell.point][axis]].push_back(*cell.errors.normwise);
  }
  std::vector<double> medians;
  for (auto& values : by_value)
    medians.push_back(values.empty() ? 0 : study::quantile(std::move(values), 0.5));
  return medians;
}

StudyChart along(const Study& study, size_t axis, const std::vector<study::Fit>& fits) {
  const study::Axis& on = study.axes[axis];
  StudyChart chart{
      .id = fmt::format("axis{}", axis),
      .title = fmt::format("Error against {}", on.name),
      .note =
          "Medians over draws and all other axes. Dashes: the fit. Dots: the target. Grey: the others; "
          "beside the fit, thin, those of exponent 1/2 and 1 through its first value.",
      .content = {}};
  if (on.values.size() < 2) return chart;
  std::vector<std::vector<double>> lines;
  std::vector<double> all{study.target.normwise};
  for (size_t i = 0; i < study.contenders.size(); ++i) {
    lines.push_back(medians_along(study, axis, i));
    all.insert(all.end(), lines.back().begin(), lines.back().end());
  }
  for (size_t i = 0; i < study.contenders.size(); ++i) {
    if (std::ranges::all_of(lines[i], [](double y) { return y == 0; })) continue;
    Plot plot(230, 130, 6);
    plot.set_values(on.values);
    plot.set_y(all);
    for (const auto& other : lines) plot.line(other, "axis");
    plot.horizontal(study.target.normwise, "floor");
    std::string note = "no fit";
    const auto fit = std::ranges::find_if(
        fits, [&](const study::Fit& one) { return one.axis == axis && one.contender == i; });
    if (fit != fits.end()) {
      const auto& [value, interval] = fit->exponent;
      note = fmt::format("exponent {:.2f} ({:.2f} – {:.2f}): {}", value, interval.low, interval.high,
                         fit->reading);
      double logs = 0, count = 0;
      for (size_t k = 0; k < lines[i].size(); ++k) {
        const double x = *on.values[k].number;
        if (x <= 0 || lines[i][k] <= 0) continue;
        logs += std::log(lines[i][k]) - value * std::log(x);
        ++count;
      }
      double first = 0;
      for (const study::AxisValue& at : on.values)
        if (*at.number > 0 && (first == 0 || *at.number < first)) first = *at.number;
      const auto fit_of = [&](double exponent) {
        std::vector<double> fitted;
        for (const study::AxisValue& at : on.values)
          fitted.push_back(*at.number > 0 ? std::exp(logs / count + value * std::log(first)) *
                                                std::pow(*at.number / first, exponent)
                                          : 0);
        return fitted;
      };
      for (double exponent : {0.5, 1.0}) plot.line(fit_of(exponent), "slope");
      plot.line(fit_of(value), "ecdf warm");
    }
    plot.line(lines[i], "ecdf cold");
    chart.content +=
        card(study.label(i), note, plot.svg(fmt::format("error against {}", escape_markup(on.name))));
  }
  chart.content = cards(chart.content);
  return chart;
}

// ---- digits over two axes

StudyChart heat_map(const Study& study, const std::vector<Summary>& summaries) {
  std::vector<size_t> axes;
  for (size_t axis = 0; axis < study.axes.size(); ++axis) {
    if (study.axes[axis].values.size() > 1) axes.push_back(axis);
  }
  StudyChart chart{.id = "digits", .title = {}, .note = {}, .content = {}};
  if (axes.size() < 2) return chart;
  const study::Axis &down = study.axes[axes[0]], &right = study.axes[axes[1]];
  chart.title = fmt::format("Digits over {} and {}", down.name, right.name);
  chart.note =
      "-log10 of the largest error over all draws and other axes. Framed: the target is missed. Darker: "
      "more digits.";
  for (const Summary& summary : summaries) {
    if (summary.points.empty()) continue;
    struct At {
      double largest = 0;
      bool is_there = false, meets = true;
    };
    std::vector<At> grid(down.values.size() * right.values.size());
    for (const study::PointSummary& point : summary.points) {
      const study::Point& at = study.points[point.point];
      if (point.standing == study::Standing::kAbsent) continue;
      At& cell = grid[at[axes[0]] * right.values.size() + at[axes[1]]];
      cell.largest = std::max(cell.largest, point.largest);
      cell.is_there = true;
      cell.meets &= point.standing != study::Standing::kMissed;
    }
    std::string rows = "<table class=\"heat\"><tr><td>";
    for (const study::AxisValue& value : right.values)
      rows += fmt::format("<td>{}", escape_markup(value.text));
    for (size_t i = 0; i < down.values.size(); ++i) {
      rows += fmt::format("\n<tr><td>{}", escape_markup(down.values[i].text));
      for (size_t k = 0; k < right.values.size(); ++k) {
        const At& cell = grid[i * right.values.size() + k];
        if (!cell.is_there) {
          rows += "<td>–";
          continue;
        }
        const double digits = -std::log10(cell.largest);
        const double depth = std::isfinite(digits) ? std::clamp(digits / 8, 0.0, 1.0) : digits > 0 ? 1 : 0;
        rows += fmt::format("<td class=\"{}\" style=\"--depth:{:.0f}%\">{}", cell.meets ? "met" : "missed",
                            60 * depth,
                            std::isfinite(digits) ? fmt::format("{:.1f}", digits)
                            : digits > 0          ? "all"
                                                  : "none");
      }
    }
    chart.content += card(study.label(summary.contender),
                          fmt::format("{} down, {} right", down.name, right.name), rows + "</table>");
  }
  chart.content = cards(chart.content);
  return chart;
}

// ---- what each site adds

StudyChart stages(const Study& study, std::optional<size_t> point) {
  StudyChart chart{.id = "sites",
                   .title = "What each site adds",
                   .note = "Shares of the squared errors of the sites alone.",
                   .content = {}};
  std::map<std::pair<size_t, size_t>, std::vector<const study::SiteShare*>> bars;
  chart.note = at_point(study, point) + chart.note;
  for (const study::SiteShare& share : study.sites) {
    if (share.point == point) bars[{share.contender, share.output}].push_back(&share);
  }
  for (const auto& [key, shares] : bars) {
    double sum = 0;
    for (const study::SiteShare* share : shares) sum += share->alone * share->alone;
    if (sum == 0) continue;
    std::string segments, words;
    for (const study::SiteShare* share : shares) {
      const double part = share->alone * share->alone / sum;
      if (part < 0.005) continue;
      const std::string text =
          fmt::format("{} {}", escape_markup(share->site), format_percent(std::optional(part)));
      segments += fmt::format("<i style=\"width:{:.1f}%\" title=\"{}\"></i>", 100 * part, text);
      words += (words.empty() ? "" : ", ") + text;
    }
    const std::string title = study.label(key.first) +
                              (study.outputs.size() > 1 ? ", " + study.outputs[key.second] : std::string());
    chart.content += fmt::format(
        "<div class=\"card\"><h3>{}</h3><div class=\"stack\">{}</div><div "
        "class=\"small muted\">{}</div></div>\n",
        escape_markup(title), segments, words);
  }
  chart.content = cards(chart.content);
  return chart;
}

// ---- distances

StudyChart distances(const Study& study, std::optional<size_t> point) {
  StudyChart chart{
      .id = "distances",
      .title = "How far elements are",
      .note =
          "The share of elements within a distance, over the rms of the output, in the first draw. "
          "Solid: from the exact value. Dashed: from what the recipe computes.",
      .content = {}};
  chart.note = at_point(study, point) + chart.note;
  std::vector<double> all;
  for (const study::Distances& one : study.distances) {
    if (one.point != point) continue;
    all.insert(all.end(), one.from_computed.begin(), one.from_computed.end());
    all.insert(all.end(), one.from_exact.begin(), one.from_exact.end());
  }
  std::erase_if(all, [](double x) { return !(x > 0); });
  if (all.empty()) return chart;
  for (const study::Distances& one : study.distances) {
    if (one.point != point) continue;
    Plot plot(230, 110, 6);
    plot.set_x(all);
    plot.set_shares();
    plot.axis_of_decades();
    plot.ecdf(one.from_computed, "ecdf warm");
    plot.ecdf(one.from_exact, "ecdf cold");
    const bool is_exact = one.from_computed.back() == 0;
    chart.content += card(study.label(one.contender) +
                              (study.outputs.size() > 1 ? ", " + study.outputs[one.output] : std::string()),
                          is_exact ? "is what the recipe computes" : "", plot.svg("distances of elements"));
  }
  chart.content = cards(chart.content);
  return chart;
}

}  // namespace

std::vector<StudyChart> charts_of(const Study& study, const std::vector<Summary>& summaries) {
  std::vector<StudyChart> all{pareto(study, summaries)};
  const std::vector<study::Fit> fits = study::fits(study);
  for (size_t axis = 0; axis < study.axes.size(); ++axis) {
    if (study.axes[axis].is_numeric()) all.push_back(along(study, axis, fits));
  }
  all.push_back(heat_map(study, summaries));
  const auto point = detailed_point(study, summaries);
  all.push_back(stages(study, point));
  all.push_back(distances(study, point));
  std::erase_if(all, [](const StudyChart& chart) { return chart.content.empty(); });
  return all;
}

}  // namespace assay
