// SPDX-License-Identifier: Apache-2.0
// What the libnvidia-ml.so of the tests tells of its one GPU. A test finds it through the library's
// function fake_nvml() and changes it.
#pragma once

#include <map>
#include <string>

namespace assay::test {

// nvmlReturn_t
inline constexpr int kNotSupported = 3, kNotFound = 6, kGpuIsLost = 15;

struct FakeNvml {
  std::map<std::string, int> results;  // by function, where it is not success
  unsigned sm_clock = 1755;            // [MHz]
  unsigned long long reasons = 0x4;    // sw_power_cap
  unsigned long long energy = 5000;    // [mJ], and 7000 more at each call
  int field_power_result = 0;
  unsigned long long ecc_errors = 0;
  unsigned power_limit = 700'000;  // [mW]
  bool names_this_process = true;
  unsigned strangers = 0;  // other processes
};

}  // namespace assay::test
