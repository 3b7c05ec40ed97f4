// SPDX-License-Identifier: Apache-2.0
// Keys and their order are those of Google Benchmark 1.7. Its readers want different things:
//   tools/compare.py         name, real_time, cpu_time, time_unit; rows of one name are repetitions
//   Bencher, cpp_google      context.caches, an array; name, real_time, time_unit; each name once
//   github-action-benchmark  each row becomes a curve that should fall: so no deviations
#include <cmath>
#include <nlohmann/json.hpp>

#include "reports/render/render.h"

namespace assay {
namespace {

// The median of a case in one state of the cache.
Json row_of(const Case& which, const Perf& perf, size_t family) {
  const std::string name = which.to_string() + "/cache=" + std::string(name_of(perf.cache));
  Json row{{"name", name + "_median"},
           {"family_index", family},
           {"per_family_instance_index", 0},
           {"run_name", name},
           {"run_type", "aggregate"},
           {"repetitions", perf.samples_ns.size()},
           {"threads", 1},
           {"aggregate_name", "median"},
           {"aggregate_unit", "time"},
           {"iterations", perf.samples_ns.size()},
           {"real_time", perf.median_ns},
           {"cpu_time", perf.median_ns},  // not measured, but the format has one in every row
           {"time_unit", "ns"}};
  const double rate = static_cast<double>(perf.bytes) / (perf.median_ns * 1e-9);
  if (std::isfinite(rate)) row["bytes_per_second"] = rate;
  return row;
}

Json context(const Record& record) {
  Json json{{"date", record.started}};
  if (!record.machine.host_name.empty()) json["host_name"] = record.machine.host_name;
  json["executable"] = record.command.empty() ? "assay" : record.command.front();
  for (const DeviceRecord& device : record.machine.devices) {
    if (device.info.kind == DeviceKind::kCpu) json["num_cpus"] = device.info.units;
  }
  json["caches"] = Json::array();
  json["library_build_type"] = record.tool.build == "Debug" ? "debug" : "release";
  json["assay_version"] = record.tool.version;
  json["assay_git"] = record.tool.git + (record.tool.dirty ? "-dirty" : "");
  json["cpu_time"] = "not measured: repeats real_time";
  return json;
}

}  // namespace

std::string render_benchmark_json(const Record& record) {
  Json json{{"context", context(record)}, {"benchmarks", Json::array()}};
  Json& rows = json["benchmarks"];
  for (const CaseRecord& item : record.cases) {
    for (const std::optional<Perf>& perf : {item.perf, item.perf_warm}) {
      if (perf && std::isfinite(perf->median_ns)) rows.push_back(row_of(item.which, *perf, rows.size()));
    }
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace assay
