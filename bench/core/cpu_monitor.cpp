// SPDX-License-Identifier: Apache-2.0
#include "bench/core/cpu_monitor.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "kernels/core/error.h"

namespace assay {
namespace {

using FilePath = std::filesystem::path;

std::vector<FilePath> folders_in(const FilePath& folder) {
  std::error_code none;
  std::vector<FilePath> folders;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) folders.push_back(entry.path());
  return folders;
}

}  // namespace

double CpuMonitor::clock() const {
  const FilePath policies = sys_ / "devices/system/cpu/cpufreq";
  double fastest = 0;  // [kHz]
  for (const FilePath& policy : folders_in(policies)) {
    if (double clock = 0; std::ifstream(policy / "scaling_cur_freq") >> clock)
      fastest = std::max(fastest, clock);
  }
  if (fastest == 0) throw device_error("{} tells no clock", policies.string());
  return 1e-3 * fastest;
}

double CpuMonitor::energy() const {
  const FilePath zones = sys_ / "class/powercap";
  double sum = 0;  // [uJ]
  bool is_told = false;
  for (const FilePath& zone : folders_in(zones)) {
    std::string name;
    if (!(std::ifstream(zone / "name") >> name) || !name.starts_with("package")) continue;
    double energy = 0;
    if (!(std::ifstream(zone / "energy_uj") >> energy))
      throw device_error("{} cannot be read", (zone / "energy_uj").string());
    sum += energy;
    is_told = true;
  }
  if (!is_told) throw device_error("{} tells no energy", zones.string());
  return 1e-6 * sum;
}

DeviceState CpuMonitor::glance() const {
  DeviceState state;
  read_field(state, "clock_mhz", state.clock_mhz, [&] { return clock(); });
  read_field(state, "energy_j", state.energy_j, [&] { return energy(); });
  read_field(state, "load", state.load, [] {
    double load = 0;
    if (getloadavg(&load, 1) != 1) throw device_error("the system does not tell its load");
    return load;
  });
  return state;
}

}  // namespace assay
