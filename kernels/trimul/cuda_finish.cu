// SPDX-License-Identifier: Apache-2.0
// The last kernel of trimul, unless to_out stays in shared memory (cuda_finish_resident.cu). It
// serves no or more than 128 hidden channels, and planes of more than 2^31 - 1 positions. It reads
// hidden and the gate of 64 edges in whole lines, eight channels of eight edges to a thread. It
// normalises hidden over the channels, multiplies it by the gate, and puts the result into shared
// memory as a tile of z. Then it multiplies the tile with to_out.
#include <algorithm>
#include <cstdint>

#include "kernels/core_cuda/cuda_check.h"
#include "kernels/core_cuda/packed.cuh"
#include "kernels/core_cuda/shared_memory.cuh"
#include "kernels/trimul/cuda_deviation.cuh"
#include "kernels/trimul/cuda_hidden.cuh"
#include "kernels/trimul/cuda_out.cuh"
#include "kernels/trimul/cuda_plan.cuh"

namespace assay::trimul {
namespace {

// A block is one group of 64 edges.
template <Format kFactor_>
struct Plan {
  static constexpr Format kFactor = kFactor_;
  static constexpr int kBlocks = kMostHidden / 128;  // of 128 hidden channels
  static_assert(kMostHidden % 128 == 0, "whole blocks");
  static constexpr bool kIsScaled = trimul::kIsScaled<kFactor>;
  static constexpr int kParts = TileFactor<kFactor>::kParts;
  using T = Stored<kFactor>;
  using Tile = assay::Tile<kFactor, 1>;
  // The gate is loaded together with hidden if there are registers for it.
  static constexpr bool kGateAhead = sizeof(T) == 2;
};

// The warps of a block exchange, for its 64 edges: sums, sums of squares, and scaled sums of
// squares.
constexpr int kExchangeBytes = kGroupRows * 3 * 4 * int{sizeof(float)};

struct Arguments : FinishInputs {
  const void *hidden = nullptr, *gate = nullptr;
  int tile_depth = 0, depth_slots = 0, ring_slots = 0;
  int64_t tiles = 0;  // of a batch
};

// The row of the tile that has edge e of the threads with threadIdx.x % 8 = thread. Neighbouring
// threads write side by side.
__device__ inline int row_of(int thread, int e) {
  return 8 * e + thread;
}

// Writes the tile. Where a product is added it says whether by fmaf(): a compiler that may choose
// does so for each of the eight edges anew, and the bits of a row would depend on its position.
template <class Plan>
__device__ void make_z(const Arguments& a, int64_t in_job, int64_t first_edge,
                       const Eight<typename Plan::T>& first_values, const Values<Plan>& hidden_values,
                       Values<Plan>& gate_values, uint8_t* tile, float* exchange) {
  const int thread = static_cast<int>(threadIdx.x % 8), first_channel = Values<Plan>::channel(0);
  const auto hidden_channels = static_cast<int>(a.planes.hidden);
  const auto& hidden = hidden_values.values;
  const auto& gate = gate_values.values;
  float first[8], sums[8] = {}, squares[8] = {}, mean[8], factor[8];
#pragma unroll
  for (int e = 0; e < 8; ++e) first[e] = first_values[e];
  const auto for_each = [&](auto visit) {
#pragma unroll
    for (int block = 0; block < Plan::kBlocks; ++block) {
      // Channels from the first one on.
      const int count = hidden_channels - 128 * block - first_channel;
      const auto visit_channel = [&](int c) {
#pragma unroll
        for (int e = 0; e < 8; ++e) visit(e, hidden[block][c][e] - first[e]);
      };
      if (count >= 8) {
#pragma unroll
        for (int c = 0; c < 8; ++c) visit_channel(c);
      } else {
#pragma unroll
        for (int c = 0; c < 7; ++c) {
          if (c < count) visit_channel(c);
        }
      }
    }
  };
  for_each([&](int e, float deviation) { sums[e] += deviation; });
  add_up(sums, exchange);
  // Without channels, z is 0 * 0 * 0 + 0.
  const float share = 1.0f / static_cast<float>(max(hidden_channels, 1));
#pragma unroll
  for (int e = 0; e < 8; ++e) {
    if constexpr (kIsMeanOneNumber<Plan::kFactor>) {
      first[e] = fmaf(sums[e], share, first[e]);
      mean[e] = 0;
    } else {
      mean[e] = __fmul_rn(sums[e], share);
    }
  }
  const auto add_squares = [&](float(&to)[8], float scale, float* shared) {
    for_each([&](int e, float deviation) {
      const float scaled = (deviation - mean[e]) * scale;
      to[e] = fmaf(scaled, scaled, to[e]);
    });
    add_up(to, shared);
  };
  add_squares(squares, 1.0f, exchange + 4 * kGroupRows);
  float rest = 1;
  Power z_scale(0);
  if constexpr (Plan::kIsScaled) {
    const SideScales sides = a.sides[(a.first_batch + in_job) * a.sides_step];
    const DeviationScale deviations(sides.left + sides.right - a.contraction_shift);
#pragma unroll
    for (int e = 0; e < 8; ++e) factor[e] = deviations.factor(squares[e], share);
    // z is stored times 2^z. It is computed from a gate that is stored times 2^kGateExponent.
    z_scale = Power(a.scales->z - kGateExponent<Plan::kFactor>);
    rest = deviations.rest.second;
  } else {
    bool has_large = false;
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      factor[e] = reciprocal_deviation(squares[e], share, 1.0f);
      has_large |= is_large(squares[e]);
    }
    if (__syncthreads_or(has_large)) {
      float scaled_squares[8] = {};
      add_squares(scaled_squares, kScaleOfLarge, exchange + 8 * kGroupRows);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        if (is_large(squares[e])) factor[e] = reciprocal_deviation(scaled_squares[e], share, kScaleOfLarge);
      }
    }
  }
  if constexpr (!Plan::kGateAhead) gate_values.load({a.gate, a.planes, in_job, first_edge}, a.planes);

#pragma unroll
  for (int block = 0; block < Plan::kBlocks; ++block) {
    const int base = 128 * block + first_channel;
    if (base >= a.tile_depth) continue;
    float weight[8], bias[8];
#pragma unroll
    for (int c = 0; c < 8; c += 4) {
      *reinterpret_cast<float4*>(weight + c) =
          __ldg(reinterpret_cast<const float4*>(a.norms->out_weight + base + c));
      *reinterpret_cast<float4*>(bias + c) =
          __ldg(reinterpret_cast<const float4*>(a.norms->out_bias + base + c));
    }
    if constexpr (Plan::kIsScaled) {
#pragma unroll
      for (int c = 0; c < 8; ++c) {
        weight[c] = z_scale(weight[c]) * rest;
        bias[c] = z_scale(bias[c]);
      }
    }
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      float z[8];
#pragma unroll
      for (int c = 0; c < 8; ++c) {
        const float deviation = hidden[block][c][e] - first[e] - mean[e];
        // 0 beyond the last channel, where weight and bias are 0
        z[c] = fmaf(deviation * factor[e], weight[c], bias[c]) * gate[block][c][e];
      }
      uint8_t* const to = tile + Plan::Tile::offset(row_of(thread, e), base);
      const auto store = [&]<int kPart>(std::integral_constant<int, kPart>) {
        const auto pack = [&](int c) { return pack_part<Plan::kFactor, kPart>(z[c], z[c + 1]); };
        *reinterpret_cast<uint4*>(to + kPart * Plan::Tile::kNext) = {pack(0), pack(2), pack(4), pack(6)};
      };
      store(std::integral_constant<int, 0>{});
      if constexpr (Plan::kParts == 2) store(std::integral_constant<int, 1>{});
    }
  }
}

template <class Plan>
__global__ void __launch_bounds__(kGroupThreads) finish_kernel(const __grid_constant__ Arguments a) {
  extern __shared__ __align__(16) uint8_t shared[];
  auto* const exchange = reinterpret_cast<float*>(shared + Plan::Tile::bytes(a.tile_depth));
  const int64_t in_job = blockIdx.x / a.tiles;
  const int64_t first_edge = (blockIdx.x - in_job * a.tiles) * kGroupRows;
  // These loads start before one thread sets up the ring, for which the others wait.
  using Values = Values<Plan>;
  using Edges = EdgesOfThread<typename Plan::T>;
  const Edges hidden_edges(a.hidden, a.planes, in_job, first_edge);
  Values hidden, gate;
  hidden.load(hidden_edges, a.planes);
  Eight<typename Plan::T> first{};  // of each edge, for all threads with channels of it
  if (a.planes.hidden > 0) first = hidden_edges.load(0);
  if constexpr (Plan::kGateAhead) gate.load({a.gate, a.planes, in_job, first_edge}, a.planes);
  SlotRing<Plan::kFactor> ring(shared_address(exchange) + kExchangeBytes, a.ring_slots, Plan::Tile::kReaders,
                               a.slots, a.chunks * a.depth_slots);
  make_z<Plan>(a, in_job, first_edge, first, hidden, gate, shared, exchange);
  fence_async_proxy();
  __syncthreads();

  const int lane = static_cast<int>(threadIdx.x % 32);
  float* rows[2];  // of out
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = static_cast<int>(threadIdx.x / 32) * 16 + lane / 4 + 8 * half;
    const int64_t position = first_edge + Edges::number(row % 8, row / 8);  // see row_of
    rows[half] = a.out.row(a.first_batch + in_job, a.planes.edge(position));
  }
  Power unscale(0);
  if constexpr (Plan::kIsScaled) unscale = Power(-a.scales->z - a.scales->weights[5]);
  float sums[64];
  for (int chunk = 0; chunk < a.chunks; ++chunk) {
    multiply_tile<Plan::kFactor, 1, 128 * Plan::kBlocks>(sums, shared_address(shared), a.depth_slots, ring);
    ring.refill();
    a.out.write<Plan::kFactor>(sums, unscale, rows, chunk * kSlotColumns);
  }
}

template <class Plan>
void launch(const Job<Plan::kFactor>& job, Arguments a) {
  a.tiles = (job.planes.plane() + kGroupRows - 1) / kGroupRows;
  const int64_t blocks = a.tiles * job.count;
  if (blocks > INT32_MAX)
    throw unsupported_error("{} blocks of {} edges are more than a grid's {}", blocks, kGroupRows, INT32_MAX);
  const int fixed = Plan::Tile::bytes(a.tile_depth) + kExchangeBytes;
  const int most_shared = most_shared_memory();
  using Ring = SlotRing<Plan::kFactor>;
  a.ring_slots = std::min((most_shared - fixed) / Ring::bytes(1), 2 * Plan::kParts);
  if (a.ring_slots < kLeastSlots) {
    throw unsupported_error("h={} needs more shared memory than {} bytes", job.planes.hidden, most_shared);
  }
  auto* const kernel = finish_kernel<Plan>;
  allow_all_shared_memory(kernel);
  const auto bytes = static_cast<size_t>(fixed + Ring::bytes(a.ring_slots));
  kernel<<<static_cast<unsigned>(blocks), kGroupThreads, bytes, job.stream>>>(a);
  cuda_check_launch("finish_kernel");
}

}  // namespace

template <Format kFactor>
void finish(const Job<kFactor>& job) {
  using Traits = TileFactor<kFactor>;
  if (finish_resident(job)) return;
  Arguments a{FinishInputs(job)};
  a.hidden = job.hidden;
  a.gate = job.gate;
  // Without hidden channels, z is 0.
  a.tile_depth = static_cast<int>(depth_of_out(job.planes.hidden));
  a.depth_slots = a.tile_depth / Traits::kSlotDepth;
  launch<Plan<kFactor>>(job, a);
}

template void finish(const Job<Format::kF16>&);
template void finish(const Job<Format::kBF16>&);
template void finish(const Job<Format::kF16x3>&);

}  // namespace assay::trimul
