// SPDX-License-Identifier: Apache-2.0
// A device-to-device copy by a kernel, for the copy ceiling. The driver's own copy is not always
// the fastest.
#pragma once

#include <cstdint>

namespace assay {

// Copies `bytes` between disjoint device memory. `stream` is a cudaStream_t; the work is enqueued
// and not waited for. Throws Error (usage) unless both addresses and the size are multiples of 16
// bytes.
void cuda_copy(void* to, const void* from, int64_t bytes, void* stream);

// Reads `bytes` of device memory and does nothing with them. `scratch` is device memory that stays
// as it is. The conditions are those of cuda_copy().
void cuda_read(void* scratch, const void* from, int64_t bytes, void* stream);

// A copy by cudaMemcpyAsync; any address and size.
void cuda_memcpy(void* to, const void* from, int64_t bytes, void* stream);

}  // namespace assay
