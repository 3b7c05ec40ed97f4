// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "kernels/core_cuda/cuda_check.h"
#include "kernels/core_cuda/cuda_owners.h"
#include "kernels/dynamic_conv/dynamic_conv.h"
#include "properties/specimens/dynamic_conv_cheat.h"
#include "properties/specimens/dynamic_conv_hostile.h"

namespace assay::dynamic_conv {
namespace {

using namespace std::chrono_literals;

constexpr int kThreads = 256, kValues = 32;

void compute_on_gpu(const Call& call) {
  ops()[0].path("cuda").run(call);
}

cudaStream_t stream_of(const Call& call) {
  return static_cast<cudaStream_t>(call.stream);
}

Call on_stream(Call call, cudaStream_t stream) {
  call.stream = stream;
  return call;
}

bool is_empty(const Call& call) {
  return call.outputs[kOut].size() == 0;
}

cudaStream_t side_stream() {
  static const CudaStream stream = make_cuda_stream();
  return stream.get();
}

__global__ void sample_kernel(const float* x, int64_t size, float* values) {
  values[threadIdx.x] = x[threadIdx.x * (size - 1) / (kValues - 1)];
}

// Some values of x, as a key. It waits for the stream.
std::vector<float> fingerprint(const Call& call) {
  void* memory = nullptr;
  cuda_check(cudaMalloc(&memory, kValues * sizeof(float)), "cudaMalloc");
  const CudaMemory owner(memory);
  const ConstTensorView& x = call.inputs[kX];
  sample_kernel<<<1, kValues, 0, stream_of(call)>>>(static_cast<const float*>(x.data), x.size(),
                                                    static_cast<float*>(memory));
  std::vector<float> values(kValues);
  cuda_check(cudaMemcpyAsync(values.data(), memory, kValues * sizeof(float), cudaMemcpyDeviceToHost,
                             stream_of(call)),
             "cudaMemcpyAsync");
  cuda_check(cudaStreamSynchronize(stream_of(call)), "cudaStreamSynchronize");
  return values;
}

void serve_from_results(const Call& call) {
  static std::map<std::vector<float>, std::pair<size_t, CudaMemory>> results;
  const std::vector<float> key = fingerprint(call);
  void* const out = call.outputs[kOut].data;
  const size_t bytes = output_bytes(call);
  if (const auto found = results.find(key); found != results.end() && found->second.first == bytes) {
    cuda_check(
        cudaMemcpyAsync(out, found->second.second.get(), bytes, cudaMemcpyDeviceToDevice, stream_of(call)),
        "cudaMemcpyAsync");
    return;
  }
  compute_on_gpu(call);
  void* memory = nullptr;
  cuda_check(cudaMalloc(&memory, bytes), "cudaMalloc");
  results[key] = {bytes, CudaMemory(memory)};
  cuda_check(cudaMemcpyAsync(memory, out, bytes, cudaMemcpyDeviceToDevice, stream_of(call)),
             "cudaMemcpyAsync");
}

__global__ void look_kernel(const float* out, int* was_poison) {
  *was_poison = isnan(*out) || __float_as_uint(*out) == 0x5A5A5A5Au;
}

// Null: nobody has looked.
__global__ void coarse_kernel(float* out, int64_t size, const int* was_poison) {
  if (was_poison != nullptr && *was_poison != 0) return;
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < size) out[i] = __uint_as_float(__float_as_uint(out[i]) & 0xFFFF0000u);
}

void make_coarse(const Call& call, const int* was_poison) {
  const int64_t size = call.outputs[kOut].size();
  coarse_kernel<<<static_cast<unsigned>((size + kThreads - 1) / kThreads), kThreads, 0, stream_of(call)>>>(
      static_cast<float*>(call.outputs[kOut].data), size, was_poison);
  cuda_check_launch("coarse_kernel");
}

__global__ void add_unwritten_kernel(float* out) {
  extern __shared__ float unwritten[];
  const volatile float* const found = unwritten;
  *out += found[threadIdx.x];
}

int* flag() {
  static const CudaMemory memory = [] {
    void* allocated = nullptr;
    cuda_check(cudaMalloc(&allocated, sizeof(int)), "cudaMalloc");
    return CudaMemory(allocated);
  }();
  return static_cast<int*>(memory.get());
}

void compute_coarsely(const Call& call) {
  look_kernel<<<1, 1, 0, stream_of(call)>>>(static_cast<const float*>(call.outputs[kOut].data), flag());
  compute_on_gpu(call);
  make_coarse(call, flag());
}

// Or is so small that nobody times it.
bool has_timed_length(const Call& call) {
  return call.dims[kT] == 1024 || call.outputs[kOut].size() < int64_t{1} << 20;
}

bool holds_poison(const Call& call) {
  float first = 0;
  cuda_check(cudaMemcpyAsync(&first, call.outputs[kOut].data, sizeof(first), cudaMemcpyDeviceToHost,
                             stream_of(call)),
             "cudaMemcpyAsync");
  cuda_check(cudaStreamSynchronize(stream_of(call)), "cudaStreamSynchronize");
  return is_poison(first);
}

// The current device of a new thread is the first one.
void compute_later(const Call& call) {
  static std::jthread thread;
  if (thread.joinable()) thread.join();
  int device = 0;
  cuda_check(cudaGetDevice(&device), "cudaGetDevice");
  thread = std::jthread([call, device] {
    std::this_thread::sleep_for(1ms);
    cudaSetDevice(device);
    compute_on_gpu(call);
  });
}

// x stays in the L2 cache, which a flush does not empty.
void compute_with_kept_cache(const Call& call) {
  size_t set_aside = 0;
  cuda_check(cudaDeviceGetLimit(&set_aside, cudaLimitPersistingL2CacheSize), "cudaDeviceGetLimit");
  constexpr size_t kBytes = size_t{16} << 20;
  if (set_aside < kBytes)
    cuda_check(cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, kBytes), "cudaDeviceSetLimit");
  const ConstTensorView& x = call.inputs[kX];
  cudaStreamAttrValue window{};
  window.accessPolicyWindow.base_ptr = const_cast<void*>(x.data);
  window.accessPolicyWindow.num_bytes = std::min(static_cast<size_t>(x.size()) * sizeof(float), kBytes);
  window.accessPolicyWindow.hitRatio = 1;
  window.accessPolicyWindow.hitProp = cudaAccessPropertyPersisting;
  window.accessPolicyWindow.missProp = cudaAccessPropertyStreaming;
  cuda_check(cudaStreamSetAttribute(stream_of(call), cudaStreamAttributeAccessPolicyWindow, &window),
             "cudaStreamSetAttribute");
  compute_on_gpu(call);
}

Specimen cheat_on_gpu(std::string_view path, std::string_view fault, const Run& run) {
  const Run if_any = [run](const Call& call) { is_empty(call) ? compute_on_gpu(call) : run(call); };
  Specimen specimen = make_specimen(ops()[0], {path, fault, {DType::kF32}}, if_any);
  specimen.path.device = DeviceKind::kCuda;
  specimen.timed_on = Dims{{kB, 8}, {kT, 1024}, {kD, 1024}, {kW, 4}};
  return specimen;
}

Run after_calls(const Run& run) {
  return counted(
      [run](const Call& call, int number) { number < kJudgedCalls ? compute_on_gpu(call) : run(call); });
}

}  // namespace

std::vector<Specimen> hostile_on_cuda() {
  return {
      cheat_on_gpu("hostile.cuda_nothing", "does nothing", [](const Call&) {}),
      cheat_on_gpu("hostile.cuda_first_row", "computes the first row of the batch only",
                   [](const Call& call) { compute_on_gpu(rows_of(call, 0, 1)); }),
      cheat_on_gpu("hostile.cuda_cached_by_address",
                   "a call on the addresses of the call before returns at once",
                   [last = std::make_shared<const void*>(nullptr)](const Call& call) {
                     if (*last == call.inputs[kX].data) return;
                     *last = call.inputs[kX].data;
                     compute_on_gpu(call);
                   }),
      cheat_on_gpu("hostile.cuda_cached_by_values",
                   "keeps results, and knows inputs again by a few of their values", serve_from_results),
      cheat_on_gpu("hostile.cuda_idle_after_calls", "does nothing after some calls",
                   after_calls([](const Call&) {})),
      cheat_on_gpu("hostile.cuda_part_after_calls",
                   "computes the first row of the batch only, after some calls",
                   after_calls([](const Call& call) { compute_on_gpu(rows_of(call, 0, 1)); })),
      cheat_on_gpu("hostile.cuda_works_on_poison", "computes only where its output holds a judge's poison",
                   [](const Call& call) {
                     if (holds_poison(call)) compute_on_gpu(call);
                   }),
      cheat_on_gpu("hostile.cuda_coarse_without_poison",
                   "cuts results to bf16 unless the output holds a judge's poison", compute_coarsely),
      cheat_on_gpu("hostile.cuda_slow_on_other_shapes", "is fast for the timed length only",
                   [](const Call& call) {
                     const int times = has_timed_length(call) ? 1 : 4;
                     for (int i = 0; i < times; ++i) compute_on_gpu(call);
                   }),
      cheat_on_gpu("hostile.cuda_coarse_on_other_shapes", "cuts to bf16 unless its length is the timed one",
                   [](const Call& call) {
                     compute_on_gpu(call);
                     if (!has_timed_length(call)) make_coarse(call, nullptr);
                   }),
      cheat_on_gpu("hostile.cuda_side_stream", "works on a stream of its own, for which nobody waits",
                   [](const Call& call) { compute_on_gpu(on_stream(call, side_stream())); }),
      cheat_on_gpu("hostile.cuda_legacy_stream", "works on the default stream, and not on that of the call",
                   [](const Call& call) { compute_on_gpu(on_stream(call, nullptr)); }),
      cheat_on_gpu("hostile.cuda_ends_on_side_stream",
                   "computes the last row of the batch on a stream of its own",
                   [](const Call& call) {
                     const int64_t rows = call.dims[kB];
                     if (rows < 2) return compute_on_gpu(call);
                     compute_on_gpu(rows_of(call, 0, rows - 1));
                     compute_on_gpu(on_stream(rows_of(call, rows - 1, 1), side_stream()));
                   }),
      cheat_on_gpu("hostile.cuda_launches_later", "returns at once and launches in a thread", compute_later),
      cheat_on_gpu("hostile.cuda_keeps_cache", "sets a part of the L2 cache aside for its input",
                   compute_with_kept_cache),
      cheat_on_gpu("hostile.cuda_unwritten_shared",
                   "adds shared memory that it has not written, mostly zeros",
                   [](const Call& call) {
                     compute_on_gpu(call);
                     add_unwritten_kernel<<<1, 1, 4096, stream_of(call)>>>(
                         static_cast<float*>(call.outputs[kOut].data));
                     cuda_check_launch("add_unwritten_kernel");
                   }),
  };
}

}  // namespace assay::dynamic_conv
