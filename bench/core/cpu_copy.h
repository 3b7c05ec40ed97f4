// SPDX-License-Identifier: Apache-2.0
// The fastest large copy that we can write for a CPU: the ceiling that memory-bound paths are compared with.
#pragma once

#include <cstdint>

namespace assay {

// Copies between buffers that do not overlap, on all hardware threads, past the caches. Both pointers are
// multiples of 64 bytes; throws Error if not.
void streaming_copy(void* to, const void* from, int64_t bytes);

// Reads a buffer once, on all hardware threads; returns a value that depends on what it read, all but the
// last few bytes.
uint64_t streaming_read(const void* from, int64_t bytes);

}  // namespace assay
