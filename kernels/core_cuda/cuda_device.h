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

// Makes `index` the calling thread's current device. Calls to the result may come from any thread and leave its current
// device as it is; a path launches its kernels on the current device of the thread that runs it, so that one has to be
// the device of its tensors. Allocations have undefined contents and take physical memory at once. Work is timed with
// events. Throws Error (device) if there is no such device or if this build has no code for it.
std::unique_ptr<Device> open_cuda(int index);

}  // namespace assay
