// SPDX-License-Identifier: Apache-2.0
// Doubles that a block hands to blocks that run at the same time, through global memory. Each half
// of a double lies beside a flag, in 8 bytes that are stored and loaded at once. So whoever sees
// both flags has both halves, without a fence.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/core_cuda/delays.cuh"

namespace assay {

// Bytes of 0 hold no value yet. They are set before the kernel starts.
struct alignas(16) Published {
  uint32_t low, has_low, high, has_high;
};

__device__ inline void publish(Published* to, double value) {
  maybe_delay();
  asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1, %2, %3, %2};" ::"l"(to), "r"(__double2loint(value)),
               "r"(1), "r"(__double2hiint(value))
               : "memory");
}

// Waits until all values are there.
template <int kCount>
__device__ void wait_for_published(const Published* from, double (&values)[kCount]) {
  maybe_delay();
  Published seen[kCount];
  bool are_there;
  do {
    are_there = true;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(seen[i].low), "=r"(seen[i].has_low), "=r"(seen[i].high), "=r"(seen[i].has_high)
                   : "l"(from + i)
                   : "memory");
      are_there = are_there && seen[i].has_low != 0 && seen[i].has_high != 0;
    }
  } while (!are_there);
#pragma unroll
  for (int i = 0; i < kCount; ++i)
    values[i] = __hiloint2double(static_cast<int>(seen[i].high), static_cast<int>(seen[i].low));
}

}  // namespace assay
