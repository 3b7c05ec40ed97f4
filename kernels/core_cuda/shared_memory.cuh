// SPDX-License-Identifier: Apache-2.0
// How much shared memory a block can have, how a kernel gets permission to use all of it, and its
// addresses.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/core_cuda/cuda_check.h"

namespace assay {

// Host: [bytes] of a block on the current device, static shared memory included.
inline int most_shared_memory() {
  int device = 0;
  cuda_check(cudaGetDevice(&device), "cudaGetDevice");
  int most = 0;
  cuda_check(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
             "cudaDeviceGetAttribute");
  return most;
}

// Host: permits a kernel to use all of it. Every launch asks for the same amount, so threads that
// launch a kernel for problems of different sizes do not take the permission from each other.
template <class... Parameters>
void allow_all_shared_memory(void (*kernel)(Parameters...)) {
  cudaFuncAttributes attributes{};
  cuda_check(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes");
  cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  most_shared_memory() - static_cast<int>(attributes.sharedSizeBytes)),
             "cudaFuncSetAttribute");
}

__device__ inline uint32_t shared_address(const void* memory) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(memory));
}

__device__ inline float load_shared(uint32_t from) {
  float value;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(from) : "memory");
  return value;
}

// Stores two numbers at an address that is a multiple of 8.
__device__ inline void store_shared(uint32_t to, float first, float second) {
  asm volatile("st.shared.v2.f32 [%0], {%1,%2};" ::"r"(to), "f"(first), "f"(second) : "memory");
}

}  // namespace assay
