// SPDX-License-Identifier: Apache-2.0
#include "reports/render/history.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>

#include "kernels/core/printable.h"
#include "reports/render/summary.h"

namespace assay {
namespace {

struct Metric {
  std::string name;
  double value;
  std::string unit;
  std::string range;  // empty without one
};

std::vector<Metric> metrics_of(const Record& run) {
  std::vector<Metric> metrics;
  const auto add = [&](Metric metric) {
    if (std::isfinite(metric.value)) metrics.push_back(std::move(metric));
  };
  for (const CaseRecord& item : run.cases) {
    for (const std::optional<Perf>& perf : {item.perf, item.perf_warm}) {
      if (!perf) continue;
      add({fmt::format("{}/cache={} on {}", item.which.to_string(), name_of(perf->cache), item.device),
           perf->median_ns, "ns", fmt::format("{:.0f} to {:.0f}", perf->ci95_ns[0], perf->ci95_ns[1])});
    }
  }
  for (const PathSummary& path : summarize(run)) {
    if (!path.worst) continue;
    add({fmt::format("{}/{}/{}/error_over_bound on {}", path.op, path.path, name_of(path.dtype), path.device),
         path.worst->max_error_over_bound, "of its bound", ""});
  }
  return metrics;
}

// [s] since 1970, of "2026-01-15T09:30:00Z".
int64_t seconds_of(const std::string& started) {
  std::tm time{};
  const char* const end = strptime(started.c_str(), "%Y-%m-%dT%H:%M:%SZ", &time);
  if (end == nullptr || *end != '\0')
    throw usage_error("the run started at {}, which is no time such as 2026-01-15T09:30:00Z",
                      excerpt(started));
  return timegm(&time);
}

}  // namespace

std::string render_otava(std::span<const Record> runs, const std::string& branch) {
  std::vector<std::vector<Metric>> of_runs;
  std::map<std::string, size_t> seen;
  for (const Record& run : runs) {
    of_runs.push_back(metrics_of(run));
    for (const Metric& metric : of_runs.back()) ++seen[metric.name];
  }
  Json json = Json::array();
  for (size_t i = 0; i < runs.size(); ++i) {
    Json metrics = Json::array();
    for (const Metric& metric : of_runs[i]) {
      if (seen[metric.name] == runs.size())
        metrics.push_back({{"name", metric.name}, {"value", metric.value}});
    }
    if (metrics.empty()) throw usage_error("the {} runs have no metric in common", runs.size());
    json.push_back({{"timestamp", seconds_of(runs[i].started)},
                    {"metrics", std::move(metrics)},
                    {"attributes", {{"branch", branch}, {"commit", runs[i].tool.git}}}});
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string render_smaller_is_better(const Record& run) {
  Json json = Json::array();
  for (const Metric& metric : metrics_of(run)) {
    Json& row =
        json.emplace_back(Json{{"name", metric.name}, {"unit", metric.unit}, {"value", metric.value}});
    if (!metric.range.empty()) row["range"] = metric.range;
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace assay
