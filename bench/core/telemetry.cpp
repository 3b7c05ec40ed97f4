// SPDX-License-Identifier: Apache-2.0
#include "bench/core/telemetry.h"

#include <algorithm>
#include <new>
#include <numeric>
#include <set>
#include <system_error>

#include "bench/core/measure.h"

namespace assay {
namespace {

using Readings = std::vector<DeviceState>;

std::vector<double> values_of(const Readings& readings, std::optional<double> DeviceState::*field) {
  std::vector<double> values;
  for (const DeviceState& reading : readings)
    if (reading.*field) values.push_back(*(reading.*field));
  return values;
}

std::optional<Range> range_of(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  const auto [least, most] = std::ranges::minmax_element(values);
  return Range{.least = *least, .median = median_interval(values).median, .most = *most};
}

std::optional<double> last_of(const std::vector<double>& values) {
  return values.empty() ? std::nullopt : std::optional(values.back());
}

std::optional<std::vector<std::string>> all_reasons(const Readings& readings) {
  std::optional<std::set<std::string>> all;
  for (const DeviceState& reading : readings) {
    if (!reading.throttle_reasons) continue;
    if (!all) all.emplace();
    all->insert(reading.throttle_reasons->begin(), reading.throttle_reasons->end());
  }
  return all ? std::optional(std::vector<std::string>(all->begin(), all->end())) : std::nullopt;
}

// What each reading lacks, by the reason that the last one gives.
Absent absent_in_all(const Readings& readings) {
  std::map<std::string, size_t> missing;  // in how many readings
  for (const DeviceState& reading : readings) {
    for (const auto& [reason, fields] : reading.absent)
      for (const std::string& field : fields) ++missing[field];
  }
  Absent absent;
  for (const auto& [reason, fields] : readings.back().absent) {
    for (const std::string& field : fields)
      if (missing[field] == readings.size()) absent[reason].push_back(field);
  }
  return absent;
}

}  // namespace

Telemetry summarize(const Readings& readings, double seconds) {
  Telemetry summary;
  summary.seconds = seconds;
  summary.readings = std::ssize(readings);
  summary.absent = absent_in_all(readings);
  summary.clock_mhz = range_of(values_of(readings, &DeviceState::clock_mhz));
  if (const auto clock = range_of(values_of(readings, &DeviceState::memory_clock_mhz)))
    summary.memory_clock_mhz = clock->median;
  if (const auto power = values_of(readings, &DeviceState::power_w); !power.empty())
    summary.power_w = std::accumulate(power.begin(), power.end(), 0.0) / static_cast<double>(power.size());
  const auto &first = readings.front().energy_j, &last = readings.back().energy_j;
  if (first && last && *last >= *first) {
    summary.energy_j = *last - *first;
  } else if (first && last) {
    summary.absent["the counter began anew"].emplace_back("energy_j");
  }
  summary.temperature_c = last_of(values_of(readings, &DeviceState::temperature_c));
  summary.memory_temperature_c = last_of(values_of(readings, &DeviceState::memory_temperature_c));
  summary.throttle_reasons = all_reasons(readings);
  summary.load = last_of(values_of(readings, &DeviceState::load));
  return summary;
}

Watch::Watch(const DeviceMonitor& monitor)
    : monitor_(monitor), begin_(std::chrono::steady_clock::now()), readings_{monitor.glance()} {
  const auto glance_now_and_then = [this] {
    try {
      std::unique_lock lock(mutex_);
      while (!stops_.wait_for(lock, monitor_.interval(), [this] { return is_stopping_; }))
        readings_.push_back(monitor_.glance());
    } catch (const std::bad_alloc&) {  // what was seen so far stays
    }
  };
  try {
    thread_ = std::thread(glance_now_and_then);
  } catch (const std::system_error&) {  // no thread is to be had: a glance before and one after
  }
}

Watch::~Watch() {
  join();
}

void Watch::join() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  stops_.notify_one();
  thread_.join();
}

Telemetry Watch::stop() {
  join();
  readings_.push_back(monitor_.glance());
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin_;
  return summarize(readings_, elapsed.count());
}

void add_telemetry(Perf& perf, Telemetry telemetry) {
  perf.telemetry = std::move(telemetry);
  if (!perf.floor_ns || !perf.telemetry->clock_mhz) return;
  double by_flops = 0;
  for (const FloorPart& part : perf.floor_parts)
    if (part.limit == FloorPart::Limit::kFlops) by_flops += part.ns;
  if (2 * by_flops > *perf.floor_ns)
    perf.telemetry->cycles = perf.median_ns * perf.telemetry->clock_mhz->median * 1e-3;
}

}  // namespace assay
