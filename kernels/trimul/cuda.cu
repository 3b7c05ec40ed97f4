// SPDX-License-Identifier: Apache-2.0
// The CUDA paths of trimul have three steps: all projections of x (cuda_project*.cu), the pairwise
// product of each channel by cuBLASLt or by cuda_contract.cu, and the rest (cuda_finish*.cu).
// Batches go together as long as their intermediate tensors fit.
//
// Factors in two parts take three products, which are added up in f32: the small ones first, the
// last one in parts.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/core_cuda/cublas.h"
#include "kernels/core_cuda/cuda_check.h"
#include "kernels/core_cuda/limits.h"
#include "kernels/trimul/cuda_plan.cuh"

namespace assay::trimul {
namespace {

// [bytes] The intermediate tensors of batches that go together take at most kMostBytes, and at most
// one part in kMostShare of the device's memory.
constexpr Threshold kMostBytes{int64_t{8} << 30, 1 << 15};
constexpr int64_t kMostShare = 4;
constexpr int kThreads = 256;

struct Mask {
  const float* data;
  int64_t batch, first, second;  // [elements]
  int64_t nodes;
};

// Computes the scales of each batch from the largest finite magnitude of its mask: a larger mask
// makes exponents smaller. Exponents start as large numbers, kNoScale in each byte. They stay so if
// all of the mask is 0; the values that they scale are then 0.
constexpr int kNoScale = 0x0F;
__global__ void __launch_bounds__(kThreads)
    sides_kernel(const Mask mask, int64_t batches, const Scales* scales, SideScales* sides) {
  for (int64_t batch = blockIdx.y; batch < batches; batch += gridDim.y) {
    float most = 0;
    for (int64_t first = blockIdx.x; first < mask.nodes; first += gridDim.x) {
      const float* const row = mask.data + batch * mask.batch + first * mask.first;
      for (int64_t second = threadIdx.x; second < mask.nodes; second += kThreads) {
        const float magnitude = fabsf(__ldg(row + second * mask.second));
        if (isfinite(magnitude)) most = fmaxf(most, magnitude);
      }
    }
    for (int lanes = 16; lanes > 0; lanes /= 2) most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFu, most, lanes));
    if (threadIdx.x % 32 != 0 || most == 0) continue;
    atomicMin(&sides[batch].left, exponent_for(scales->left * most));
    atomicMin(&sides[batch].right, exponent_for(scales->right * most));
  }
}

void scale_sides(const ConstTensorView& view, const Scales* scales, SideScales* sides, cudaStream_t stream) {
  const int64_t batches = view.shape[0], nodes = view.shape[1];
  cuda_check(cudaMemsetAsync(sides, kNoScale, static_cast<size_t>(batches) * sizeof(SideScales), stream),
             "cudaMemsetAsync");
  const Mask mask{view.as<float>(), view.strides[0], view.strides[1], view.strides[2], nodes};
  const dim3 grid(static_cast<unsigned>(std::min<int64_t>(nodes, 512)),
                  static_cast<unsigned>(std::min(batches, kMostAlongY.value())));
  sides_kernel<<<grid, kThreads, 0, stream>>>(mask, batches, scales, sides);
  cuda_check_launch("sides_kernel");
}

// hidden[i,j] = sum_k left[i,k] right[j,k] for each channel.
template <Format kFactor>
void contract_by_cublaslt(const Job<kFactor>& job, Context& context) {
  using T = Stored<kFactor>;
  const Planes& p = job.planes;
  clear_padding(job.hidden, dtype_of<T>(), job.count * p.hidden * p.nodes, p.nodes, p.pitch, job.stream);
  RowProduct product{.dtype = dtype_of<T>(),
                     .columns = p.nodes,
                     .inner = p.nodes,
                     .a_pitch = p.pitch,
                     .b_pitch = p.pitch,
                     .d_pitch = p.pitch,
                     .usual_rows = p.nodes,
                     .usual_batches = p.hidden,
                     .a_batch = p.plane(),
                     .b_batch = p.plane(),
                     .d_batch = p.plane(),
                     .tile_128 = true};
  if constexpr (kFactor == Format::kF16) product.alpha = std::ldexp(1.0f, -job.contraction_shift);
  multiply_rows(product, p.nodes, job.left, job.right, job.hidden, context, job.stream, job.count * p.hidden);
}

template <Format kFactor>
void contract(const Job<kFactor>& job, Context& context) {
  if constexpr (kFactor == Format::kF16x3) {
    contract_parts(job);
  } else {
    contract_by_cublaslt(job, context);
  }
}

template <Format kFactor>
void run_factor(const Tensors& t, const Run& run) {
  using F = typename TileFactor<kFactor>::F;
  using T = Stored<kFactor>;
  const auto stream = static_cast<cudaStream_t>(run.stream);
  const int64_t batches = t.x.shape[0], nodes = t.x.shape[1];
  const Planes planes{.nodes = nodes, .hidden = t.left.proj.shape[0], .pitch = (nodes + 7) / 8 * 8};
  DerivedTensors::Held memory;
  const PackedWeights weights = pack_weights<kFactor>(t, planes, run, memory);
  Workspace& workspace = run.context.workspace();
  Workspace::Lease sides;
  const bool has_mask = t.mask.shape[3] == 1;
  if (kIsScaled<kFactor> && has_mask) {
    sides = workspace.lease(batches * int64_t{sizeof(SideScales)}, run.stream);
    scale_sides(t.mask, weights.scales, sides.as<SideScales>(), stream);
  }
  // [bytes] Of one tensor of a batch.
  const int64_t side = planes.batch() * TileFactor<kFactor>::kParts * int64_t{sizeof(F)};
  const int64_t kept = planes.batch() * int64_t{sizeof(T)};
  const int64_t most = std::min(kMostBytes.value(), run.context.device().info().memory_bytes / kMostShare);
  const int64_t together = std::clamp<int64_t>(most / std::max<int64_t>(2 * (side + kept), 1), 1, batches);
  const auto left = workspace.lease(together * side, run.stream);
  const auto right = workspace.lease(together * side, run.stream);
  const auto hidden = workspace.lease(together * kept, run.stream);
  const auto gate = workspace.lease(together * kept, run.stream);
  for (int64_t first = 0; first < batches; first += together) {
    const Job<kFactor> job{
        .tensors = t,
        .weights = weights,
        .planes = planes,
        .first = first,
        .count = std::min(together, batches - first),
        .sides = !kIsScaled<kFactor> ? nullptr
                 : has_mask          ? sides.as<SideScales>()
                                     : &weights.scales->sides,
        .sides_step = has_mask ? 1 : 0,
        // 2^-shift brings sums of N products of factors of at most 2^15 to at most 2^15. f32 holds
        // them as they are.
        .contraction_shift = kFactor == Format::kF16x3
                                 ? 0
                                 : 15 + static_cast<int>(std::bit_width(static_cast<uint64_t>(nodes - 1))),
        .left = left.as<F>(),
        .right = right.as<F>(),
        .hidden = hidden.as<T>(),
        .gate = gate.as<T>(),
        .stream = stream,
        .multiprocessors = static_cast<int>(run.context.device().info().units)};
    if (planes.hidden > 0) {
      project(job);
      contract(job, run.context);
    }
    finish(job);
  }
}

}  // namespace

void run_cuda(const Tensors& t, Format factor, const Run& run) {
  require_valid(t);
  const int64_t channels = t.x.shape[3], hidden = t.left.proj.shape[0];
  if (const auto why = unsupported_on_cuda(channels, hidden)) throw unsupported_error("{}", *why);
  if (t.out.size() == 0) return;
  const int capability = run.context.device().info().compute_capability;
  if (capability != 90) {
    throw unsupported_error("products of {} need compute capability 9.0, not {}.{}", name_of(factor),
                            capability / 10, capability % 10);
  }
  switch (factor) {
    case Format::kF16:
      return run_factor<Format::kF16>(t, run);
    case Format::kBF16:
      return run_factor<Format::kBF16>(t, run);
    case Format::kF16x3:
      return run_factor<Format::kF16x3>(t, run);
    case Format::kStored:
    case Format::kBF16x3:
    case Format::kTF32:
      break;
  }
  throw Error("trimul has no path with factors of {}", name_of(factor));
}

}  // namespace assay::trimul
