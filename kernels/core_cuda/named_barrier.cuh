// SPDX-License-Identifier: Apache-2.0
// A barrier for some of a block's threads.
#pragma once

#include "kernels/core_cuda/delays.cuh"

namespace assay {

// kThreads threads of the block, whole warps, wait for each other at barrier `number`, 1 to 15.
// __syncthreads() has number 0.
template <int kThreads>
__device__ void synchronize_some(int number) {
  maybe_delay();
  asm volatile("bar.sync %0, %1;" ::"r"(number), "n"(kThreads) : "memory");
  maybe_delay();
}

}  // namespace assay
