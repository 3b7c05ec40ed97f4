// SPDX-License-Identifier: Apache-2.0
// A clock that all multiprocessors share.
#pragma once

#include <cstdint>

namespace assay {

// [ns] The resolution depends on the GPU: from 32 ns to 1 us.
__device__ inline uint64_t nanoseconds() {
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

}  // namespace assay
