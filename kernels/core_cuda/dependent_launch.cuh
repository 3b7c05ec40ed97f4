// SPDX-License-Identifier: Apache-2.0
// Kernels that follow each other closely: the blocks of the second one are on the multiprocessors when the last block
// of the first one ends (programmatic dependent launch; from compute capability 9.0 on, elsewhere an ordinary launch).
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <utility>

#include "kernels/core_cuda/cuda_check.h"

namespace assay {

// Device: from here on, what the kernel before wrote is there. Whoever was launched as dependent calls it before it
// touches anything that an earlier dependent kernel, or the one before, may write. What was there before that chain began
// may be read at once: its first kernel is an ordinary launch, which has waited.
__device__ inline void wait_for_kernel_before() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Device: the dependent kernel may start as soon as all blocks have come here; it still waits for their end.
__device__ inline void let_next_kernel_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Launches `kernel`, as a dependent of the kernel enqueued just before where the device can. The kernel calls
// wait_for_kernel_before().
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
