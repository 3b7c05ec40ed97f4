// SPDX-License-Identifier: Apache-2.0
// Barriers in shared memory, at which some threads of a block wait for others. A barrier is made
// for a number of threads. It completes a phase (0, 1, ...) each time that as many have arrived.
#pragma once

#include <cstdint>

#include "kernels/core_cuda/delays.cuh"

namespace assay {

// One thread calls it; __syncthreads() follows.
__device__ inline void make_barrier(uint32_t barrier, int threads) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// Makes barriers that this thread made visible to the cluster and to the copy engine, once other
// threads have passed a barrier of the cluster after this fence.
__device__ inline void fence_barriers() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

__device__ inline void arrive(uint32_t barrier) {
  maybe_delay();
  asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared.b64 state, [%0];\n}\n" ::"r"(barrier) : "memory");
  maybe_delay();
}

// Whether the phase with this parity is complete.
__device__ inline bool has_completed(uint32_t barrier, uint32_t parity) {
  uint32_t is_complete;
  asm volatile(
      "{\n.reg .pred p;\nmbarrier.test_wait.parity.shared.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}\n"
      : "=r"(is_complete)
      : "r"(barrier), "r"(parity)
      : "memory");
  return is_complete != 0;
}

// Waits until the phase with this parity is complete. The phase before the first one has parity 1
// and is complete.
__device__ inline void wait_for_phase(uint32_t barrier, uint32_t parity) {
  maybe_delay();
  uint32_t is_complete;
  do {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}\n"
        : "=r"(is_complete)
        : "r"(barrier), "r"(parity)
        : "memory");
#else
    is_complete = has_completed(barrier, parity);
#endif
  } while (is_complete == 0);
  maybe_delay();
}

}  // namespace assay
