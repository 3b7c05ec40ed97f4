// SPDX-License-Identifier: Apache-2.0
// The state of the CPU, as far as Linux tells it: the load, the clock (cpufreq), the energy (RAPL).
#pragma once

#include <filesystem>

#include "bench/core/device_state.h"

namespace assay {

class CpuMonitor final : public DeviceMonitor {
 public:
  explicit CpuMonitor(std::filesystem::path sys = "/sys") : sys_(std::move(sys)) {}

  DeviceState state() const override { return glance(); }
  // clock_mhz, energy_j of all packages, load. Virtual machines tell the load alone.
  DeviceState glance() const override;
  std::chrono::milliseconds interval() const override { return std::chrono::milliseconds(250); }

 private:
  double clock() const;   // [MHz]
  double energy() const;  // [J]

  std::filesystem::path sys_;
};

}  // namespace assay
