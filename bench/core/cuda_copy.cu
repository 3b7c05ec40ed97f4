// SPDX-License-Identifier: Apache-2.0
#include "bench/core/cuda_copy.h"
#include "kernels/core/error.h"
#include "kernels/core_cuda/cuda_check.h"

namespace assay {
namespace {

constexpr int kThreads = 256;
constexpr int kVectors = 4;  // 16-byte loads in flight in each thread
constexpr int64_t kBlockVectors = kThreads * kVectors;

// Each block copies one contiguous piece; each warp access is 512 contiguous bytes.
__global__ void __launch_bounds__(kThreads) copy_kernel(uint4* to, const uint4* from, int64_t count) {
  const int64_t first = blockIdx.x * kBlockVectors + threadIdx.x;
  uint4 values[kVectors];
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    if (first + i * kThreads < count) values[i] = __ldcs(from + first + i * kThreads);
  }
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    if (first + i * kThreads < count) __stcs(to + first + i * kThreads, values[i]);
  }
}

}  // namespace

void cuda_copy(void* to, const void* from, int64_t bytes, void* stream) {
  if ((reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from) | static_cast<uintptr_t>(bytes)) %
      16) {
    throw usage_error("cuda_copy of {} bytes from {} to {}: all must be multiples of 16", bytes, from,
                      static_cast<const void*>(to));
  }
  if (bytes == 0) return;
  const int64_t count = bytes / 16;
  const int64_t blocks = (count + kBlockVectors - 1) / kBlockVectors;
  if (blocks > INT32_MAX) throw usage_error("cuda_copy of {} bytes needs {} blocks", bytes, blocks);
  copy_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<uint4*>(to), static_cast<const uint4*>(from), count);
  cuda_check_launch("copy_kernel");
}

void cuda_memcpy(void* to, const void* from, int64_t bytes, void* stream) {
  cuda_check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice,
                             static_cast<cudaStream_t>(stream)),
             "cudaMemcpyAsync");
}

}  // namespace assay
