// SPDX-License-Identifier: Apache-2.0
// NVIDIA GPUs as devices of the harness.
#pragma once

#include <memory>
#include <string>

#include "kernels/core/device.h"

namespace assay {

int cuda_device_count();  // 0 without a driver or a GPU; never throws
std::string
cuda_unavailable_reason();  // why the count is 0: "no CUDA-capable device is detected"; else empty

// Makes `index` the calling thread's current device; all calls to the result must come from threads where it
// is. Allocations have undefined contents and take physical memory at once. Work is timed with events on the
// device's own stream. Throws Error (device) if there is no such device or if this build has no code for it.
std::unique_ptr<Device> open_cuda(int index);

}  // namespace assay
