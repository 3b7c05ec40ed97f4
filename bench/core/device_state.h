// SPDX-License-Identifier: Apache-2.0
// What a device is like at a point of time: clocks, power, temperatures, and what holds it back.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/device.h"
#include "kernels/core/error.h"

namespace assay {

// Fields that are not known, by the reason. "Not Supported" -> {"memory_temperature_c"}
using Absent = std::map<std::string, std::vector<std::string>>;

// A field without a value is named in `absent`, unless devices of this kind have no such thing.
struct DeviceState {
  // What changes while a kernel runs.
  std::optional<double> clock_mhz;             // [MHz] of the SMs, or of the fastest CPU
  std::optional<double> memory_clock_mhz;      // [MHz]
  std::optional<double> power_w;               // [W] a GPU may tell the mean of the last second
  std::optional<double> energy_j;              // [J] since some time in the past
  std::optional<double> temperature_c;         // [C]
  std::optional<double> memory_temperature_c;  // [C]
  // Why the clock is not higher, as nvidia-smi names it: "sw_power_cap".
  std::optional<std::vector<std::string>> throttle_reasons;
  // What does not.
  std::optional<double> power_limit_w;            // [W] that is enforced
  std::optional<double> default_power_limit_w;    // [W]
  std::optional<bool> ecc;                        // whether memory corrects errors
  std::optional<int64_t> uncorrected_ecc_errors;  // since the driver was loaded
  std::optional<bool> mig;                        // whether the GPU is divided into instances
  std::optional<int64_t> other_processes;         // that compute on the GPU
  std::optional<std::string> uuid, vbios;
  std::optional<double> load;  // [1] of the CPU: processes that ran or waited, mean of a minute
  Absent absent;
};

class DeviceMonitor {
 public:
  virtual ~DeviceMonitor() = default;
  // Never throw. glance() leaves out what does not change while a kernel runs.
  virtual DeviceState state() const = 0;
  virtual DeviceState glance() const = 0;
  // How long to wait between two glances, so that they do not disturb what they look at.
  virtual std::chrono::milliseconds interval() const = 0;
};

// Looks at the GPU by NVML, at the CPU by /sys. What the machine does not tell is absent. The
// environment variable ASSAY_NVML names another library than libnvidia-ml.so.1.
std::unique_ptr<DeviceMonitor> open_monitor(const DeviceInfo& device);

// Sets a value, or names the field as absent if `get` throws an Error.
template <class Value, class Get>
void read_field(DeviceState& state, const char* field, std::optional<Value>& value, const Get& get) {
  try {
    value = get();
  } catch (const Error& error) {
    state.absent[error.what()].emplace_back(field);
  }
}

// Whether this reason makes kernels slower than the device can run them. An idle GPU and clocks
// that its owner has set do not.
bool slows(std::string_view throttle_reason);

// What disturbs times on a device in this state, one sentence for each thing.
std::vector<std::string> disturbances_in(const DeviceState& state);

}  // namespace assay
