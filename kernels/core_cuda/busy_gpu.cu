// SPDX-License-Identifier: Apache-2.0
#include <random>

#include "kernels/core_cuda/busy_gpu.h"
#include "kernels/core_cuda/nanoseconds.cuh"
#include "kernels/core_cuda/shared_memory.cuh"

namespace assay {
namespace {

constexpr int kThreads = 256;
constexpr unsigned kElements = 1u << 24;
constexpr uint64_t kMostHeld = 5'000'000;  // [ns]

__global__ void gate_kernel(const volatile int* may_begin) {
  const uint64_t end = nanoseconds() + kMostHeld;
  while (*may_begin == 0 && nanoseconds() < end) __nanosleep(200);
}

__global__ void busy_kernel(const volatile int* have_ended, uint32_t* memory) {
  const uint64_t end = nanoseconds() + kMostHeld;
  const unsigned stride = gridDim.x * blockDim.x;
  unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
  do {
    for (int i = 0; i < 16; ++i, at += stride) atomicAdd(&memory[at % kElements], 1u);
  } while (!__syncthreads_or(threadIdx.x == 0 && (*have_ended != 0 || nanoseconds() >= end)));
}

// Raises a flag at its end, also when an exception passes.
class Raised {
 public:
  explicit Raised(volatile int& flag) : flag_(flag) { flag_ = 0; }
  ~Raised() { flag_ = 1; }
  Raised(const Raised&) = delete;
  Raised& operator=(const Raised&) = delete;

 private:
  volatile int& flag_;
};

}  // namespace

BusyGpu::BusyGpu() : stream_(make_cuda_stream()) {
  void* memory = nullptr;
  cuda_check(cudaMalloc(&memory, kElements * sizeof(uint32_t)), "cudaMalloc");
  memory_.reset(memory);
  cuda_check(cudaMemsetAsync(memory, 0, kElements * sizeof(uint32_t), stream_.get()), "cudaMemsetAsync");
  void* flags = nullptr;
  cuda_check(cudaMallocHost(&flags, 2 * sizeof(int)), "cudaMallocHost");
  flags_.reset(flags);
  allow_all_shared_memory(busy_kernel);
}

void BusyGpu::run(const std::function<void()>& work, cudaStream_t one, cudaStream_t other, uint64_t seed) {
  std::mt19937_64 random(seed);
  int device = 0, units = 0;
  cuda_check(cudaGetDevice(&device), "cudaGetDevice");
  cuda_check(cudaDeviceGetAttribute(&units, cudaDevAttrMultiProcessorCount, device),
             "cudaDeviceGetAttribute");
  const int most = most_shared_memory();
  const bool on_all = random() % 2 == 0;
  const auto blocks = on_all ? static_cast<unsigned>(units)
                             : 1 + static_cast<unsigned>(random() % static_cast<unsigned>(units));
  const int shared = on_all ? most / 8 * (1 + static_cast<int>(random() % 4)) : most;
  volatile int* const flags = static_cast<int*>(flags_.get());
  cuda_check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize");  // of a run that threw
  const Raised have_ended(flags[1]);
  busy_kernel<<<blocks, kThreads, static_cast<size_t>(shared), stream_.get()>>>(
      &flags[1], static_cast<uint32_t*>(memory_.get()));
  cuda_check_launch("busy_kernel");
  {
    const Raised may_begin(flags[0]);
    for (cudaStream_t stream : {one, other}) {
      gate_kernel<<<1, 1, 0, stream>>>(&flags[0]);
      cuda_check_launch("gate_kernel");
    }
    work();
  }
  for (cudaStream_t stream : {one, other}) cuda_check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

}  // namespace assay
