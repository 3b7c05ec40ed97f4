// SPDX-License-Identifier: Apache-2.0
#include "reports/render/size_charts.h"

#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "reports/render/study_plot.h"
#include "reports/render/text.h"

namespace assay {
namespace {

constexpr size_t kLeastSizes = 5;
constexpr double kNear = 1.5;  // times the floor

struct Point {
  double bytes, ratio;
  std::string title;
  bool is_of_graph;
};

using Points = std::vector<Point>;
using Group = std::tuple<std::string, std::string, std::string>;  // op, device, dtype

Points points_of(const CaseRecord& item) {
  Points points;
  if (!item.perf || !item.perf->floor_ns || !(*item.perf->floor_ns > 0) || item.perf->bytes == 0)
    return points;
  const auto add = [&](double ns, bool is_of_graph) {
    const double ratio = ns / *item.perf->floor_ns;
    points.push_back({static_cast<double>(item.perf->bytes), ratio,
                      fmt::format("{}: {}{}, {:.2f} times the floor", format_dims(item.which.dims),
                                  format_time(ns), is_of_graph ? " of a graph" : "", ratio),
                      is_of_graph});
  };
  add(item.perf->median_ns, false);
  if (item.perf->graph) add(item.perf->graph->median_ns, true);
  return points;
}

std::string chart(const std::map<std::string, Points>& paths, const std::string& shown) {
  std::vector<double> bytes, ratios{1, kNear};
  for (const auto& [path, points] : paths) {
    for (const Point& point : points) {
      bytes.push_back(point.bytes);
      ratios.push_back(point.ratio);
    }
  }
  Plot plot(376, 190, 22);
  plot.set_x(bytes);
  plot.set_y_near_one(ratios);
  plot.axis_of_bytes();
  for (double line : {1.0, kNear}) plot.horizontal(line, "floor");
  for (const auto& [path, points] : paths) {
    if (path == shown) continue;
    for (const Point& point : points)
      if (!point.is_of_graph) plot.dot(point.bytes, point.ratio, "other", path + " " + point.title);
  }
  for (const Point& point : paths.at(shown))
    plot.dot(point.bytes, point.ratio, point.is_of_graph ? "graph" : "within", point.title);
  return plot.svg("time over floor against bytes");
}

}  // namespace

std::string size_charts(const Record& record) {
  std::map<Group, std::map<std::string, Points>> groups;
  for (const CaseRecord& item : record.cases) {
    const Group group{item.which.op, item.device, std::string(name_of(item.which.dtype))};
    for (Point& point : points_of(item)) groups[group][item.which.path].push_back(std::move(point));
  }
  std::string cards;
  for (const auto& [group, paths] : groups) {
    const auto& [op, device, dtype] = group;
    for (const auto& [path, points] : paths) {
      std::set<double> sizes;
      int64_t near = 0, all = 0;
      for (const Point& point : points) {
        sizes.insert(point.bytes);
        if (point.is_of_graph) continue;
        ++all;
        near += point.ratio <= kNear ? 1 : 0;
      }
      if (sizes.size() < kLeastSizes) continue;
      cards += fmt::format(
          "<div class=\"card\"><h3>{}/{} {}</h3><div class=\"small muted\">{} · {} of {} within 1.5 times "
          "the "
          "floor</div>{}</div>\n",
          escape_markup(op), escape_markup(path), dtype, escape_markup(device), near, plural(all, "problem"),
          chart(paths, path));
    }
  }
  if (cards.empty()) return "";
  return "<p class=\"muted\">The cold median over its floor, against the bytes of all inputs and outputs. "
         "Full "
         "dots: times of the stream. Rings: of a graph. Grey: the other paths, each over its own floor. The "
         "dotted "
         "lines stand at 1 and 1.5.</p>\n<div class=\"cards\">" +
         cards + "</div>\n";
}

}  // namespace assay
