// SPDX-License-Identifier: Apache-2.0
#include "bench/core/nvml_monitor.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "kernels/core/error.h"

namespace assay {
namespace {

// As nvml.h has them. A machine that builds Assay need not have that header.
constexpr int kSuccess = 0, kInsufficientSize = 7;  // nvmlReturn_t
constexpr int kClockOfSms = 1, kClockOfMemory = 2;  // nvmlClockType_t
constexpr int kTemperatureOfGpu = 0;                // nvmlTemperatureSensors_t
constexpr int kUncorrected = 1, kVolatile = 0;      // nvmlMemoryErrorType_t, nvmlEccCounterType_t
constexpr unsigned kFieldMemoryTemperature = 82, kFieldPower = 186;  // NVML_FI_DEV_*

union NvmlValue {
  double real;
  int integer;
  unsigned natural;
  unsigned long long long_natural;
  long long long_integer;
};

struct NvmlFieldValue {
  unsigned field;
  unsigned scope;
  long long timestamp;
  long long latency;
  int type;
  int result;
  NvmlValue value;
};
static_assert(sizeof(NvmlFieldValue) == 40, "nvmlFieldValue_t has 40 bytes");

struct NvmlProcess {
  unsigned pid;
  unsigned long long memory;
  unsigned gpu_instance;
  unsigned compute_instance;
};
static_assert(sizeof(NvmlProcess) == 24, "nvmlProcessInfo_t has 24 bytes");

// Bit by bit, nvmlClocksEventReason*.
constexpr std::array kThrottleReasons{"gpu_idle",
                                      "applications_clocks_setting",
                                      "sw_power_cap",
                                      "hw_slowdown",
                                      "sync_boost",
                                      "sw_thermal_slowdown",
                                      "hw_thermal_slowdown",
                                      "hw_power_brake_slowdown",
                                      "display_clock_setting"};

// 0 if there is no such process.
pid_t parent_of(pid_t process) {
  std::ifstream status(fmt::format("/proc/{}/status", process));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("PPid:")) return std::stoi(line.substr(5));
  }
  return 0;
}

// This process or one that it started.
bool is_ours(pid_t process) {
  while (process > 1 && process != getpid()) process = parent_of(process);
  return process == getpid();
}

}  // namespace

NvmlMonitor::NvmlMonitor(const std::string& library, const std::string& pci_bus_id) {
  try {
    library_ = std::make_unique<SharedLibrary>(std::vector<std::string>{library});
    require(call("nvmlInit_v2"));
    require(call("nvmlDeviceGetHandleByPciBusId_v2", pci_bus_id.c_str(), &gpu_));
  } catch (const Error& error) {
    why_none_ = error.what();
  }
}

template <class... Arguments>
int NvmlMonitor::call(const char* function, Arguments... arguments) const {
  int (*const address)(Arguments...) = library_->function(function);
  return address(arguments...);
}

void NvmlMonitor::require(int result) const {
  if (result == kSuccess) return;
  const char* (*const text_of)(int) = library_->function("nvmlErrorString");
  throw device_error("{}", text_of(result));
}

// Of a function that tells one value of the GPU.
template <class Value, class... Arguments>
Value NvmlMonitor::ask(const char* function, Arguments... arguments) const {
  if (!why_none_.empty()) throw device_error("{}", why_none_);
  Value value{};
  require(call(function, gpu_, arguments..., &value));
  return value;
}

double NvmlMonitor::ask_field(unsigned id) const {
  if (!why_none_.empty()) throw device_error("{}", why_none_);
  NvmlFieldValue field{};
  field.field = id;
  require(call("nvmlDeviceGetFieldValues", gpu_, 1, &field));
  require(field.result);
  switch (field.type) {  // nvmlValueType_t
    case 0:
      return field.value.real;
    case 1:
      return field.value.natural;
    case 2:
    case 3:
      return static_cast<double>(field.value.long_natural);
    case 4:
      return static_cast<double>(field.value.long_integer);
    case 5:
      return field.value.integer;
    default:
      throw device_error("field {} has the unknown type {}", id, field.type);
  }
}

std::string NvmlMonitor::ask_text(const char* function) const {
  if (!why_none_.empty()) throw device_error("{}", why_none_);
  std::array<char, 96> text{};
  require(call(function, gpu_, text.data(), static_cast<unsigned>(text.size() - 1)));
  return text.data();
}

double NvmlMonitor::power() const {
  try {
    return 1e-3 * ask_field(kFieldPower);  // at this instant
  } catch (const Error&) {                 // an older driver tells the mean of a second alone
    return 1e-3 * ask<unsigned>("nvmlDeviceGetPowerUsage");
  }
}

std::vector<std::string> NvmlMonitor::throttle_reasons() const {
  unsigned long long bits = 0;
  try {
    bits = ask<unsigned long long>("nvmlDeviceGetCurrentClocksEventReasons");
  } catch (const Error&) {  // its name in drivers before 535
    bits = ask<unsigned long long>("nvmlDeviceGetCurrentClocksThrottleReasons");
  }
  std::vector<std::string> reasons;
  for (size_t bit = 0; bit < 64; ++bit) {
    if ((bits >> bit & 1) == 0) continue;
    reasons.push_back(bit < kThrottleReasons.size() ? kThrottleReasons[bit] : fmt::format("bit_{}", bit));
  }
  return reasons;
}

int64_t NvmlMonitor::other_processes() const {
  if (!why_none_.empty()) throw device_error("{}", why_none_);
  std::vector<NvmlProcess> processes;
  unsigned count = 0;
  for (int result = kInsufficientSize; result == kInsufficientSize;) {
    processes.resize(count + 8);  // more may start meanwhile
    count = static_cast<unsigned>(processes.size());
    result = call("nvmlDeviceGetComputeRunningProcesses_v3", gpu_, &count, processes.data());
    if (result != kInsufficientSize) require(result);
  }
  processes.resize(count);
  const auto pid_of = [](const NvmlProcess& process) { return static_cast<pid_t>(process.pid); };
  if (std::ranges::count(processes, getpid(), pid_of) == 0)
    throw device_error("this process is not among the {} that the driver tells", count);
  return std::ranges::count_if(
      processes, [](pid_t pid) { return !is_ours(pid); }, pid_of);
}

DeviceState NvmlMonitor::glance() const {
  DeviceState state;
  read_field(state, "clock_mhz", state.clock_mhz,
             [&] { return ask<unsigned>("nvmlDeviceGetClockInfo", kClockOfSms); });
  read_field(state, "memory_clock_mhz", state.memory_clock_mhz,
             [&] { return ask<unsigned>("nvmlDeviceGetClockInfo", kClockOfMemory); });
  read_field(state, "power_w", state.power_w, [&] { return power(); });
  read_field(state, "energy_j", state.energy_j, [&] {
    return 1e-3 * static_cast<double>(ask<unsigned long long>("nvmlDeviceGetTotalEnergyConsumption"));
  });
  read_field(state, "temperature_c", state.temperature_c,
             [&] { return ask<unsigned>("nvmlDeviceGetTemperature", kTemperatureOfGpu); });
  read_field(state, "memory_temperature_c", state.memory_temperature_c,
             [&] { return ask_field(kFieldMemoryTemperature); });
  read_field(state, "throttle_reasons", state.throttle_reasons, [&] { return throttle_reasons(); });
  return state;
}

DeviceState NvmlMonitor::state() const {
  DeviceState state = glance();
  const auto is_on = [&](const char* function) {
    int pending = 0;
    if (!why_none_.empty()) throw device_error("{}", why_none_);
    int current = 0;
    require(call(function, gpu_, &current, &pending));
    return current != 0;
  };
  read_field(state, "power_limit_w", state.power_limit_w,
             [&] { return 1e-3 * ask<unsigned>("nvmlDeviceGetEnforcedPowerLimit"); });
  read_field(state, "default_power_limit_w", state.default_power_limit_w,
             [&] { return 1e-3 * ask<unsigned>("nvmlDeviceGetPowerManagementDefaultLimit"); });
  read_field(state, "ecc", state.ecc, [&] { return is_on("nvmlDeviceGetEccMode"); });
  read_field(state, "uncorrected_ecc_errors", state.uncorrected_ecc_errors, [&] {
    return static_cast<int64_t>(
        ask<unsigned long long>("nvmlDeviceGetTotalEccErrors", kUncorrected, kVolatile));
  });
  read_field(state, "mig", state.mig, [&] { return is_on("nvmlDeviceGetMigMode"); });
  read_field(state, "other_processes", state.other_processes, [&] { return other_processes(); });
  read_field(state, "uuid", state.uuid, [&] { return ask_text("nvmlDeviceGetUUID"); });
  read_field(state, "vbios", state.vbios, [&] { return ask_text("nvmlDeviceGetVbiosVersion"); });
  return state;
}

}  // namespace assay
