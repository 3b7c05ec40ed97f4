// SPDX-License-Identifier: Apache-2.0
// Owners of streams, events and graphs, and of the choice of the current device.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <type_traits>

#include "kernels/core_cuda/cuda_check.h"

namespace assay {

struct DestroyCudaStream {
  void operator()(cudaStream_t stream) const noexcept {
    cuda_check_noexcept(cudaStreamDestroy(stream), "cudaStreamDestroy");
  }
};
struct DestroyCudaEvent {
  void operator()(cudaEvent_t event) const noexcept {
    cuda_check_noexcept(cudaEventDestroy(event), "cudaEventDestroy");
  }
};

struct DestroyCudaGraph {
  void operator()(cudaGraph_t graph) const noexcept {
    cuda_check_noexcept(cudaGraphDestroy(graph), "cudaGraphDestroy");
  }
};
struct DestroyCudaGraphExec {
  void operator()(cudaGraphExec_t graph) const noexcept {
    cuda_check_noexcept(cudaGraphExecDestroy(graph), "cudaGraphExecDestroy");
  }
};

struct FreeCudaMemory {
  void operator()(void* memory) const noexcept { cuda_check_noexcept(cudaFree(memory), "cudaFree"); }
};
struct FreeCudaHostMemory {
  void operator()(void* memory) const noexcept { cuda_check_noexcept(cudaFreeHost(memory), "cudaFreeHost"); }
};

using CudaMemory = std::unique_ptr<void, FreeCudaMemory>;
using CudaHostMemory = std::unique_ptr<void, FreeCudaHostMemory>;  // that the GPU accesses, too
using CudaStream = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, DestroyCudaStream>;
using CudaEvent = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, DestroyCudaEvent>;
using CudaGraph = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, DestroyCudaGraph>;
using CudaGraphExec = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, DestroyCudaGraphExec>;

// Makes a device the current one of the calling thread, for streams, events and launches. The
// destructor restores the previous one. It costs next to nothing if the device is current already.
class CurrentDevice {
 public:
  explicit CurrentDevice(int index) {
    int current = 0;
    cuda_check(cudaGetDevice(&current), "cudaGetDevice");
    if (current == index) return;
    cuda_check(cudaSetDevice(index), "cudaSetDevice");
    previous_ = current;
  }
  ~CurrentDevice() {
    if (previous_ >= 0) cuda_check_noexcept(cudaSetDevice(previous_), "cudaSetDevice");
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int previous_ = -1;  // none
};

// A stream that does not wait for the legacy default stream.
inline CudaStream make_cuda_stream() {
  cudaStream_t stream = nullptr;
  cuda_check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return CudaStream(stream);
}

// An event that records its time.
inline CudaEvent make_cuda_event() {
  cudaEvent_t event = nullptr;
  cuda_check(cudaEventCreate(&event), "cudaEventCreate");
  return CudaEvent(event);
}

}  // namespace assay
