// SPDX-License-Identifier: Apache-2.0
// Programmatic dependent launch: the blocks of the second kernel are already on the multiprocessors
// when the last block of the first one ends. Before compute capability 9.0 it is an ordinary
// launch.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <utility>

#include "kernels/core_cuda/cuda_check.h"
#include "kernels/core_cuda/delays.cuh"

namespace assay {

// Device: waits until the writes of the kernel before are visible. A dependent kernel calls it
// before it touches memory that the kernel before or an earlier dependent kernel may write. Memory
// written before the first kernel of the chain may be read at once: that kernel is an ordinary
// launch, which has waited.
__device__ inline void wait_for_kernel_before() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  maybe_delay();
#endif
}

// Device: the dependent kernel may start once all blocks have called this. Its
// wait_for_kernel_before() still waits for the end of the blocks.
__device__ inline void let_next_kernel_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  maybe_delay();
#endif
}

// Launches `kernel`, where the device can as a dependent of the kernel enqueued just before. The
// kernel calls wait_for_kernel_before().
template <class... Parameters, class... Arguments>
void launch_dependent(bool device_can, std::string_view name, void (*kernel)(Parameters...), dim3 grid,
                      dim3 block, size_t shared_bytes, cudaStream_t stream, Arguments&&... arguments) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = device_can ? 1 : 0;
  cuda_check(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...), name);
}

}  // namespace assay
