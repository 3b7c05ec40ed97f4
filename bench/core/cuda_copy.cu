// SPDX-License-Identifier: Apache-2.0
#include "bench/core/cuda_copy.h"
#include "kernels/core/error.h"
#include "kernels/core_cuda/cuda_check.h"

namespace assay {
namespace {

constexpr int kThreads = 256;

// Each thread copies one 16-byte vector, and blocks follow the order of memory. On an H200 this is
// faster than longer runs in each thread or a persistent grid: those spread the accesses of a
// moment over more DRAM pages.
__global__ void __launch_bounds__(kThreads) copy_kernel(uint4* to, const uint4* from, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < count) to[i] = __ldg(from + i);
}

// Reads everything and writes nothing: the condition is never true, but the compiler cannot know
// that.
__global__ void __launch_bounds__(kThreads) read_kernel(uint32_t* never, const uint4* from, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= count) return;
  const uint4 v = __ldg(from + i);
  if (v.x == 0x0BADF00D && v.y == ~v.x && v.z == v.x && v.w == v.y) *never = v.x;
}

struct Vectors {
  int64_t count;  // of 16 bytes
  unsigned blocks;
};

Vectors vectors_of(std::string_view what, const void* to, const void* from, int64_t bytes) {
  if ((reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from) | static_cast<uintptr_t>(bytes)) %
      16) {
    throw usage_error("{} of {} bytes from {} to {}: all must be multiples of 16", what, bytes, from, to);
  }
  const int64_t blocks = (bytes / 16 + kThreads - 1) / kThreads;
  if (blocks > INT32_MAX) throw usage_error("{} of {} bytes needs {} blocks", what, bytes, blocks);
  return {bytes / 16, static_cast<unsigned>(blocks)};
}

}  // namespace

void cuda_copy(void* to, const void* from, int64_t bytes, void* stream) {
  const Vectors vectors = vectors_of("cuda_copy", to, from, bytes);
  if (vectors.count == 0) return;
  copy_kernel<<<vectors.blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<uint4*>(to), static_cast<const uint4*>(from), vectors.count);
  cuda_check_launch("copy_kernel");
}

void cuda_read(void* scratch, const void* from, int64_t bytes, void* stream) {
  const Vectors vectors = vectors_of("cuda_read", scratch, from, bytes);
  if (vectors.count == 0) return;
  read_kernel<<<vectors.blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<uint32_t*>(scratch), static_cast<const uint4*>(from), vectors.count);
  cuda_check_launch("read_kernel");
}

void cuda_memcpy(void* to, const void* from, int64_t bytes, void* stream) {
  cuda_check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice,
                             static_cast<cudaStream_t>(stream)),
             "cudaMemcpyAsync");
}

}  // namespace assay
