// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <thread>

#include "kernels/core_cuda/inspect.h"
#include "kernels/core_cuda/nanoseconds.cuh"
#include "kernels/core_cuda/shared_memory.cuh"

namespace assay {
namespace {

using namespace std::chrono_literals;

constexpr int kThreads = 256;
constexpr uint64_t kOdd = 0x9E3779B97F4A7C15u;
constexpr auto kMostHeld = 500ms;
constexpr auto kWatched = 20ms;  // how long work may take to escape

// A sum over words of 4 bytes, each mixed with its position. So the order does not matter.
__global__ void hash_kernel(const unsigned char* bytes, int64_t count, unsigned long long* sum) {
  const bool has_words = reinterpret_cast<uintptr_t>(bytes) % 4 == 0;
  const int64_t words = (count + 3) / 4, stride = int64_t{gridDim.x} * kThreads;
  unsigned long long part = 0;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < words; i += stride) {
    uint32_t word = 0;
    if (has_words && 4 * i + 4 <= count) {
      word = reinterpret_cast<const uint32_t*>(bytes)[i];
    } else {
      for (int64_t b = 4 * i; b < count && b < 4 * i + 4; ++b) word = word << 8 | bytes[b];
    }
    const uint64_t mixed = (word ^ static_cast<uint64_t>(i) * kOdd) * kOdd;
    part += mixed ^ mixed >> 32;
  }
  for (int lane = 16; lane > 0; lane /= 2) part += __shfl_down_sync(~0u, part, lane);
  if (threadIdx.x % 32 == 0) atomicAdd(sum, part);
}

__global__ void flip_kernel(unsigned char* bytes, int64_t count) {
  const bool has_words = reinterpret_cast<uintptr_t>(bytes) % 4 == 0;
  const int64_t words = has_words ? count / 4 : 0, stride = int64_t{gridDim.x} * kThreads;
  const int64_t first = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  for (int64_t i = first; i < words; i += stride) reinterpret_cast<uint32_t*>(bytes)[i] ^= 0x01010101u;
  for (int64_t i = 4 * words + first; i < count; i += stride) bytes[i] ^= 1;
}

__global__ void hold_kernel(const volatile int* may_begin, uint64_t most) {
  const uint64_t end = nanoseconds() + most;
  while (*may_begin == 0 && nanoseconds() < end) __nanosleep(200);
}

// Each block has all shared memory of a multiprocessor, so none is left out.
__global__ void fill_shared_kernel(uint32_t word, int words) {
  extern __shared__ volatile uint32_t shared[];
  for (int i = static_cast<int>(threadIdx.x); i < words; i += kThreads) shared[i] = word;
}

int units() {
  int device = 0, count = 0;
  cuda_check(cudaGetDevice(&device), "cudaGetDevice");
  cuda_check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device),
             "cudaDeviceGetAttribute");
  return count;
}

unsigned blocks_for(int64_t bytes) {
  return static_cast<unsigned>(std::clamp<int64_t>(bytes / (4 * kThreads), 1, int64_t{8} * units()));
}

}  // namespace

GpuInspector::GpuInspector() : stream_(make_cuda_stream()) {
  void* memory = nullptr;
  cuda_check(cudaMalloc(&memory, sizeof(uint64_t)), "cudaMalloc");
  sum_.reset(memory);
  cuda_check(cudaMallocHost(&memory, sizeof(int)), "cudaMallocHost");
  flag_.reset(memory);
}

uint64_t GpuInspector::hash(MemorySpan memory, cudaStream_t stream) {
  auto* const sum = static_cast<unsigned long long*>(sum_.get());
  cuda_check(cudaMemsetAsync(sum, 0, sizeof(*sum), stream), "cudaMemsetAsync");
  if (memory.bytes > 0) {
    hash_kernel<<<blocks_for(memory.bytes), kThreads, 0, stream>>>(
        static_cast<const unsigned char*>(memory.data), memory.bytes, sum);
    cuda_check_launch("hash_kernel");
  }
  unsigned long long result = 0;
  cuda_check(cudaMemcpyAsync(&result, sum, sizeof(result), cudaMemcpyDeviceToHost, stream),
             "cudaMemcpyAsync");
  cuda_check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  return result;
}

void GpuInspector::flip(MemorySpan memory, cudaStream_t stream) {
  if (memory.bytes == 0) return;
  flip_kernel<<<blocks_for(memory.bytes), kThreads, 0, stream>>>(static_cast<unsigned char*>(memory.data),
                                                                 memory.bytes);
  cuda_check_launch("flip_kernel");
}

void GpuInspector::fill_shared_memory(unsigned char byte, cudaStream_t stream) {
  allow_all_shared_memory(fill_shared_kernel);
  const int bytes = most_shared_memory();
  fill_shared_kernel<<<static_cast<unsigned>(units()), kThreads, static_cast<size_t>(bytes), stream>>>(
      0x01010101u * byte, bytes / 4);
  cuda_check_launch("fill_shared_kernel");
}

Watched GpuInspector::watch(const std::function<void()>& work, std::span<const MemorySpan> memory,
                            cudaStream_t stream) {
  using Clock = std::chrono::steady_clock;
  const auto hashes = [&] {
    std::vector<uint64_t> all;
    for (const MemorySpan& span : memory) all.push_back(hash(span, stream_.get()));
    return all;
  };
  // Raises the flag at the end, also when an exception passes.
  struct Hold {
    volatile int* flag;
    cudaStream_t stream;
    ~Hold() {
      *flag = 1;
      cuda_check_noexcept(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    }
  };
  cuda_check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  const std::vector<uint64_t> before = hashes();
  auto* const flag = static_cast<volatile int*>(flag_.get());
  *flag = 0;
  const Hold hold{flag, stream};
  hold_kernel<<<1, 1, 0, stream>>>(flag, std::chrono::nanoseconds(kMostHeld).count());
  cuda_check_launch("hold_kernel");
  const auto begin = Clock::now();
  work();
  const auto returned = Clock::now() - begin;
  if (returned >= kMostHeld / 2) return {.blocked = std::chrono::duration<double>(returned).count()};
  std::this_thread::sleep_for(kWatched);
  const bool escaped = hashes() != before;
  if (Clock::now() - begin >= kMostHeld) return {};  // the stream was let go too early to tell
  return {.escaped = escaped};
}

}  // namespace assay
