// SPDX-License-Identifier: Apache-2.0
// The Cheri block in one kernel after the statistics (tile.cuh), and the weights that it needs.
//
// Weights are cast once. w2 is multiplied by the scale of the residual connection before it is
// rounded. Both are laid out as the matrix products read them and padded with zeros to whole steps.
#include <algorithm>
#include <cstdint>
#include <string>

#include "kernels/cheri/block/block.h"
#include "kernels/cheri/block/tile.cuh"
#include "kernels/cheri/cheri.h"
#include "kernels/core/specialise.h"
#include "kernels/core_cuda/cuda_check.h"
#include "kernels/core_cuda/limits.h"
#include "kernels/core_cuda/shared_memory.cuh"

namespace assay::cheri {
namespace {

constexpr int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

template <class T>
struct Matrix {
  const T* data;
  int64_t row, column;  // [elements]
};

template <class T>
struct PackArguments {
  Matrix<T> w1, w2;
  uint8_t* packed;
  int64_t channels, hidden;
  int64_t weight_bytes;  // of each part of each weight
};

// A value as a factor, and the remainder. The remainder of a value that is not finite is 0.
template <class F>
__device__ void split_weight(double value, uint16_t& high, uint16_t& low) {
  if constexpr (std::is_same_v<F, bf16>) {
    const __nv_bfloat16 rounded = __double2bfloat16(value);
    const double rest = value - static_cast<double>(__bfloat162float(rounded));
    high = __bfloat16_as_ushort(rounded);
    low = __bfloat16_as_ushort(__double2bfloat16(isfinite(rest) ? rest : 0.0));
  } else {
    high = __half_as_ushort(__double2half(value));
    low = 0;
  }
}

// Each thread packs 16 bytes of w1 and of w2: 8 of the summed dimension in one row of a block of 8
// rows.
template <class Plan>
__global__ void __launch_bounds__(256) pack_kernel(const PackArguments<typename Plan::T> a) {
  const int64_t count = a.weight_bytes / 16;
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= 2 * count) return;
  const bool is_w1 = i < count;
  const int64_t at = is_w1 ? i : i - count;
  const int64_t block = at / 16;  // two blocks form a step
  const int row = static_cast<int>(at % 8), side = static_cast<int>(at / 8 % 2);
  // w1 has, for each 8 hidden units, the steps along the channels one after the other. w2 has, for
  // each step along hidden, all channels.
  constexpr int64_t kInner = Plan::kColumns / (1 << 3);
  const int64_t outer = is_w1 ? block / Plan::kSteps : block / kInner;
  const int inner = static_cast<int>(is_w1 ? block % Plan::kSteps : block % kInner);
  alignas(16) uint16_t parts[2][8];
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const int64_t hidden = is_w1 ? outer * 8 + row : outer * 16 + side * 8 + k;
    const int channel = channel_at<Plan::kVector>(is_w1 ? inner * 16 + side * 8 + k : inner * 8 + row);
    double value = 0;
    if (hidden < a.hidden && channel < a.channels) {
      value = is_w1 ? load_element(a.w1.data + hidden * a.w1.row + channel * a.w1.column)
                    : kScale * load_element(a.w2.data + channel * a.w2.row + hidden * a.w2.column);
    }
    split_weight<typename Plan::F>(value, parts[0][k], parts[1][k]);
  }
#pragma unroll
  for (int p = 0; p < Plan::kParts; ++p) {
    uint8_t* const to = a.packed + ((is_w1 ? 0 : Plan::kParts) + p) * a.weight_bytes + at * 16;
    *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(parts[p]);
  }
}

template <class Plan>
DerivedTensors::Held packed_weights(const BlockTensors& t, Format factor, const Run& run,
                                    int64_t weight_bytes) {
  using T = typename Plan::T;
  const int64_t hidden = t.w1.shape[0], channels = t.w1.shape[1];
  const auto make = [&](void* data) {
    const PackArguments<T> a{.w1 = {t.w1.as<T>(), t.w1.strides[0], t.w1.strides[1]},
                             .w2 = {t.w2.as<T>(), t.w2.strides[0], t.w2.strides[1]},
                             .packed = static_cast<uint8_t*>(data),
                             .channels = channels,
                             .hidden = hidden,
                             .weight_bytes = weight_bytes};
    const int64_t blocks = (2 * weight_bytes / 16 + 255) / 256;
    if (blocks > INT32_MAX)
      throw unsupported_error("hidden={} with C={} makes {} blocks, more than a grid's {}", hidden, channels,
                              blocks, INT32_MAX);
    if (blocks == 0) return;
    pack_kernel<Plan><<<static_cast<unsigned>(blocks), 256, 0, static_cast<cudaStream_t>(run.stream)>>>(a);
    cuda_check_launch("pack_kernel");
  };
  return run.context.derived().get(fmt::format("cheri_block_fused {} {} hidden={} c={}", name_of(t.x.dtype),
                                               name_of(factor), hidden, channels),
                                   2 * Plan::kParts * weight_bytes,
                                   {run.source(kW1, t.w1), run.source(kW2, t.w2)}, run.stream, make);
}

// x or out with rows of whole vectors: the tensor itself or a copy in working memory.
struct PackedRows {
  ConstTensorView view;
  Workspace::Lease lease;
};

PackedRows rows_of(const ConstTensorView& view, const Run& run) {
  if (has_vectors(view, 16)) return {view, {}};
  const auto size = static_cast<int64_t>(size_of(view.dtype));
  const int64_t pitch = round_up(view.shape[2], 16 / size);
  const int64_t n = view.shape[0], l = view.shape[1];
  PackedRows rows{view, run.context.workspace().lease(n * l * pitch * size, run.stream)};
  rows.view.data = rows.lease.data();
  rows.view.strides = {l * pitch, pitch, 1};
  return rows;
}

template <class Plan>
void enqueue(const BlockArguments<typename Plan::T>& a, const Run& run) {
  auto* const kernel = block_kernel<Plan>;
  allow_all_shared_memory(kernel);
  // One block takes all registers of a multiprocessor, or almost all of its shared memory.
  const auto blocks = static_cast<unsigned>(
      std::min({run.context.device().info().units, int64_t{a.tiles}, kMostBlocks.value()}));
  const auto bytes = static_cast<size_t>(Layout<Plan>::kFixedBytes + a.slots * Layout<Plan>::kChunkBytes);
  launch_dependent(run.context.device().info().compute_capability >= 90, "block_kernel", kernel, blocks,
                   Plan::kThreads, bytes, static_cast<cudaStream_t>(run.stream), a);
}

template <class Plan>
void run_plan(const BlockTensors& t, Format factor, const Run& run) {
  using T = typename Plan::T;
  const int64_t hidden = round_up(t.w1.shape[0], kHiddenStep);
  const int64_t weight_bytes = hidden * Plan::kColumns * 2;
  const int64_t chunks = hidden / Plan::kChunk;
  const int64_t rows = t.x.shape[0] * t.x.shape[1];
  const int64_t tiles = (rows + kTileRows - 1) / kTileRows;
  constexpr int64_t kMostTiles = INT32_MAX / 2, kMostChunks = INT32_MAX;
  if (tiles > kMostTiles) {
    throw unsupported_error("N*L={} makes {} tiles of {} rows, more than {}", rows, tiles, kTileRows,
                            kMostTiles);
  }
  if (chunks > kMostChunks) {
    throw unsupported_error("hidden={} makes {} chunks of {}, more than {}", t.w1.shape[0], chunks,
                            Plan::kChunk, kMostChunks);
  }

  const int64_t all_slots = chunks * Plan::kOuts;
  const int64_t slots =
      std::min(all_slots, (most_shared_memory() - Layout<Plan>::kFixedBytes) / Layout<Plan>::kChunkBytes);
  if (slots < std::min<int64_t>(all_slots, 2)) {
    throw unsupported_error("a block needs {} bytes of shared memory and has {}",
                            Layout<Plan>::kFixedBytes + 2 * Layout<Plan>::kChunkBytes, most_shared_memory());
  }

  // The statistics come last. Their kernels and block_kernel follow each other closely. What
  // block_kernel reads before it waits for them must be older than the first of them.
  const DerivedTensors::Held weights = packed_weights<Plan>(t, factor, run, weight_bytes);
  const PackedRows x = rows_of(t.x, run);
  if (x.lease.data() != nullptr) copy_to_rows(t.x, x.lease.data(), x.view.strides[1], run.stream);
  const PackedRows out = rows_of(t.out, run);
  const Workspace::Lease norms =
      run.context.workspace().lease(t.x.shape[0] * int64_t{sizeof(Norm)}, run.stream);
  enqueue_norms(t.x, t.w, run, norms.data());

  const BlockArguments<T> a{.x = x.view.as<T>(),
                            .x_example = x.view.strides[0],
                            .x_row = x.view.strides[1],
                            .out = static_cast<T*>(const_cast<void*>(out.view.data)),
                            .out_example = out.view.strides[0],
                            .out_row = out.view.strides[1],
                            .taps = t.w.as<T>(),
                            .tap = t.w.strides[0],
                            .tap_channel = t.w.strides[1],
                            .norms = norms.as<Norm>(),
                            .weights = static_cast<const uint8_t*>(weights.data()),
                            .weight_bytes = weight_bytes,
                            .examples = t.x.shape[0],
                            .length = t.x.shape[1],
                            .rows = rows,
                            .dilation = run.dilation,
                            .by_length = Divisor::make(t.x.shape[1]),
                            .channels = static_cast<int>(t.x.shape[2]),
                            .tiles = static_cast<int>(tiles),
                            .pitch = Plan::kPieces > 1
                                         ? Plan::kMostPitch
                                         : static_cast<int>(round_up(t.x.shape[2] * int64_t{sizeof(T)}, 16)),
                            .chunks = static_cast<int>(chunks),
                            .slots = static_cast<int>(slots),
                            .streams = slots < all_slots,
                            .order = RowOrder::make(t.x.shape[1], run.dilation)};
  enqueue<Plan>(a, run);
  if (out.lease.data() != nullptr) copy_from_rows(out.lease.data(), out.view.strides[1], t.out, run.stream);
}

template <class T, class F, bool kSplit>
void choose_columns(const BlockTensors& t, Format factor, const Run& run) {
  const int64_t channels = t.x.shape[2];
  if (channels <= 32) return run_plan<BlockPlan<T, F, kSplit, 32>>(t, factor, run);
  if (channels <= 64) return run_plan<BlockPlan<T, F, kSplit, 64>>(t, factor, run);
  if (channels <= 128) return run_plan<BlockPlan<T, F, kSplit, 128>>(t, factor, run);
  run_plan<BlockPlan<T, F, kSplit, 256>>(t, factor, run);
}

}  // namespace

std::optional<std::string> block_fused_unsupported(int64_t channels, int64_t hidden) {
  constexpr int64_t kMostChannels = 256;
  if (hidden % 16 != 0) return fmt::format("hidden={} is not a multiple of 16", hidden);
  if (channels > kMostChannels) return fmt::format("c={} is more than {}", channels, kMostChannels);
  return std::nullopt;
}

void block_fused(const BlockTensors& t, Format factor, const Run& run) {
  require_valid(t, run.dilation);
  if (const auto reason = block_fused_unsupported(t.x.shape[2], t.w1.shape[0])) {
    throw unsupported_error("{}", *reason);
  }
  if (t.out.size() == 0) return;
  switch (t.x.dtype) {
    case DType::kF32:
      if (factor == Format::kBF16) return choose_columns<float, bf16, false>(t, factor, run);
      if (factor == Format::kBF16x3) return choose_columns<float, bf16, true>(t, factor, run);
      break;
    case DType::kF16:
      if (factor == Format::kF16) return choose_columns<f16, f16, false>(t, factor, run);
      break;
    case DType::kBF16:
      if (factor == Format::kBF16) return choose_columns<bf16, bf16, false>(t, factor, run);
      break;
    case DType::kF64:
      break;
  }
  throw unsupported_error("there is no kernel for {} factors with {} storage", name_of(factor),
                          name_of(t.x.dtype));
}

void block_auto(const BlockTensors& t, bool gradients_wanted, const Run& run) {
  require_valid(t, run.dilation);
  if (gradients_wanted || block_fused_unsupported(t.x.shape[2], t.w1.shape[0])) return block_train(t, run);
  block_fused(t, t.x.dtype == DType::kF16 ? Format::kF16 : Format::kBF16, run);
}

}  // namespace assay::cheri
