// SPDX-License-Identifier: Apache-2.0
#include "bench/core/device_state.h"

#include <fmt/ranges.h>

#include <cstdlib>

#include "bench/core/cpu_monitor.h"
#include "bench/core/nvml_monitor.h"
#include "kernels/core/build.h"
#include "kernels/core/error.h"
#include "kernels/core_cuda/cuda_device.h"

namespace assay {

std::unique_ptr<DeviceMonitor> open_monitor(const DeviceInfo& device) {
  if (device.kind == DeviceKind::kCpu) return std::make_unique<CpuMonitor>();
  if constexpr (kHasCuda) {
    const char* const library = std::getenv("ASSAY_NVML");
    return std::make_unique<NvmlMonitor>(library != nullptr ? library : kNvmlLibrary,
                                         cuda_pci_bus_id(device.index));
  }
  throw Error("nothing tells the state of the device {}", device.name());
}

bool slows(std::string_view throttle_reason) {
  return throttle_reason != "gpu_idle" && throttle_reason != "applications_clocks_setting";
}

std::vector<std::string> disturbances_in(const DeviceState& state) {
  std::vector<std::string> found, slowing;
  for (const std::string& reason : state.throttle_reasons.value_or(std::vector<std::string>{})) {
    if (slows(reason)) slowing.push_back(reason);
  }
  if (!slowing.empty()) found.push_back(fmt::format("throttled: {}", fmt::join(slowing, ", ")));
  if (state.other_processes.value_or(0) > 0)
    found.push_back(fmt::format("{} other process{} on it", *state.other_processes,
                                *state.other_processes == 1 ? " computes" : "es compute"));
  if (state.power_limit_w && state.default_power_limit_w &&
      *state.power_limit_w < *state.default_power_limit_w) {
    found.push_back(fmt::format("the power limit is {:.0f} W, by default {:.0f} W", *state.power_limit_w,
                                *state.default_power_limit_w));
  }
  if (state.uncorrected_ecc_errors.value_or(0) > 0)
    found.push_back(fmt::format("its memory had {} ECC error{} that {} not corrected",
                                *state.uncorrected_ecc_errors, *state.uncorrected_ecc_errors == 1 ? "" : "s",
                                *state.uncorrected_ecc_errors == 1 ? "was" : "were"));
  return found;
}

}  // namespace assay
