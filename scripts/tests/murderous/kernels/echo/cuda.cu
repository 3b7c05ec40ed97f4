// SPDX-License-Identifier: Apache-2.0
// The paths of a GPU: a healthy one, and those that leave the device unusable for their process.
#include "kernels/core_cuda/cuda_check.h"
#include "kernels/echo/echo.h"

namespace assay::echo {
namespace {

__global__ void copy_kernel(const float* x, int64_t x_stride, float* out, int64_t out_stride, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) out[i * out_stride] = x[i * x_stride];
}

__global__ void fault_kernel(int* nowhere) {
  *nowhere = 1;
}

void copy_on_gpu(const Call& call) {
  const ConstTensorView& x = call.inputs[kX];
  const TensorView& out = call.outputs[kOut];
  const int64_t n = out.shape[0];
  if (n == 0) return;
  constexpr int kThreads = 128;
  copy_kernel<<<static_cast<unsigned>((n + kThreads - 1) / kThreads), kThreads, 0,
                static_cast<cudaStream_t>(call.stream)>>>(x.as<float>(), x.strides[0], out.as<float>(),
                                                          out.strides[0], n);
  cuda_check_launch("copy_kernel");
}

void fault(cudaStream_t stream) {
  fault_kernel<<<1, 1, 0, stream>>>(nullptr);
  cuda_check_launch("fault_kernel");
}

Path path(std::string_view name, std::function<void(const Call&)> run) {
  Path made = f32_path(name, DeviceKind::kCuda, std::move(run), name);
  made.dtypes = {DType::kF32};
  return made;
}

}  // namespace

std::vector<Path> cuda_paths() {
  return {path("cuda", copy_on_gpu),
          path("cuda.faults",
               [](const Call& call) {
                 copy_on_gpu(call);
                 fault(static_cast<cudaStream_t>(call.stream));
               }),
          // Nobody waits for the stream in which the fault happens.
          path("cuda.faults_elsewhere",
               [](const Call& call) {
                 static cudaStream_t other = nullptr;
                 if (other == nullptr)
                   cuda_check(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), "a stream");
                 copy_on_gpu(call);
                 fault(other);
               }),
          path("cuda.again", copy_on_gpu)};
}

}  // namespace assay::echo
