// SPDX-License-Identifier: Apache-2.0
// Memory of a GPU with gaps in which no address is valid, for Device::reserve().
#pragma once

#include <cstdint>

#include "kernels/core/device.h"

namespace assay {

// [bytes] The unit in which the GPU maps memory; 0 if its driver cannot map memory to given
// addresses.
int64_t mapped_page_bytes(int device);

// Reserves so many addresses and maps physical memory to the parts. Throws Error (device) if there
// are not enough of either.
void* map_memory(int device, int64_t bytes, const Parts& parts);
void unmap_memory(void* memory, int64_t bytes, const Parts& parts) noexcept;

}  // namespace assay
