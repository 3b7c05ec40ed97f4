// SPDX-License-Identifier: Apache-2.0
// Where threads wait for each other or for memory, tell each other that they are done, or start
// copies, a build with ASSAY_CUDA_DELAYS=ON lets each warp sleep for a random while before, after
// or both: what a missing wait leaves to luck then goes wrong. Nothing delays tensor cores or
// copies that have begun. In other builds there is nothing here.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace assay {

__device__ inline void maybe_delay() {
#if ASSAY_CUDA_DELAYS && defined(__CUDA_ARCH__)
  // One of four times, up to 4 us. Each warp draws for itself.
  uint32_t bits =
      static_cast<uint32_t>(clock64()) ^ (blockIdx.x * 0x9E3779B9u) ^ (threadIdx.x / 32 * 0x85EBCA6Bu);
  bits = (bits ^ (bits >> 15)) * 0x2C1B3C6Du;
  const unsigned active = __activemask();
  bits = __shfl_sync(active, bits ^ (bits >> 12), __ffs(static_cast<int>(active)) - 1);
  if (bits % 4 == 0) __nanosleep(bits >> 20);
#endif
}

}  // namespace assay

// With ASSAY_CUDA_DELAYS every kernel source includes this file first.
#if ASSAY_CUDA_DELAYS && defined(__CUDACC__)
#define __syncthreads() (::assay::maybe_delay(), __syncthreads(), ::assay::maybe_delay())
#endif
