// SPDX-License-Identifier: Apache-2.0
// Keys, their order and the aggregates are those of Google Benchmark 1.7.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "reports/render/render.h"

namespace assay {
namespace {

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// The standard deviation of a sample, with n - 1.
double deviation(const std::vector<double>& values) {
  const double center = mean(values);
  double squares = 0;
  for (double value : values) squares += (value - center) * (value - center);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

double variation(const std::vector<double>& values) {
  return deviation(values) / mean(values);
}

// All rows of one case in one state of the cache.
class Rows {
 public:
  Rows(const Case& which, const Perf& perf, int64_t family)
      : name_(which.to_string() + "/cache=" + std::string(name_of(perf.cache))),
        times_(perf.samples_ns),
        family_(family) {
    for (double ns : times_) rates_.push_back(static_cast<double>(perf.bytes) / (ns * 1e-9));
  }

  void append_to(Json& rows) const {
    for (size_t i = 0; i < times_.size(); ++i) rows.push_back(iteration(i));
    if (times_.size() < 2) return;
    rows.push_back(aggregate("mean", "time", mean));
    rows.push_back(aggregate("median", "time", median));
    rows.push_back(aggregate("stddev", "time", deviation));
    if (mean(times_) > 0) rows.push_back(aggregate("cv", "percentage", variation));
  }

 private:
  Json head(const std::string& name, const char* run_type) const {
    return {{"name", name},      {"family_index", family_}, {"per_family_instance_index", 0},
            {"run_name", name_}, {"run_type", run_type},    {"repetitions", times_.size()}};
  }

  // Every row of the format has a CPU time. We do not measure it, so the row repeats the real time,
  // and the context says so.
  static void append_times(Json& row, double time, double rate) {
    row["real_time"] = time;
    row["cpu_time"] = time;
    row["time_unit"] = "ns";
    if (std::isfinite(rate)) row["bytes_per_second"] = rate;
  }

  Json iteration(size_t i) const {
    Json row = head(name_, "iteration");
    row["repetition_index"] = i;
    row["threads"] = 1;
    row["iterations"] = 1;
    append_times(row, times_[i], rates_[i]);
    return row;
  }

  template <class Statistic>
  Json aggregate(const std::string& kind, const char* unit, Statistic statistic) const {
    Json row = head(name_ + "_" + kind, "aggregate");
    row["threads"] = 1;
    row["aggregate_name"] = kind;
    row["aggregate_unit"] = unit;
    row["iterations"] = times_.size();
    append_times(row, statistic(times_), statistic(rates_));
    return row;
  }

  std::string name_;
  std::vector<double> times_;  // [ns]
  std::vector<double> rates_;  // [bytes/s]
  int64_t family_;
};

Json context(const Record& record) {
  Json json{{"date", record.started}};
  if (!record.machine.host_name.empty()) json["host_name"] = record.machine.host_name;
  json["executable"] = record.command.empty() ? "assay" : record.command.front();
  for (const DeviceRecord& device : record.machine.devices) {
    if (device.info.kind == DeviceKind::kCpu) json["num_cpus"] = device.info.units;
  }
  json["library_build_type"] = record.tool.build == "Debug" ? "debug" : "release";
  json["assay_version"] = record.tool.version;
  json["assay_git"] = record.tool.git + (record.tool.dirty ? "-dirty" : "");
  json["cpu_time"] = "not measured: repeats real_time";
  return json;
}

}  // namespace

std::string render_benchmark_json(const Record& record) {
  Json json{{"context", context(record)}, {"benchmarks", Json::array()}};
  int64_t family = 0;
  for (const CaseRecord& item : record.cases) {
    if (item.perf) Rows(item.which, *item.perf, family++).append_to(json["benchmarks"]);
    if (item.perf_warm) Rows(item.which, *item.perf_warm, family++).append_to(json["benchmarks"]);
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace assay
