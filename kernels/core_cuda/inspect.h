// SPDX-License-Identifier: Apache-2.0
// What the harness does to a GPU, and reads from it, around the calls of a path.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kernels/core/device.h"
#include "kernels/core_cuda/cuda_owners.h"

namespace assay {

// For the device that is current when it is made and when it is used.
class GpuInspector {
 public:
  GpuInspector();

  // Of the bytes that the memory holds after the work on the stream so far. It waits for that.
  uint64_t hash(MemorySpan memory, cudaStream_t stream);
  // Enqueues: flips the lowest bit of each byte.
  static void flip(MemorySpan memory, cudaStream_t stream);
  // Enqueues: all shared memory of all multiprocessors holds the byte.
  static void fill_shared_memory(unsigned char byte, cudaStream_t stream);

  // Device::watch(). The stream is held for half a second at most. A call that takes as long waits
  // for its own stream; then nobody can tell whether work escaped from it.
  Watched watch(const std::function<void()>& work, std::span<const MemorySpan> memory, cudaStream_t stream);

 private:
  CudaStream stream_;  // that nothing holds up
  CudaMemory sum_;     // of a hash
  CudaHostMemory flag_;
};

}  // namespace assay
