// SPDX-License-Identifier: Apache-2.0
// Cooperative launches: all blocks run at the same time, so they may wait for each other. A launch
// begins when the device has room for all of them; two such kernels never share it halfway.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "kernels/core_cuda/cuda_check.h"
#include "kernels/core_cuda/shared_memory.cuh"

namespace assay {

// Host: how many blocks the current device runs at the same time. Gives the kernel its permission.
template <class... Parameters>
int64_t resident_blocks(std::string_view name, void (*kernel)(Parameters...), int threads,
                        int64_t shared_bytes) {
  allow_all_shared_memory(kernel);
  int device = 0, units = 0, blocks = 0;
  cuda_check(cudaGetDevice(&device), "cudaGetDevice");
  cuda_check(cudaDeviceGetAttribute(&units, cudaDevAttrMultiProcessorCount, device),
             "cudaDeviceGetAttribute");
  cuda_check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads,
                                                           static_cast<size_t>(shared_bytes)),
             name);
  return int64_t{units} * blocks;
}

// Host: throws Error (unsupported) if there are more than resident_blocks().
template <class... Parameters, class... Arguments>
void launch_cooperative(std::string_view name, void (*kernel)(Parameters...), int64_t blocks, int threads,
                        int64_t shared_bytes, cudaStream_t stream, Arguments&&... arguments) {
  if (const int64_t most = resident_blocks(name, kernel, threads, shared_bytes); most < blocks)
    throw unsupported_error("{} needs {} blocks that run at a time; this device has {}", name, blocks, most);
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeCooperative;
  attribute.val.cooperative = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  cuda_check(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...), name);
}

}  // namespace assay
