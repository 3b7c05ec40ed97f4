// SPDX-License-Identifier: Apache-2.0
// The state of an NVIDIA GPU, as the driver's library NVML tells it. The library is opened at run
// time; nothing links it.
#pragma once

#include <memory>
#include <string>

#include "bench/core/device_state.h"
#include "kernels/core/shared_library.h"

namespace assay {

inline constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";

class NvmlMonitor final : public DeviceMonitor {
 public:
  // "0000:17:00.0": the bus id stays right where CUDA_VISIBLE_DEVICES changes the index. Without
  // the library, or without the GPU, all fields are absent.
  NvmlMonitor(const std::string& library, const std::string& pci_bus_id);

  // other_processes needs that this process uses the GPU already: it has to find itself among the
  // ids that the driver tells, which are those of another namespace in some containers.
  DeviceState state() const override;
  DeviceState glance() const override;
  std::chrono::milliseconds interval() const override { return std::chrono::milliseconds(20); }

 private:
  template <class... Arguments>
  int call(const char* function, Arguments... arguments) const;
  void require(int result) const;
  template <class Value, class... Arguments>
  Value ask(const char* function, Arguments... arguments) const;
  double ask_field(unsigned id) const;
  std::string ask_text(const char* function) const;
  double power() const;  // [W]
  std::vector<std::string> throttle_reasons() const;
  int64_t other_processes() const;

  std::unique_ptr<SharedLibrary> library_;
  void* gpu_ = nullptr;   // nvmlDevice_t
  std::string why_none_;  // why nothing is known of it; empty if something is
};

}  // namespace assay
