// SPDX-License-Identifier: Apache-2.0
// A libnvidia-ml.so of one GPU with made-up values, written from nvml.h. With ASSAY_OLD_NVML it is
// that of an old driver, which lacks functions and names one otherwise.
#include "bench/self/fake_nvml/fake_nvml.h"

#include <unistd.h>

#include <cstring>

namespace {

using assay::test::FakeNvml;

FakeNvml told;
int gpu;  // its address is the handle

int result_of(const char* function, const void* handle = &gpu) {
  if (handle != &gpu) return 2;  // invalid argument
  const auto result = told.results.find(function);
  return result == told.results.end() ? 0 : result->second;
}

struct Process {
  unsigned pid;
  unsigned long long memory;
  unsigned gpu_instance, compute_instance;
};

struct FieldValue {
  unsigned field, scope;
  long long timestamp, latency;
  int type, result;
  union {
    double real;
    unsigned natural;
  } value;
};

int text(const char* function, void* handle, const char* from, char* to, unsigned length) {
  if (std::strlen(from) >= length) return 7;
  std::strcpy(to, from);
  return result_of(function, handle);
}

}  // namespace

extern "C" {

FakeNvml* fake_nvml() {
  return &told;
}

int nvmlInit_v2() {
  return result_of("nvmlInit_v2");
}

const char* nvmlErrorString(int result) {
  switch (result) {
    case assay::test::kNotSupported:
      return "Not Supported";
    case assay::test::kNotFound:
      return "Not Found";
    case assay::test::kGpuIsLost:
      return "GPU is lost";
    default:
      return "Unknown Error";
  }
}

int nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** handle) {
  if (std::strcmp(id, "0000:17:00.0") != 0) return assay::test::kNotFound;
  *handle = &gpu;
  return result_of("nvmlDeviceGetHandleByPciBusId_v2");
}

int nvmlDeviceGetClockInfo(void* handle, int type, unsigned* clock) {
  if (type != 1 && type != 2) return 2;
  *clock = type == 1 ? told.sm_clock : 2619;
  return result_of("nvmlDeviceGetClockInfo", handle);
}

int nvmlDeviceGetPowerUsage(void* handle, unsigned* power) {
  *power = 598'500;
  return result_of("nvmlDeviceGetPowerUsage", handle);
}

int nvmlDeviceGetTotalEnergyConsumption(void* handle, unsigned long long* energy) {
  *energy = told.energy;
  told.energy += 7000;
  return result_of("nvmlDeviceGetTotalEnergyConsumption", handle);
}

int nvmlDeviceGetTemperature(void* handle, int sensor, unsigned* temperature) {
  if (sensor != 0) return 2;
  *temperature = 61;
  return result_of("nvmlDeviceGetTemperature", handle);
}

int nvmlDeviceGetEnforcedPowerLimit(void* handle, unsigned* limit) {
  *limit = told.power_limit;
  return result_of("nvmlDeviceGetEnforcedPowerLimit", handle);
}

int nvmlDeviceGetPowerManagementDefaultLimit(void* handle, unsigned* limit) {
  *limit = 700'000;
  return result_of("nvmlDeviceGetPowerManagementDefaultLimit", handle);
}

int nvmlDeviceGetEccMode(void* handle, int* current, int* pending) {
  *current = *pending = 1;
  return result_of("nvmlDeviceGetEccMode", handle);
}

int nvmlDeviceGetTotalEccErrors(void* handle, int error, int counter, unsigned long long* count) {
  if (error != 1 || counter != 0) return 2;
  *count = told.ecc_errors;
  return result_of("nvmlDeviceGetTotalEccErrors", handle);
}

int nvmlDeviceGetUUID(void* handle, char* to, unsigned length) {
  return text("nvmlDeviceGetUUID", handle, "GPU-0f1e2d3c", to, length);
}

int nvmlDeviceGetVbiosVersion(void* handle, char* to, unsigned length) {
  return text("nvmlDeviceGetVbiosVersion", handle, "96.00.99", to, length);
}

#if ASSAY_OLD_NVML

int nvmlDeviceGetCurrentClocksThrottleReasons(void* handle, unsigned long long* reasons) {
  *reasons = told.reasons;
  return result_of("nvmlDeviceGetCurrentClocksThrottleReasons", handle);
}

#else

int nvmlDeviceGetCurrentClocksEventReasons(void* handle, unsigned long long* reasons) {
  *reasons = told.reasons;
  return result_of("nvmlDeviceGetCurrentClocksEventReasons", handle);
}

int nvmlDeviceGetMigMode(void* handle, unsigned* current, unsigned* pending) {
  *current = *pending = 0;
  return result_of("nvmlDeviceGetMigMode", handle);
}

int nvmlDeviceGetFieldValues(void* handle, int count, FieldValue* values) {
  for (int i = 0; i < count; ++i) {
    FieldValue& value = values[i];
    value.result = value.field == 186 ? told.field_power_result : value.field == 82 ? 0 : 2;
    value.type = 1;
    value.value.natural = value.field == 186 ? 612'250 : 74;
  }
  return result_of("nvmlDeviceGetFieldValues", handle);
}

int nvmlDeviceGetComputeRunningProcesses_v3(void* handle, unsigned* count, Process* processes) {
  const unsigned all = told.strangers + (told.names_this_process ? 1 : 0);
  const unsigned room = *count;
  *count = all;
  if (all > room) return 7;
  for (unsigned i = 0; i < all; ++i)
    processes[i] = {.pid = 1, .memory = 0, .gpu_instance = 0, .compute_instance = 0};
  if (told.names_this_process) processes[all - 1].pid = static_cast<unsigned>(getpid());
  return result_of("nvmlDeviceGetComputeRunningProcesses_v3", handle);
}

#endif

}  // extern "C"
