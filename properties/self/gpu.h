// SPDX-License-Identifier: Apache-2.0
// The GPU that tests run on.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "kernels/core/build.h"
#include "kernels/core/device.h"

#if ASSAY_HAS_CUDA
#include "kernels/core_cuda/cuda_device.h"
#endif

namespace assay::test {

struct Gpu {
  Device* device;  // null without a GPU
  std::string why_not;
};

inline Gpu gpu() {
#if ASSAY_HAS_CUDA
  if (cuda_device_count() == 0) return {nullptr, std::string(cuda_unavailable_reason())};
  static const std::unique_ptr<Device> device = open_cuda(0);
  return {device.get(), ""};
#else
  return {nullptr, "this build has no CUDA"};
#endif
}

// Tests of it, which are skipped without one.
class OnTheGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (gpu_.device == nullptr) GTEST_SKIP() << gpu_.why_not;
  }
  Device& device() const { return *gpu_.device; }

 private:
  Gpu gpu_ = gpu();
};

}  // namespace assay::test
