// SPDX-License-Identifier: Apache-2.0
// Other work on a GPU while a path runs: Device::run_on_other_schedule().
#pragma once

#include <cstdint>
#include <functional>

#include "kernels/core_cuda/cuda_owners.h"

namespace assay {

// Works on the device that is current where it is made.
class BusyGpu {
 public:
  BusyGpu();

  // Calls `work`, which enqueues on the two streams, and waits for both. They begin together, when
  // all work is enqueued. A third stream meanwhile adds to 64 MiB of memory. Its blocks keep either
  // all shared memory of some multiprocessors, or a part of it on all, so that other blocks find
  // fewer places; the seed draws which. Streams and multiprocessors are held for 5 ms at most, also
  // where `work` itself waits for them.
  void run(const std::function<void()>& work, cudaStream_t one, cudaStream_t other, uint64_t seed);

 private:
  CudaStream stream_;
  CudaMemory memory_;
  CudaHostMemory flags_;  // whether the two streams may begin, and whether they have ended
};

}  // namespace assay
