// SPDX-License-Identifier: Apache-2.0
// The CUDA paths of trimul in three steps: all projections of x (cuda_project.cu), the pairwise product of each channel
// by cuBLASLt, and what follows it (cuda_finish.cu). Batches go together as long as their intermediate tensors fit.
//
// Split factors are multiplied in three products that are added up in f32, the small ones first.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/core_cuda/cublas.h"
#include "kernels/core_cuda/cuda_check.h"
#include "kernels/trimul/cuda_plan.cuh"

namespace assay::trimul {
namespace {

constexpr int64_t kMostBytes = int64_t{8} << 30;  // of the intermediate tensors of batches that go together
constexpr int kThreads = 256;

struct Mask {
  const float* data;
  int64_t batch, first, second;  // [elements]
  int64_t nodes;
};

// The largest magnitude of a batch of the mask, but for NaNs, into a float that was 0. Those that are not negative are
// ordered as their bits are.
__global__ void __launch_bounds__(kThreads)
    largest_mask_kernel(const Mask mask, int64_t batches, float* largest) {
  for (int64_t batch = blockIdx.y; batch < batches; batch += gridDim.y) {
    float most = 0;
    for (int64_t first = blockIdx.x; first < mask.nodes; first += gridDim.x) {
      const float* const row = mask.data + batch * mask.batch + first * mask.first;
      for (int64_t second = threadIdx.x; second < mask.nodes; second += kThreads) {
        most = fmaxf(most, fabsf(__ldg(row + second * mask.second)));
      }
    }
    for (int lanes = 16; lanes > 0; lanes /= 2) most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFu, most, lanes));
    if (threadIdx.x % 32 == 0) atomicMax(reinterpret_cast<int*>(largest + batch), __float_as_int(most));
  }
}

void measure_mask(const ConstTensorView& view, float* largest, cudaStream_t stream) {
  const int64_t batches = view.shape[0], nodes = view.shape[1];
  cuda_check(cudaMemsetAsync(largest, 0, static_cast<size_t>(batches) * sizeof(float), stream),
             "cudaMemsetAsync");
  const Mask mask{view.as<float>(), view.strides[0], view.strides[1], view.strides[2], nodes};
  const dim3 grid(static_cast<unsigned>(std::min<int64_t>(nodes, 512)),
                  static_cast<unsigned>(std::min<int64_t>(batches, 65535)));
  largest_mask_kernel<<<grid, kThreads, 0, stream>>>(mask, batches, largest);
  cuda_check_launch("largest_mask_kernel");
}

template <Factor kFactor>
constexpr DType kStoredType = std::is_same_v<Stored<kFactor>, f16>    ? DType::kF16
                              : std::is_same_v<Stored<kFactor>, bf16> ? DType::kBF16
                                                                      : DType::kF32;

// hidden[i,j] = sum_k left[i,k] right[j,k] for each channel.
template <Factor kFactor>
void contract(const Job<kFactor>& job, Context& context) {
  using T = Stored<kFactor>;
  const Planes& p = job.planes;
  const int64_t rest = job.count * p.batch();
  if (p.pitch != p.nodes) {  // what fills up the rows of hidden is read, though never used
    cuda_check(cudaMemset2DAsync(job.hidden + p.nodes, static_cast<size_t>(p.pitch) * sizeof(T), 0,
                                 static_cast<size_t>(p.pitch - p.nodes) * sizeof(T),
                                 static_cast<size_t>(job.count * p.hidden * p.nodes), job.stream),
               "cudaMemset2DAsync");
  }
  RowProduct product{.dtype = kStoredType<kFactor>,
                     .columns = p.nodes,
                     .inner = p.nodes,
                     .a_pitch = p.pitch,
                     .b_pitch = p.pitch,
                     .d_pitch = p.pitch,
                     .usual_rows = p.nodes,
                     .allows_tf32 = sizeof(T) == 4,
                     .usual_batches = p.hidden,
                     .a_batch = p.plane(),
                     .b_batch = p.plane(),
                     .d_batch = p.plane()};
  if constexpr (kFactor == Factor::kF16)
    product.alpha = std::ldexp(1.0f, -BatchScales::contraction_shift(p.nodes));
  const auto multiply = [&](const T* left, const T* right) {
    multiply_rows(product, p.nodes, left, right, job.hidden, context, job.stream, job.count * p.hidden);
    product.beta = 1;
  };
  if constexpr (kFactor == Factor::kTF32x3) {
    multiply(job.left + rest, job.right);
    multiply(job.left, job.right + rest);
  }
  multiply(job.left, job.right);
}

template <Factor kFactor>
void run_factor(const Tensors& t, const Run& run) {
  using T = Stored<kFactor>;
  const auto stream = static_cast<cudaStream_t>(run.stream);
  const int64_t batches = t.x.shape[0], nodes = t.x.shape[1];
  const Planes planes{.nodes = nodes, .hidden = t.left.proj.shape[0], .pitch = (nodes + 7) / 8 * 8};
  DerivedTensors::Held memory;
  const PackedWeights weights = pack_weights<kFactor>(t, run, memory);
  Workspace& workspace = run.context.workspace();
  Workspace::Lease masks;
  if (kFactor == Factor::kF16 && t.mask.shape[3] == 1) {
    masks = workspace.lease(batches * int64_t{sizeof(float)}, run.stream);
    measure_mask(t.mask, masks.as<float>(), stream);
  }
  constexpr int64_t kParts = TileFactor<kFactor>::kParts;
  const int64_t bytes = planes.batch() * int64_t{sizeof(T)};  // of one tensor of a batch
  const int64_t together =
      std::clamp<int64_t>(kMostBytes / std::max<int64_t>((2 + 2 * kParts) * bytes, 1), 1, batches);
  const auto left = workspace.lease(kParts * together * bytes, run.stream);
  const auto right = workspace.lease(kParts * together * bytes, run.stream);
  const auto hidden = workspace.lease(together * bytes, run.stream);
  const auto gate = workspace.lease(together * bytes, run.stream);
  for (int64_t first = 0; first < batches; first += together) {
    const Job<kFactor> job{.tensors = t,
                           .weights = weights,
                           .planes = planes,
                           .first = first,
                           .count = std::min(together, batches - first),
                           .largest_mask = masks.as<float>(),
                           .left = left.as<T>(),
                           .right = right.as<T>(),
                           .hidden = hidden.as<T>(),
                           .gate = gate.as<T>(),
                           .device = run.context.device().info().index,
                           .stream = stream};
    if (planes.hidden > 0) {
      project(job);
      contract(job, run.context);
    }
    finish(job);
  }
}

}  // namespace

void run_cuda(const Tensors& t, Factor factor, const Run& run) {
  require_valid(t);
  const int64_t channels = t.x.shape[3], hidden = t.left.proj.shape[0];
  if (const auto why = unsupported_on_cuda(channels, hidden, factor)) throw unsupported_error("{}", *why);
  if (t.out.size() == 0) return;
  const int capability = run.context.device().info().compute_capability;
  if ((factor == Factor::kF16 || factor == Factor::kBF16) && capability != 90) {
    throw unsupported_error("products of {} need compute capability 9.0, not {}.{}", name_of(factor),
                            capability / 10, capability % 10);
  }
  switch (factor) {
    case Factor::kF16:
      return run_factor<Factor::kF16>(t, run);
    case Factor::kBF16:
      return run_factor<Factor::kBF16>(t, run);
    case Factor::kTF32:
      return run_factor<Factor::kTF32>(t, run);
    case Factor::kTF32x3:
      return run_factor<Factor::kTF32x3>(t, run);
    case Factor::kStored:
    case Factor::kBF16x3:
      break;
  }
  throw Error("trimul has no path with factors of {}", name_of(factor));
}

}  // namespace assay::trimul
