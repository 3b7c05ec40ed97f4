// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "kernels/core/error.h"
#include "kernels/core/kept_memory.h"
#include "kernels/core_cuda/busy_gpu.h"
#include "kernels/core_cuda/cuda_check.h"
#include "kernels/core_cuda/cuda_device.h"
#include "kernels/core_cuda/cuda_owners.h"
#include "kernels/core_cuda/inspect.h"
#include "kernels/core_cuda/mapped_memory.h"

namespace assay {
namespace {

// 50 us at 2 GHz. Meanwhile the host looks up choices and enqueues the timed work, so the measured
// time contains none of that.
constexpr int64_t kHeadStart = 100'000;  // [cycles]

__global__ void wait_kernel(int64_t duration) {
  const int64_t begin = clock64();
  while (clock64() - begin < duration) __nanosleep(200);
}

// Leaves the cache as a large copy does: half of its lines are modified, and the next kernel has to
// write them back. Each part of the copy that measures the ceiling finds the cache in that state.
// After writes alone all lines would be modified, and the next kernel would pay for up to a whole
// cache of other results.
__global__ void flush_kernel(uint4* to, const uint4* from, int64_t count) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) to[i] = from[i];
}

// "580.159.04, CUDA 13.0"
std::string driver_version() {
  int version = 0;
  cuda_check(cudaDriverGetVersion(&version), "cudaDriverGetVersion");
  const std::string cuda = fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10);
  std::ifstream file("/sys/module/nvidia/version");
  std::string module;
  return file >> module ? module + ", " + cuda : cuda;
}

DeviceInfo query(int index) {
  const int count = cuda_device_count();
  if (count == 0) throw device_error("cuda:{} is not available: {}", index, cuda_unavailable_reason());
  if (index < 0 || index >= count)
    throw device_error("cuda:{} does not exist; there are {} GPUs", index, count);
  cudaDeviceProp properties{};
  cuda_check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  return {.kind = DeviceKind::kCuda,
          .index = index,
          .model = properties.name,
          .driver = driver_version(),
          .memory_bytes = static_cast<int64_t>(properties.totalGlobalMem),
          .cache_bytes = properties.l2CacheSize,
          .units = properties.multiProcessorCount,
          .compute_capability = 10 * properties.major + properties.minor};
}

void require_code_for_this_gpu(const DeviceInfo& info) {
  cudaFuncAttributes attributes{};
  const cudaError_t result = cudaFuncGetAttributes(&attributes, flush_kernel);
  cuda_check(result,
             fmt::format("finding code for compute capability {} in this build", info.compute_capability));
}

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int index) : info_(query(index)) {
    cuda_check(cudaSetDevice(index), "cudaSetDevice");
    require_code_for_this_gpu(info_);
    page_bytes_ = mapped_page_bytes(index);
    stream_ = make_cuda_stream();
    other_stream_ = make_cuda_stream();
  }

  const DeviceInfo& info() const override { return info_; }

  void* allocate(int64_t bytes) override {
    const CurrentDevice current(info_.index);
    void* memory = nullptr;
    const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
    cuda_check(cudaMalloc(&memory, size), fmt::format("cudaMalloc of {} bytes", size));
    return memory;
  }
  // cudaFree finds the device by the address.
  void release(void* memory, int64_t) noexcept override { cuda_check_noexcept(cudaFree(memory), "cudaFree"); }

  int64_t page_bytes() const override { return page_bytes_; }
  void* reserve(int64_t bytes, const Parts& parts) override {
    if (page_bytes_ == 0) return allocate(bytes);
    if (void* kept = kept_.take(bytes, parts)) return kept;
    return map_memory(info_.index, bytes, parts);
  }
  // As cudaFree does, it waits for all work of the current device.
  void unreserve(void* memory, int64_t bytes, const Parts& parts) noexcept override {
    if (page_bytes_ == 0) return release(memory, bytes);
    cuda_check_noexcept(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    if (!kept_.keep(memory, bytes, parts)) unmap_memory(memory, bytes, parts);
  }

  bool host_can_access() const override { return false; }
  void copy_to_device(void* device, const void* host, int64_t bytes) override {
    transfer(device, host, bytes, cudaMemcpyHostToDevice);
  }
  void copy_to_host(void* host, const void* device, int64_t bytes) override {
    transfer(host, device, bytes, cudaMemcpyDeviceToHost);
  }

  void* stream() const override { return stream_.get(); }
  void* other_stream() override { return other_stream_.get(); }
  void renew_streams() override {
    const CurrentDevice current(info_.index);
    cuda_check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    for (CudaStream* stream : {&stream_, &other_stream_}) {
      forget_stream(stream->get());
      *stream = make_cuda_stream();
    }
  }
  // CUDA does not tell the id of a stream that is being captured. It is the id that the handle had
  // when it was last asked for. If it was never asked for, the result is an id that no stream has:
  // CUDA counts them from 1.
  uint64_t stream_id(void* stream) const override {
    const CurrentDevice current(info_.index);
    const bool can_tell = !is_capturing(stream);
    const std::lock_guard lock(stream_ids_mutex_);
    const auto known = stream_ids_.try_emplace(key_of(stream), ~uint64_t{0}).first;
    if (can_tell) {
      unsigned long long id = 0;
      cuda_check(cudaStreamGetId(native(stream), &id), "cudaStreamGetId");
      known->second = id;
    }
    return known->second;
  }
  void forget_stream(void* stream) override {
    const std::lock_guard lock(stream_ids_mutex_);
    stream_ids_.erase(key_of(stream));
  }
  void synchronize(void* stream) override {
    const CurrentDevice current(info_.index);
    cuda_check(cudaStreamSynchronize(native(stream)), "cudaStreamSynchronize");
  }

  void copy(void* to, const void* from, int64_t bytes, void* stream) override {
    const CurrentDevice current(info_.index);
    cuda_check(
        cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice, native(stream)),
        "cudaMemcpyAsync");
  }
  void fill(void* memory, unsigned char byte, int64_t bytes, void* stream) override {
    const CurrentDevice current(info_.index);
    cuda_check(cudaMemsetAsync(memory, byte, static_cast<size_t>(bytes), native(stream)), "cudaMemsetAsync");
  }

  double time(const std::function<void()>& work, void* stream) override {
    const CurrentDevice current(info_.index);
    // Each call has its own events, since several threads may tune at once.
    const CudaEvent begin = make_cuda_event();
    const CudaEvent end = make_cuda_event();
    synchronize(stream);
    wait_kernel<<<1, 1, 0, native(stream)>>>(kHeadStart);
    cuda_check_launch("wait_kernel");
    cuda_check(cudaEventRecord(begin.get(), native(stream)), "cudaEventRecord");
    work();
    cuda_check(cudaEventRecord(end.get(), native(stream)), "cudaEventRecord");
    synchronize(stream);
    float milliseconds = 0;
    cuda_check(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "cudaEventElapsedTime");
    return 1e-3 * static_cast<double>(milliseconds);
  }

  double wait_until_idle() override {
    const CurrentDevice current(info_.index);
    const auto begin = std::chrono::steady_clock::now();
    cuda_check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  uint64_t hash(MemorySpan memory) override {
    const CurrentDevice current(info_.index);
    return inspector().hash(memory, stream_.get());
  }
  void flip(MemorySpan memory) override {
    const CurrentDevice current(info_.index);
    GpuInspector::flip(memory, stream_.get());
  }
  Watched watch(const std::function<void()>& work, std::span<const MemorySpan> memory) override {
    const CurrentDevice current(info_.index);
    return inspector().watch(work, memory, stream_.get());
  }
  void fill_shared_memory(unsigned char byte) override {
    const CurrentDevice current(info_.index);
    GpuInspector::fill_shared_memory(byte, stream_.get());
  }

  std::function<void()> capture(const std::function<void()>& work) override {
    const CurrentDevice current(info_.index);
    cuda_check(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeThreadLocal),
               "cudaStreamBeginCapture");
    cudaGraph_t graph = nullptr;
    try {
      work();
    } catch (...) {
      if (cudaStreamEndCapture(stream_.get(), &graph) == cudaSuccess) cudaGraphDestroy(graph);
      cudaGetLastError();
      throw;
    }
    cuda_check(cudaStreamEndCapture(stream_.get(), &graph), "cudaStreamEndCapture");
    const CudaGraph owner(graph);
    cudaGraphExec_t executable = nullptr;
    cuda_check(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
    return
        [this, replay = std::shared_ptr<std::remove_pointer_t<cudaGraphExec_t>>(CudaGraphExec(executable))] {
          const CurrentDevice current(info_.index);
          cuda_check(cudaGraphLaunch(replay.get(), stream_.get()), "cudaGraphLaunch");
        };
  }
  bool is_capturing(void* stream) const override {
    const CurrentDevice current(info_.index);
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cuda_check(cudaStreamIsCapturing(native(stream), &status), "cudaStreamIsCapturing");
    return status != cudaStreamCaptureStatusNone;
  }

  void run_on_other_schedule(const std::function<void()>& work, uint64_t seed) override {
    const CurrentDevice current(info_.index);
    if (!busy_) busy_ = std::make_unique<BusyGpu>();
    busy_->run(work, stream_.get(), other_stream_.get(), seed);
  }

  int64_t cache_set_aside() override {
    const CurrentDevice current(info_.index);
    size_t bytes = 0;
    cuda_check(cudaDeviceGetLimit(&bytes, cudaLimitPersistingL2CacheSize), "cudaDeviceGetLimit");
    return static_cast<int64_t>(bytes);
  }

  void flush_cache() override {
    const CurrentDevice current(info_.index);
    reset_cache();
    const int64_t half = 2 * info_.cache_bytes;
    if (!flush_) {
      flush_ = std::make_unique<DeviceBuffer>(*this, 2 * half);
      cuda_check(cudaMemsetAsync(flush_->data(), 1, static_cast<size_t>(flush_->bytes()), stream_.get()),
                 "cudaMemsetAsync");
    }
    auto* const to = static_cast<uint4*>(flush_->data());
    const int64_t count = half / int64_t{sizeof(uint4)};
    flush_kernel<<<static_cast<unsigned>(4 * info_.units), 512, 0, stream_.get()>>>(to, to + count, count);
    cuda_check_launch("flush_kernel");
  }

 private:
  using StreamKey = std::pair<void*, std::thread::id>;

  static cudaStream_t native(void* stream) { return static_cast<cudaStream_t>(stream); }

  GpuInspector& inspector() {
    if (!inspector_) inspector_ = std::make_unique<GpuInspector>();
    return *inspector_;
  }

  // Lines that shall persist in the L2 cache are ordinary again, no part of it is set aside, and
  // work on our streams asks for none.
  void reset_cache() {
    if (cache_set_aside() > 0)
      cuda_check(cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, 0), "cudaDeviceSetLimit");
    cuda_check(cudaCtxResetPersistingL2Cache(), "cudaCtxResetPersistingL2Cache");
    const cudaLaunchAttributeValue no_window{};
    for (const CudaStream* stream : {&stream_, &other_stream_}) {
      cuda_check(cudaStreamSetAttribute(stream->get(), cudaStreamAttributeAccessPolicyWindow, &no_window),
                 "cudaStreamSetAttribute");
    }
  }

  // Identifies a stream among those alive now. The handle cudaStreamPerThread stands for another
  // stream in each thread.
  static StreamKey key_of(void* stream) {
    return {stream, stream == cudaStreamPerThread ? std::this_thread::get_id() : std::thread::id()};
  }

  void transfer(void* to, const void* from, int64_t bytes, cudaMemcpyKind kind) {
    const CurrentDevice current(info_.index);
    cuda_check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), kind, stream_.get()), "cudaMemcpyAsync");
    synchronize(stream_.get());
  }

  DeviceInfo info_;
  int64_t page_bytes_ = 0;
  KeptMemory kept_{unmap_memory, int64_t{1} << 30};
  CudaStream stream_;
  CudaStream other_stream_;
  std::unique_ptr<DeviceBuffer> flush_;
  std::unique_ptr<BusyGpu> busy_;
  std::unique_ptr<GpuInspector> inspector_;
  mutable std::mutex stream_ids_mutex_;
  mutable std::map<StreamKey, uint64_t> stream_ids_;
};

}  // namespace

int cuda_device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();
  return 0;
}

std::string cuda_unavailable_reason() {
  // Without a driver, the runtime says that its version is insufficient.
  int driver = 0;
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0) return "no NVIDIA driver";
  int count = 0;
  const cudaError_t result = cudaGetDeviceCount(&count);
  if (result != cudaSuccess) {
    cudaGetLastError();
    return cudaGetErrorString(result);
  }
  return count == 0 ? "no CUDA-capable device is detected" : "";
}

std::string cuda_pci_bus_id(int index) {
  char id[32] = "";
  cuda_check(cudaDeviceGetPCIBusId(id, sizeof(id), index), "cudaDeviceGetPCIBusId");
  return id;
}

std::unique_ptr<Device> open_cuda(int index) {
  return std::make_unique<CudaDevice>(index);
}

}  // namespace assay
