// SPDX-License-Identifier: Apache-2.0
#include "kernels/core/error.h"
#include "kernels/core_cuda/cuda_owners.h"
#include "properties/self/planted_kernels.h"

namespace assay::test {
namespace {

constexpr int kThreads = 256, kWarp = 32;

// Round after round each warp hands numbers to another one.
__global__ void hand_over_kernel(int* overtaken, bool has_barrier) {
  __shared__ int slots[kThreads];
  const int self = static_cast<int>(threadIdx.x), from = (self + kWarp) % kThreads;
  for (int round = 0; round < 1000; ++round) {
    slots[self] = round * kThreads + self;
    __syncthreads();
    if (slots[from] != round * kThreads + from) atomicAdd(overtaken, 1);
    if (has_barrier) __syncthreads();
  }
}

// Reads numbers[at].
__global__ void read_kernel(int* numbers, int at) {
  numbers[0] = numbers[at] + 1;
}

// Half of a warp waits for the other half and not for itself.
__global__ void divergent_kernel(int* numbers) {
  __shared__ int slots[kWarp];
  slots[threadIdx.x] = static_cast<int>(threadIdx.x);
  __syncwarp(0x0000FFFF);
  if (threadIdx.x == 0) numbers[0] = slots[1];
}

__global__ void unordered_sum_kernel(float* sum) {
  atomicAdd(sum, 1.0f / static_cast<float>(1 + blockIdx.x * blockDim.x + threadIdx.x));
}

__global__ void merge_kernel(float* result, const float* sum) {
  const unsigned kept = __float_as_uint(*result) & ~0xFFu;
  *result = __uint_as_float(kept | (__float_as_uint(*sum) & 0xFFu));
}

CudaMemory allocate(size_t bytes) {
  void* memory = nullptr;
  cuda_check(cudaMalloc(&memory, bytes), "cudaMalloc");
  return CudaMemory(memory);
}

}  // namespace

bool has_cuda_delays() {
#if ASSAY_CUDA_DELAYS
  return true;
#else
  return false;
#endif
}

int64_t count_overtaken(bool has_barrier) {
  const CudaMemory count = allocate(sizeof(int));
  cuda_check(cudaMemset(count.get(), 0, sizeof(int)), "cudaMemset");
  hand_over_kernel<<<64, kThreads>>>(static_cast<int*>(count.get()), has_barrier);
  cuda_check_launch("hand_over_kernel");
  int overtaken = 0;
  cuda_check(cudaMemcpy(&overtaken, count.get(), sizeof(int), cudaMemcpyDeviceToHost), "cudaMemcpy");
  return overtaken;
}

void run_fault_for(std::string_view tool) {
  constexpr int kCount = 64;
  const CudaMemory memory = allocate(kCount * sizeof(int));
  auto* const numbers = static_cast<int*>(memory.get());
  if (tool == "racecheck") {
    count_overtaken(false);
  } else if (tool == "memcheck") {
    read_kernel<<<1, 1>>>(numbers, kCount);
  } else if (tool == "initcheck") {
    read_kernel<<<1, 1>>>(numbers, kCount - 1);
  } else if (tool == "synccheck") {
    divergent_kernel<<<1, kWarp>>>(numbers);
  } else {
    throw Error("compute-sanitizer has no tool {}", tool);
  }
  cuda_check_launch("a planted kernel");
  cuda_check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

void unordered_sum(float* result, float* scratch, void* stream) {
  auto* const on = static_cast<cudaStream_t>(stream);
  cuda_check(cudaMemsetAsync(scratch, 0, sizeof(float), on), "cudaMemsetAsync");
  unordered_sum_kernel<<<256, kThreads, 0, on>>>(scratch);
  merge_kernel<<<1, 1, 0, on>>>(result, scratch);
  cuda_check_launch("merge_kernel");
}

}  // namespace assay::test
