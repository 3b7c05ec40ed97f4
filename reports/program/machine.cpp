// SPDX-License-Identifier: Apache-2.0
#include "reports/program/machine.h"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <new>
#include <set>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "assay_build_info.h"
#include "bench/core/ceilings.h"

namespace assay {
namespace {

std::map<std::string, Ceilings> fastest_by_device;  // measured by this process

std::string os_name() {
  std::ifstream release("/etc/os-release");
  const std::string key = "PRETTY_NAME=";
  for (std::string line; std::getline(release, line);) {
    if (line.starts_with(key)) return line.substr(key.size() + 1, line.size() - key.size() - 2);
  }
  return "unknown system";
}

// Of the hardware threads that this process may run on. One core of two in use halves what a
// path of two threads gets.
constexpr double kMostBusy = 0.25;

// The numbers of the hardware threads that this process may run on.
std::set<int> own_threads() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  std::set<int> threads;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return threads;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &allowed)) threads.insert(i);
  }
  return threads;
}

// Jiffies that these threads have spent, and those in which they did something.
struct Jiffies {
  double all = 0, busy = 0;
};
Jiffies jiffies_of(const std::set<int>& threads) {
  Jiffies sum;
  std::ifstream file("/proc/stat");
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string name;
    fields >> name;
    if (!name.starts_with("cpu") || name.size() == 3 || threads.count(std::stoi(name.substr(3))) == 0)
      continue;
    double user = 0, nice = 0, system = 0, idle = 0, waiting = 0, interrupts = 0, soft = 0, stolen = 0;
    fields >> user >> nice >> system >> idle >> waiting >> interrupts >> soft >> stolen;
    const double busy = user + nice + system + interrupts + soft + stolen;
    sum.busy += busy;
    sum.all += busy + idle + waiting;
  }
  return sum;
}

// [1] How many of our hardware threads are busy while this process sleeps. Where the kernel does
// not tell, the load average stands for it. That also counts what ran in the minute before.
double busy_threads(double load) {
  const std::set<int> threads = own_threads();
  const Jiffies before = jiffies_of(threads);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const Jiffies after = jiffies_of(threads);
  const double all = after.all - before.all;
  return all <= 0 ? load : (after.busy - before.busy) / all * static_cast<double>(threads.size());
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

std::optional<Ceilings> fastest_ceilings(const DeviceInfo& info) {
  const auto known = fastest_by_device.find(info.name());
  if (known == fastest_by_device.end()) return std::nullopt;
  return known->second;
}

DeviceRecord measured_device(Device& device) {
  DeviceRecord measured{.info = device.info(), .ceilings = {}};
  const auto monitor = open_monitor(device.info());
  measured.state = monitor->state();
  Watch watch(*monitor);
  try {
    measured.ceilings = measure_ceilings(device);
    Ceilings& fastest = fastest_by_device[device.info().name()];
    fastest = faster_of(fastest, *measured.ceilings);
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kDevice) throw;
    measured.no_ceilings = error.what();
  } catch (const std::bad_alloc&) {
    measured.no_ceilings = fmt::format("{}: cannot map memory for threads", device.info().name());
  } catch (const std::runtime_error& error) {  // libtbb says so of a thread that it cannot start
    measured.no_ceilings =
        fmt::format("{}: cannot map memory for threads: {}", device.info().name(), error.what());
  }
  measured.telemetry = watch.stop();
  return measured;
}

Conditions timing_conditions(const std::vector<std::unique_ptr<Device>>& devices) {
  Conditions found{.threads = std::ssize(own_threads())};
  const auto add = [&](const char* kind, std::string text) {
    found.disturbances.push_back({.kind = kind, .text = std::move(text)});
  };
  const std::string build = build_info::kBuildType;
  if (build != "Release") add("build", fmt::format("this is a {} build, not Release", build));
  if (*build_info::kSanitizers != '\0')
    add("sanitizers", fmt::format("this build has sanitizers: {}", build_info::kSanitizers));
  if (getloadavg(&found.load, 1) != 1) found.load = 0;
  const double busy = busy_threads(found.load);
  if (busy > kMostBusy * static_cast<double>(found.threads)) {
    add("load", fmt::format("other work is running: {:.1f} of {} hardware threads are busy, load {:.1f}",
                            busy, found.threads, found.load));
  }
  std::ifstream governor("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  if (std::string name; governor >> name && name != "performance")
    add("governor", fmt::format("the CPU frequency governor is '{}', not 'performance'", name));
  for (const auto& device : devices) {
    for (const std::string& text : disturbances_in(open_monitor(device->info())->state()))
      add("device", fmt::format("{}: {}", device->info().name(), text));
  }
  return found;
}

}  // namespace assay
