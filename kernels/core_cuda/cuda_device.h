// SPDX-License-Identifier: Apache-2.0
// NVIDIA GPUs as devices of the harness.
#pragma once

#include <memory>
#include <string>

#include "kernels/core/device.h"

namespace assay {

int cuda_device_count();  // 0 without a driver or a GPU; never throws
// Why the count is 0: "no CUDA-capable device is detected". Empty if it is not 0.
std::string cuda_unavailable_reason();

// "0000:17:00.0". Unlike the index, CUDA_VISIBLE_DEVICES does not change it.
std::string cuda_pci_bus_id(int index);

// Opens a GPU and makes it the current device of the calling thread. Any thread may call the
// result, and its own current device stays as it is. A path launches kernels on the current device
// of the thread that runs it, so that device must be the one that holds its tensors. Allocations
// have undefined contents and take physical memory at once. Events time the work. Throws Error
// (device) if there is no such device or if this build has no code for it.
std::unique_ptr<Device> open_cuda(int index);

}  // namespace assay
