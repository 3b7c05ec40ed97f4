// SPDX-License-Identifier: Apache-2.0
// The fastest large copy that we can write for a CPU. Memory-bound paths are compared with it.
#pragma once

#include <cstdint>

namespace assay {

// Copies between buffers that do not overlap, on all hardware threads, past the caches. Both
// pointers are multiples of 64 bytes; throws Error if not.
void streaming_copy(void* to, const void* from, int64_t bytes);

// Reads a buffer once, on all hardware threads. The returned value depends on all bytes but the
// last few.
uint64_t streaming_read(const void* from, int64_t bytes);

}  // namespace assay
