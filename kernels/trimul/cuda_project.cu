// SPDX-License-Identifier: Apache-2.0
// The first kernel of trimul for sizes that neither cuda_project_resident.cu nor
// cuda_project_streamed.cu serves: many channels, or planes of more than 2^31 edges.
// It reads x once, normalises it in registers, rounds it and puts it into shared memory as a tile.
// It multiplies the tile with all five projections, whose weights stream through shared memory.
// Sums become gate * projection * mask in registers. They are written through shared memory, so
// that each channel's run of edges is written in whole lines. A thread of a further warpgroup
// copies the weights: with few slots, one that also multiplies comes too late.
#include <algorithm>
#include <cstdint>

#include "kernels/core_cuda/cuda_check.h"
#include "kernels/core_cuda/shared_memory.cuh"
#include "kernels/trimul/cuda_edges.cuh"
#include "kernels/trimul/cuda_gates.cuh"
#include "kernels/trimul/cuda_plan.cuh"
#include "kernels/trimul/cuda_stage.cuh"

namespace assay::trimul {
namespace {

template <Format kFactor_, int kGroups_, int kVectors_>
struct Plan {
  static constexpr Format kFactor = kFactor_;
  static constexpr int kGroups = kGroups_;  // of 64 edges
  // Vectors of four channels in each lane of the warp that normalises an edge.
  static constexpr int kVectors = kVectors_;
  // Edges that a warp normalises side by side.
  static constexpr int kAtOnce = 8 / kVectors;
  // Edges that a warp loads before.
  static constexpr int kLoaded = 2 * kAtOnce;
  static constexpr int kParts = TileFactor<kFactor>::kParts;
  static constexpr int kRows = kGroups * kGroupRows;
  // The first thread beyond those that multiply copies weights. It has a whole group, since only
  // groups can give registers to others.
  static constexpr int kReaders = kGroups * kGroupThreads, kThreads = kReaders + kGroupThreads;
  // Of each thread: two groups need more than a launch gives to all threads alike.
  static constexpr int kReaderRegisters = 240, kFillerRegisters = 24;
  static_assert(kGroups == 1 || kReaders * kReaderRegisters + kGroupThreads * kFillerRegisters <=
                                    kThreads * ((64 << 10) / kThreads / 8 * 8));
  using F = typename TileFactor<kFactor>::F;
  using T = Stored<kFactor>;
  using Tile = assay::Tile<kFactor, kGroups>;
  using Ring = SlotRing<kFactor>;
  static constexpr int kStagedBytes = kReaders / 32 * Staged::kBytes;  // for results

  __device__ static void take_registers() {
#if ASSAY_HAS_WGMMA
    if constexpr (kGroups == 2) assay::take_registers<kReaderRegisters>();
#endif
  }
  __device__ static void give_registers() {
#if ASSAY_HAS_WGMMA
    if constexpr (kGroups == 2) assay::give_registers<kFillerRegisters>();
#endif
  }
};

struct Arguments : ProjectionInputs {
  void *left = nullptr, *right = nullptr, *gate = nullptr;
  int64_t rest = 0;  // [elements] from a factor to its second part
  int tile_depth = 0, depth_slots = 0, side_chunks = 0, gate_chunks = 0, ring_slots = 0;
  int64_t tiles = 0;  // of a batch
};

// The 16 edges of a warp. They have the rows from first_row on in the block's tile, and the
// positions from start + first_row on in their batch.
template <class Plan>
class EdgesOfWarp {
 public:
  using Edge = EdgeValues<Plan::kVectors>;

  __device__ EdgesOfWarp(const Arguments& a, int64_t batch, int64_t start)
      : a_(a),
        first_row_(static_cast<int>(threadIdx.x / 32) * 16),
        batch_(batch),
        start_(start + first_row_) {
    load(0);
  }

  // Writes the rows of the tile, padded with zeros to whole slots.
  __device__ void normalise(uint8_t* tile) {
    Edge weight, bias;
    load_norm(weight, a_.norms->weight);
    load_norm(bias, a_.norms->bias);
    if constexpr (kIsScaled<Plan::kFactor>) {
      const Power scale(a_.scales->xn);
      for_each_value(weight, [&](float& value, int, int) { value = scale(value); });
      for_each_value(bias, [&](float& value, int, int) { value = scale(value); });
    }
    const Channels<Plan::kVectors> channels(a_.in.channels);
    for (int at = 0; at < 16; at += Plan::kLoaded) {
      if (at > 0) load(at);
#pragma unroll
      for (int part = 0; part < kBatches; ++part) {
        float factors[Plan::kAtOnce];
        centre(edges_[part], channels, factors);
#pragma unroll
        for (int i = 0; i < Plan::kAtOnce; ++i) {
          const int row = first_row_ + at + part * Plan::kAtOnce + i;
#pragma unroll
          for (int v = 0; v < Plan::kVectors; ++v) {
            pack_vector<Plan::kFactor>(edges_[part][i], v, factors[i], weight.values[v], bias.values[v],
                                       [&](int of, int channel, const uint2& packed) {
                                         if (channel >= a_.tile_depth) return;
                                         uint8_t* const to = tile + Plan::Tile::offset(row, channel);
                                         *reinterpret_cast<uint2*>(to + of * Plan::Tile::kNext) = packed;
                                       });
          }
        }
      }
    }
  }

  // Writes the mask of each row.
  __device__ void load_masks(float* masks) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
    if (lane >= 16) return;
    masks[first_row_ + lane] = a_.in.mask_of(batch_, a_.in.planes.edge(start_ + lane));
  }

 private:
  static constexpr int kBatches = Plan::kLoaded / Plan::kAtOnce;

  // Loads edges number at .. at + kLoaded - 1.
  __device__ void load(int at) {
#pragma unroll
    for (int i = 0; i < kBatches; ++i) load_edges(edges_[i], a_.in, batch_, start_ + at + i * Plan::kAtOnce);
  }

  const Arguments& a_;
  int first_row_;
  int64_t batch_, start_;
  Edge edges_[kBatches][Plan::kAtOnce];
};

template <class Plan>
__global__ void __launch_bounds__(Plan::kThreads, 1) project_kernel(const __grid_constant__ Arguments a) {
  using F = typename Plan::F;
  using T = typename Plan::T;
  extern __shared__ __align__(16) uint8_t shared[];
  const int tile_bytes = Plan::Tile::bytes(a.in.channels);
  uint8_t* const staged_all = shared + tile_bytes;
  auto* const masks = reinterpret_cast<float*>(staged_all + Plan::kStagedBytes);
  const int64_t in_job = blockIdx.x / a.tiles, batch = a.first_batch + in_job;
  const int64_t start = (blockIdx.x - in_job * a.tiles) * Plan::kRows;
  typename Plan::Ring ring(shared_address(masks + Plan::kRows), a.ring_slots, Plan::Tile::kReaders, a.slots,
                           (2 * a.side_chunks + a.gate_chunks) * a.depth_slots, Plan::kReaders);
  __syncthreads();
  const int group = group_of_thread();
  if (group == Plan::kGroups) {
    Plan::give_registers();
    if (threadIdx.x == Plan::kReaders) ring.fill_all();
    return;
  }
  Plan::take_registers();
  EdgesOfWarp<Plan> warp_edges(a, batch, start);
  warp_edges.load_masks(masks);
  warp_edges.normalise(shared);
  fence_async_proxy();
  synchronize_group(group);

  const int lane = static_cast<int>(threadIdx.x % 32),
            row = static_cast<int>(threadIdx.x / 32) * 16 + lane / 4;
  const float mask[2] = {masks[row], masks[row + 8]};
  const int warp = static_cast<int>(threadIdx.x / 32);
  uint8_t* const staged = staged_all + warp * Staged::kBytes;
  const uint32_t rows = shared_address(shared) + static_cast<uint32_t>(Plan::Tile::group_offset(group));
  const int64_t first_edge = start + warp * kWarpEdges, edges = a.in.planes.plane() - first_edge;
  const StagedLane staged_lane;
  const int64_t offset = in_job * a.in.planes.batch() + first_edge;
  const int64_t of_lane = offset + staged_lane.offset(a.in.planes.plane());
  const int64_t step = StagedLane::kStep * a.in.planes.plane();
  // Writes 64 channels as part kPart of factors. `channels` of them exist. `to` moves on.
  const auto write = [&]<int kPart>(std::integral_constant<int, kPart>, const float(&values)[32], F*& to,
                                    int channels) {
#pragma unroll
    for (int column = 0; column < kStagedHidden; column += kStagedColumns) {
      stage<Plan::kFactor, kPart>(values + column / 2, staged);
      __syncwarp();
      unstage(staged, staged_lane, to, step, channels - column, edges);
      __syncwarp();
    }
  };
  constexpr std::integral_constant<int, 0> kFirst;
  constexpr std::integral_constant<int, 1> kSecond;
  const auto hidden = static_cast<int>(a.in.planes.hidden);

  float sums[64];
  const auto multiply = [&] {
    multiply_tile<Plan::kFactor, Plan::kGroups, 128 * Plan::kVectors>(sums, rows, a.depth_slots, ring);
  };
  for (int side = 0; side < 2; ++side) {
    float factors[2] = {mask[0], mask[1]};
    scale_masks<Plan::kFactor>(factors, a, batch, side);
    const float exponent = to_exponent<Plan::kFactor>(a.scales, 2 + side);
    F* to = static_cast<F*>(side == 0 ? a.left : a.right) + of_lane;
    for (int chunk = 0; chunk < a.side_chunks; ++chunk) {
      multiply();
      float values[32];
      sigmoids<Plan::kFactor>(sums + 32, exponent, values);
#pragma unroll
      for (int i = 0; i < 32; ++i) values[i] = sums[i] * values[i] * factors[i / 2 % 2];
      if constexpr (Plan::kParts == 2) {
        F* second = to + a.rest;
        write(kSecond, values, second, hidden - chunk * kStagedHidden);
      }
      write(kFirst, values, to, hidden - chunk * kStagedHidden);
    }
  }
  const float exponent = to_exponent<Plan::kFactor>(a.scales, 4);
  T* gate = static_cast<T*>(a.gate) +
            (sizeof(T) == 2 ? of_lane : offset + lane % 4 * 2 * a.in.planes.plane() + lane / 4);
  for (int chunk = 0; chunk < a.gate_chunks; ++chunk) {
    multiply();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float values[32];
      sigmoids<Plan::kFactor, kGateExponent<Plan::kFactor>>(sums + 32 * half, exponent, values);
      const int channels = hidden - chunk * kSlotColumns - half * kStagedHidden;
      if constexpr (sizeof(T) == 2) {
        write(kFirst, values, gate, channels);
      } else {
        write_columns(values, gate, a.in.planes.plane(), channels, edges);
      }
    }
  }
}

// [bytes] The shared memory of a block, without the ring.
template <class Plan>
int fixed_bytes(int channels) {
  return Plan::Tile::bytes(channels) + Plan::kStagedBytes + Plan::kRows * 4;
}

template <class Plan>
void launch(const Job<Plan::kFactor>& job, Arguments a, int most_shared) {
  a.tiles = (job.planes.plane() + Plan::kRows - 1) / Plan::kRows;
  const int64_t blocks = a.tiles * job.count;
  if (blocks > INT32_MAX)
    throw unsupported_error("{} blocks of {} edges are more than a grid's {}", blocks, Plan::kRows,
                            INT32_MAX);
  using Ring = typename Plan::Ring;
  const int fixed = fixed_bytes<Plan>(a.in.channels);
  a.ring_slots = std::min((most_shared - fixed) / Ring::bytes(1), 8);
  auto* const kernel = project_kernel<Plan>;
  allow_all_shared_memory(kernel);
  const auto bytes = static_cast<size_t>(fixed + Ring::bytes(a.ring_slots));
  kernel<<<static_cast<unsigned>(blocks), Plan::kThreads, bytes, job.stream>>>(a);
  cuda_check_launch("project_kernel");
}

}  // namespace

template <Format kFactor>
void project(const Job<kFactor>& job) {
  using Traits = TileFactor<kFactor>;
  const Tensors& t = job.tensors;
  const auto channels = static_cast<int>(t.x.shape[3]);
  switch (job.weights.order) {
    case Order::kResident:
      if constexpr (Traits::kParts == 1) return project_resident(job);
      throw Error("factors in two parts are never resident");
    case Order::kStreamed:
      return project_streamed(job);
    case Order::kSlots:
      break;
  }
  const auto hidden = static_cast<int>(job.planes.hidden);
  Arguments a{ProjectionInputs(job)};
  a.left = job.left;
  a.right = job.right;
  a.gate = job.gate;
  a.rest = job.count * job.planes.batch();
  a.depth_slots = (channels + Traits::kSlotDepth - 1) / Traits::kSlotDepth;
  a.tile_depth = a.depth_slots * Traits::kSlotDepth;
  a.side_chunks = (hidden + kStagedHidden - 1) / kStagedHidden;
  a.gate_chunks = (hidden + kSlotColumns - 1) / kSlotColumns;
  const int most_shared = most_shared_memory();
  using Ring = SlotRing<kFactor>;
  if constexpr (Traits::kParts == 2) {
    if (channels <= 384) return launch<Plan<kFactor, 2, 3>>(job, a, most_shared);
  } else if (fixed_bytes<Plan<kFactor, 2, 6>>(channels) + Ring::bytes(3) <= most_shared) {
    return launch<Plan<kFactor, 2, 6>>(job, a, most_shared);
  }
  if (fixed_bytes<Plan<kFactor, 1, 6>>(channels) + Ring::bytes(kLeastSlots) <= most_shared) {
    launch<Plan<kFactor, 1, 6>>(job, a, most_shared);
  } else {
    throw unsupported_error("c={} needs more shared memory than {} bytes", channels, most_shared);
  }
}

template void project(const Job<Format::kF16>&);
template void project(const Job<Format::kBF16>&);
template void project(const Job<Format::kF16x3>&);

}  // namespace assay::trimul
