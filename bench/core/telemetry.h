// SPDX-License-Identifier: Apache-2.0
// What a device was like while times were taken on it.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "bench/core/ceilings.h"
#include "bench/core/device_state.h"

namespace assay {

struct Range {
  double least, median, most;
};

// A summary of glances at the device, from before the first call to after the last. What happens
// between the timed calls counts, too: the caches are flushed, outputs are checked.
struct Telemetry {
  double seconds = 0;                      // [s] from the first glance to the last
  int64_t readings = 0;                    // glances
  std::optional<Range> clock_mhz;          // [MHz] DeviceState::clock_mhz
  std::optional<double> memory_clock_mhz;  // [MHz] median
  std::optional<double> power_w;           // [W] mean of the readings
  std::optional<double> energy_j;          // [J] by the counter of the device, over `seconds`
  std::optional<double> temperature_c;     // [C] at the end
  std::optional<double> memory_temperature_c;
  std::optional<std::vector<std::string>> throttle_reasons;  // all that there were
  std::optional<double> load;                                // [1] at the end
  // [cycle] The median time, at the median clock. Where flops make most of the floor of a path, its
  // cycles stay where a power limit lowers the clock. Absent elsewhere.
  std::optional<double> cycles;
  Absent absent;  // as in DeviceState: of what no reading has a value
};

// At least one reading, in the order taken.
Telemetry summarize(const std::vector<DeviceState>& readings, double seconds);

// Glances at a device, from a thread of its own, until it is stopped.
class Watch {
 public:
  explicit Watch(const DeviceMonitor& monitor);  // which outlives it
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  Telemetry stop();

 private:
  void join();

  const DeviceMonitor& monitor_;
  std::chrono::steady_clock::time_point begin_;
  std::vector<DeviceState> readings_;
  std::mutex mutex_;
  std::condition_variable stops_;
  bool is_stopping_ = false;
  std::thread thread_;
};

struct Perf;
// Says of a time what the device was like meanwhile, in cycles, too, if flops make its floor.
void add_telemetry(Perf& perf, Telemetry telemetry);

}  // namespace assay
