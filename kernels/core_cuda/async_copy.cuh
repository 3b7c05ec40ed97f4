// SPDX-License-Identifier: Apache-2.0
// Copies from global to shared memory that bypass the registers. A thread may have any number of
// them in flight.
#pragma once

#include <cstdint>

#include "kernels/core_cuda/delays.cuh"
#include "kernels/core_cuda/packed.cuh"

namespace assay {

// Copies kBytes: 2, 4, 8 or 16. The hardware has no asynchronous copy of 2 bytes, so these are
// complete at once.
template <int kBytes>
__device__ void copy_async(void* shared, const void* global) {
  if constexpr (kBytes == 2) {
    *static_cast<unsigned short*>(shared) = __ldg(static_cast<const unsigned short*>(global));
  } else {
    const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
    if constexpr (kBytes == 16) {
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(global) : "memory");
    } else {
      asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(address), "l"(global), "n"(kBytes)
                   : "memory");
    }
  }
}

// Waits until all copies of the calling thread are complete, as seen by this thread.
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
  maybe_delay();
}

}  // namespace assay
