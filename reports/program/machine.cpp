// SPDX-License-Identifier: Apache-2.0
#include "reports/program/machine.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <thread>

#include "assay_build_info.h"
#include "bench/core/ceilings.h"

namespace assay {
namespace {

std::string os_name() {
  std::ifstream release("/etc/os-release");
  const std::string key = "PRETTY_NAME=";
  for (std::string line; std::getline(release, line);) {
    if (line.starts_with(key)) return line.substr(key.size() + 1, line.size() - key.size() - 2);
  }
  return "unknown system";
}

}  // namespace

ToolRecord tool_record() {
  return {.version = build_info::kVersion,
          .git = build_info::kGitCommit,
          .dirty = build_info::kGitDirty,
          .compiler = build_info::kCompiler,
          .build = build_info::kBuildType};
}

MachineRecord machine_record() {
  utsname system{};
  uname(&system);
  MachineRecord machine;
  machine.host_os = fmt::format("{}, {} {} {}", os_name(), system.sysname, system.release, system.machine);
  machine.host_name = system.nodename;
  machine.memory_bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  return machine;
}

DeviceRecord measured_device(Device& device) {
  DeviceRecord measured{.info = device.info(), .ceilings = {}};
  const auto monitor = open_monitor(device.info());
  measured.state = monitor->state();
  Watch watch(*monitor);
  try {
    measured.ceilings = measure_ceilings(device);
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kDevice) throw;
    measured.no_ceilings = error.what();
  }
  measured.telemetry = watch.stop();
  return measured;
}

std::vector<std::string> timing_disturbances(const std::vector<std::unique_ptr<Device>>& devices) {
  std::vector<std::string> found;
  const std::string build = build_info::kBuildType;
  if (build != "Release") found.push_back(fmt::format("this is a {} build, not Release", build));
  if (*build_info::kSanitizers != '\0') {
    found.push_back(fmt::format("this build has sanitizers: {}", build_info::kSanitizers));
  }
  double load = 0;
  const auto threads = static_cast<double>(std::max(1u, std::thread::hardware_concurrency()));
  if (getloadavg(&load, 1) == 1 && load > threads / 2) {
    found.push_back(fmt::format("other work is running: load {:.1f} on {} hardware threads", load, threads));
  }
  std::ifstream governor("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  if (std::string name; governor >> name && name != "performance") {
    found.push_back(fmt::format("the CPU frequency governor is '{}', not 'performance'", name));
  }
  for (const auto& device : devices) {
    for (const std::string& text : disturbances_in(open_monitor(device->info())->state()))
      found.push_back(fmt::format("{}: {}", device->info().name(), text));
  }
  return found;
}

}  // namespace assay
