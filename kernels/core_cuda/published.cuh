// SPDX-License-Identifier: Apache-2.0
// Doubles that a block hands to blocks that run at the same time, through global memory. Each half
// of a double lies beside a flag, in 8 bytes that are stored and loaded at once. So whoever sees
// both flags has both halves, without a fence.
//
// The flag is the number of the launch, so nobody has to clear what an earlier launch has left. All
// launches with the same memory store the same number of values. They run one after the other, and
// before the first the memory is 0.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/core_cuda/block_sum.cuh"
#include "kernels/core_cuda/delays.cuh"

namespace assay {

struct alignas(16) Published {
  uint64_t low, high;  // the flag is the upper half of each
};

struct alignas(16) LaunchCount {
  uint32_t launches, callers;
};

// The flag of this launch. `warps` whole warps of it call this, each of them once.
__device__ inline uint32_t flag_of_launch(LaunchCount* count, uint32_t warps) {
  uint32_t launches = 0;
  if (threadIdx.x % kWarp == 0) {
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(launches) : "l"(&count->launches) : "memory");
    maybe_delay();
    __threadfence();
    // All of them have read it.
    if (atomicInc(&count->callers, warps - 1) == warps - 1) count->launches = launches + 1;
  }
  return __shfl_sync(0xFFFFFFFFu, launches, 0) + 1;
}

__device__ inline void publish(Published* to, double value, uint32_t flag) {
  maybe_delay();
  const uint64_t upper = uint64_t{flag} << 32;
  asm volatile("st.relaxed.gpu.global.v2.b64 [%0], {%1, %2};" ::"l"(to),
               "l"(upper | static_cast<uint32_t>(__double2loint(value))),
               "l"(upper | static_cast<uint32_t>(__double2hiint(value)))
               : "memory");
}

// Waits until all values are there, those of all lanes of the calling warp. So its lanes stay
// together: apart, each of their next shuffles would take as long as a hundred instructions. A lane
// whose values are there does not load them again: many blocks wait at the same addresses. Value i
// lies at place(i).
template <int kCount, class Place>
__device__ void wait_for_published(double (&values)[kCount], uint32_t flag, Place&& place) {
  maybe_delay();
  Published seen[kCount];
  bool are_there = false;
  do {
    if (!are_there) {
      are_there = true;
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        asm volatile("ld.relaxed.gpu.global.v2.b64 {%0, %1}, [%2];"
                     : "=l"(seen[i].low), "=l"(seen[i].high)
                     : "l"(place(i))
                     : "memory");
        are_there = are_there && seen[i].low >> 32 == flag && seen[i].high >> 32 == flag;
      }
    }
  } while (!__all_sync(0xFFFFFFFFu, are_there));
#pragma unroll
  for (int i = 0; i < kCount; ++i)
    values[i] = __hiloint2double(static_cast<int>(seen[i].high), static_cast<int>(seen[i].low));
}

}  // namespace assay
