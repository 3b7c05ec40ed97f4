// SPDX-License-Identifier: Apache-2.0
// The first kernel of trimul for more channels than cuda_project_resident.cu serves, and for
// factors in two parts.
//
// Blocks are persistent. Four warps normalise x and write xn as rows to shared memory. Two
// warpgroups multiply: each has a tile of 64 edges, which it keeps in registers while the weights
// of all projections pass by in a ring of slots (cuda_streamed.cuh). So the next tiles are made
// meanwhile. One warp has the weights copied. Two blocks form a cluster, in which each copies half
// of a slot to both.
//
// The groups take turns: while one multiplies a set of columns, the other computes sigmoids. Results
// leave through shared memory, as boxes of 64 edges.
#include <algorithm>
#include <cstdint>

#include "kernels/core_cuda/bulk_copy.cuh"
#include "kernels/core_cuda/cluster.cuh"
#include "kernels/core_cuda/cuda_check.h"
#include "kernels/core_cuda/limits.h"
#include "kernels/core_cuda/mbarrier.cuh"
#include "kernels/core_cuda/shared_memory.cuh"
#include "kernels/trimul/cuda_boxes.cuh"
#include "kernels/trimul/cuda_edges.cuh"
#include "kernels/trimul/cuda_gates.cuh"
#include "kernels/trimul/cuda_plan.cuh"
#include "kernels/trimul/cuda_stage.cuh"
#include "kernels/trimul/cuda_streamed.cuh"

namespace assay::trimul {
namespace {

constexpr int kCluster = 2;
constexpr int kGroups = 2;                               // warpgroups that multiply
constexpr int kThreads = (kGroups + 2) * kGroupThreads;  // and those that normalise and copy
constexpr int kWarps = kGroupThreads / 32;               // of a group
constexpr int kWarpRows = kGroupRows / kWarps;

// kDepthSlots is the number of slots along the depth.
template <Format kFactor_, int kDepthSlots_>
struct Plan {
  static constexpr Format kFactor = kFactor_;
  static constexpr int kDepthSlots = kDepthSlots_;
  using Traits = TileFactor<kFactor>;
  using F = typename Traits::F;
  using Slot = SetSlot<kFactor>;
  using Gate = Stored<kFactor>;
  static constexpr int kParts = Traits::kParts;
  static constexpr int kDepth = kDepthSlots * Slot::kDepth;
  static constexpr int kSteps = kDepth / kStepDepth, kSlotSteps = Slot::kDepth / kStepDepth;
  using Fragments = uint32_t[kParts][kSteps][4];

  // A warp that normalises has so many edges side by side, and loads so many times as many before.
  static constexpr int kVectors = (kDepth + 127) / 128;
  static constexpr int kAtOnce = 4;
  static constexpr int kAhead = kVectors == 1 ? 4 : 2;

  // The channels of a set of left or right, in all parts.
  using Boxes = trimul::Boxes<3, kParts * kSetChannels * kBoxRowBytes, kParts>;

  // The shared memory of a block: places of boxes, the norm of x, rows and masks of both tiles,
  // slots, barriers. The rows of eight edges begin in different banks.
  static constexpr int kNorm = kGroups * Boxes::kAllBytes;
  static constexpr int kNormFloats = kVectors * 128;  // weights, then as many biases
  static constexpr int kPartBytes = kDepth * int{sizeof(F)}, kRowBytes = kParts * kPartBytes + 16;
  static constexpr int kRows = kNorm + 2 * kNormFloats * int{sizeof(float)};
  static constexpr int kMasks = kRows + kGroups * kGroupRows * kRowBytes;
  static constexpr int kFixed = kMasks + kGroups * kGroupRows * int{sizeof(float)};
  static constexpr int kBarriersOfGroups = kGroups * 3 * 8;
  static constexpr int kSlots = std::min((kMostShared - kFixed - kBarriersOfGroups) / (Slot::kBytes + 16), 8);
  static constexpr int kBarriers = kFixed + kSlots * Slot::kBytes;
  static constexpr int kShared = kBarriers + kSlots * 16 + kBarriersOfGroups;
  static_assert(kSlots > kDepthSlots, "one group can be ahead of the other");
};

struct Arguments {
  CUtensorMap left, right, gate;
  void* gates;  // the same as `gate`
  InputEdges in;
  const PackedNorms* norms;
  const uint8_t* slots;
  const Scales* scales;
  const SideScales* sides;
  int64_t sides_step;
  Sets sets;
  Tiles<kGroups> tiles;
  int64_t first_batch, batches;
};

#if ASSAY_HAS_WGMMA

// Each block goes through the weights as often, even if no tile is left for it.
__device__ inline uint32_t rounds(const Arguments& a) {
  return (a.tiles.all + Tiles<kGroups>::step() - 1) / Tiles<kGroups>::step();
}

// The tile of a group in a round. If none is left, it is the last one, whose results are dropped.
struct TileOfRound {
  bool exists;
  uint32_t in_job, start;  // batch and first edge

  __device__ TileOfRound(const Arguments& a, uint32_t round, int group) {
    const uint32_t number = Tiles<kGroups>::first(group) + round * Tiles<kGroups>::step();
    exists = number < a.tiles.all;
    const uint32_t tile = min(number, a.tiles.all - 1);
    in_job = tile / a.tiles.of_batch;
    start = tile % a.tiles.of_batch * kGroupRows;
  }
};

// The barriers of a block, and the place of a thread in the ring of slots.
template <class Plan>
struct Ring {
  uint32_t address;  // of the shared memory
  int at = 0;
  uint32_t phase = 0;

  __device__ uint32_t slot() const {
    return address + static_cast<uint32_t>(Plan::kFixed + at * Plan::Slot::kBytes);
  }
  __device__ uint32_t full(int slot) const {
    return address + static_cast<uint32_t>(Plan::kBarriers + slot * 16);
  }
  __device__ uint32_t empty(int slot) const { return full(slot) + 8; }
  // Of the rows of a group.
  __device__ uint32_t rows_full(int group) const {
    return full(Plan::kSlots) + static_cast<uint32_t>(group * 24);
  }
  __device__ uint32_t rows_empty(int group) const { return rows_full(group) + 8; }
  // Completes when it is the group's turn to multiply.
  __device__ uint32_t turn(int group) const { return rows_full(group) + 16; }

  __device__ void advance() {
    if (++at < Plan::kSlots) return;
    at = 0;
    phase ^= 1;
  }
  __device__ void make_barriers() const {
    for (int slot = 0; slot < Plan::kSlots; ++slot) {
      make_barrier(full(slot), 1);
      make_barrier(empty(slot), kGroups * kWarps * kCluster);
    }
    for (int group = 0; group < kGroups; ++group) {
      make_barrier(rows_full(group), kWarps);
      make_barrier(rows_empty(group), kWarps);
      make_barrier(turn(group), kWarps);
    }
    fence_barriers();
  }
};

// A warp calls it: one of its threads arrives, when all are done with what came before.
__device__ inline void arrive_as_warp(uint32_t barrier) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) arrive(barrier);
}

// One thread calls it. It copies its half of all slots, as they become free in both blocks.
template <class Plan>
__device__ void copy_weights(const Arguments& a, Ring<Plan> ring) {
  constexpr uint32_t kBytes = Plan::Slot::kBytes, kShare = kBytes / kCluster;
  const uint32_t offset = static_cast<uint32_t>(cluster_rank()) * kShare;
  const int slots = a.sets.all() * Plan::kDepthSlots;
  for (uint32_t round = 0; round < rounds(a); ++round) {
    for (int slot = 0; slot < slots; ++slot) {
      const uint32_t full = ring.full(ring.at);
      wait_for_phase(ring.empty(ring.at), ring.phase ^ 1);
      arrive_with_copies(full, kBytes);
      copy_bulk_to_cluster<kCluster>(ring.slot() + offset, a.slots + slot * int64_t{kBytes} + offset, kShare,
                                     full);
      ring.advance();
    }
  }
}

// A warp calls it: it makes its 16 rows of the tiles of both groups in turn.
template <class Plan>
__device__ void make_rows(const Arguments& a, const Ring<Plan>& ring, uint8_t* shared) {
  const int lane = static_cast<int>(threadIdx.x % 32),
            first_row = static_cast<int>(threadIdx.x / 32 % kWarps) * kWarpRows;
  const Channels<Plan::kVectors> channels(a.in.channels);
  const auto* const norm = reinterpret_cast<const float*>(shared + Plan::kNorm);
  EdgeValues<Plan::kVectors> edges[Plan::kAhead][Plan::kAtOnce];
  const uint32_t count = rounds(a) * kGroups;
  const auto tile_of = [&](uint32_t number) {
    return TileOfRound(a, number / kGroups, static_cast<int>(number % kGroups));
  };
  const auto load = [&](EdgeValues<Plan::kVectors>(&to)[Plan::kAtOnce], const TileOfRound& tile, int row) {
    load_edges(to, a.in, a.first_batch + tile.in_job, int64_t{tile.start} + first_row + row);
  };
#pragma unroll
  for (int i = 0; i < Plan::kAhead; ++i) load(edges[i], tile_of(0), i * Plan::kAtOnce);
  for (uint32_t number = 0; number < count; ++number) {
    const int group = static_cast<int>(number % kGroups);
    const TileOfRound tile = tile_of(number), next = tile_of(min(number + 1, count - 1));
    wait_for_phase(ring.rows_empty(group), number / kGroups % 2 ^ 1);
    if (lane < kWarpRows) {
      auto* const masks = reinterpret_cast<float*>(shared + Plan::kMasks) + group * kGroupRows;
      masks[first_row + lane] =
          a.in.mask_of(a.first_batch + tile.in_job, a.in.planes.edge(int64_t{tile.start} + first_row + lane));
    }
    uint8_t* const rows = shared + Plan::kRows + (group * kGroupRows + first_row) * Plan::kRowBytes;
    for (int row = 0; row < kWarpRows; row += Plan::kAhead * Plan::kAtOnce) {
#pragma unroll
      for (int i = 0; i < Plan::kAhead; ++i) {
        const int at = row + i * Plan::kAtOnce;
        float factors[Plan::kAtOnce];
        centre(edges[i], channels, factors);
        EdgeValues<Plan::kVectors> weight, bias;
        load_norm(weight, norm);
        load_norm(bias, norm + Plan::kNormFloats);
#pragma unroll
        for (int e = 0; e < Plan::kAtOnce; ++e) {
          pack_edge<Plan::kFactor>(
              edges[i][e], factors[e], weight, bias, [&](int part, int channel, const uint2& packed) {
                if (channel >= Plan::kDepth) return;
                *reinterpret_cast<uint2*>(rows + (at + e) * Plan::kRowBytes + part * Plan::kPartBytes +
                                          channel * int{sizeof(typename Plan::F)}) = packed;
              });
        }
        const int ahead = at + Plan::kAhead * Plan::kAtOnce;
        load(edges[i], ahead < kWarpRows ? tile : next, ahead % kWarpRows);
      }
    }
    arrive_as_warp(ring.rows_full(group));
  }
}

// A warpgroup's rows as fragments.
template <class Plan>
__device__ void load_fragments(typename Plan::Fragments& fragments, uint32_t rows) {
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32 % kWarps);
  // Matrices of a step: rows 0 .. 7, rows 8 .. 15, then the same for the next eight channels.
  const uint32_t from = rows + static_cast<uint32_t>((kWarpRows * warp + lane % 16) * Plan::kRowBytes) +
                        static_cast<uint32_t>(lane / 16 * 16);
#pragma unroll
  for (int part = 0; part < Plan::kParts; ++part) {
#pragma unroll
    for (int s = 0; s < Plan::kSteps; ++s) {
      load_rows(fragments[part][s],
                from + static_cast<uint32_t>(part * Plan::kPartBytes) +
                    static_cast<uint32_t>(s * kStepDepth * int{sizeof(typename Plan::F)}));
    }
  }
}

// Each warp that reads slots calls it when it is done with a slot. It tells both blocks.
template <class Plan>
__device__ void free_slot(const Ring<Plan>& ring, int slot) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  if (lane < kCluster) arrive_at_block(ring.empty(slot), lane);
}

// A warpgroup calls it when it is its turn, and ends its turn: the product of its rows with the
// next set of columns.
template <class Plan>
__device__ void multiply_set(float (&sums)[32], const typename Plan::Fragments& fragments, int group,
                             Ring<Plan>& ring) {
  using Traits = typename Plan::Traits;
  constexpr uint32_t kNext = Plan::Slot::kNext;
  int last = 0;
#pragma unroll
  for (int slot = 0; slot < Plan::kDepthSlots; ++slot) {
    wait_for_phase(ring.full(ring.at), ring.phase);
    const uint64_t columns =
        SharedFactor{ring.slot(), Plan::kParts * kNext, Traits::kBlockBytes}.descriptor();
    wgmma_begin();
#pragma unroll
    for (int k = 0; k < Plan::kSlotSteps; ++k) {
      const int step = slot * Plan::kSlotSteps + k, on_top = step > 0 ? 1 : 0;
      const uint64_t column = moved(columns, static_cast<uint32_t>(k * 2 * Plan::kParts) * kNext);
      if constexpr (Plan::kParts == 2) {
        wgmma<typename Plan::F>(sums, fragments[1][step], column, on_top);
        wgmma<typename Plan::F>(sums, fragments[0][step], moved(column, kNext), 1);
        wgmma<typename Plan::F>(sums, fragments[0][step], column, 1);
      } else {
        wgmma<typename Plan::F>(sums, fragments[0][step], column, on_top);
      }
    }
    wgmma_commit();
    // The other group needs a while to begin.
    if (slot == std::max(Plan::kDepthSlots - 2, 0)) arrive_as_warp(ring.turn(1 - group));
    if (slot > 0) {
      wgmma_wait<1>();
      free_slot(ring, last);
    }
    last = ring.at;
    ring.advance();
  }
  wgmma_wait<0>();
  keep_in_place(sums);
  free_slot(ring, last);
}

template <class Plan>
__device__ void project_tiles(const Arguments& a, Ring<Plan> ring, const uint8_t* shared, int group) {
  constexpr Format kFactor = Plan::kFactor;
  const int lane = static_cast<int>(threadIdx.x % 32),
            row = static_cast<int>(threadIdx.x / 32 % kWarps) * kWarpRows + lane / 4;
  const auto* const masks = reinterpret_cast<const float*>(shared + Plan::kMasks) + group * kGroupRows + row;
  const uint32_t rows =
      ring.address + static_cast<uint32_t>(Plan::kRows + group * kGroupRows * Plan::kRowBytes);
  typename Plan::Boxes boxes(ring.address + static_cast<uint32_t>(group * Plan::Boxes::kAllBytes), group);
  uint32_t turn_phase = group == 0 ? 1 : 0;  // group 0 begins
  typename Plan::Fragments fragments;
  float sums[32];
  const auto multiply = [&] {
    wait_for_phase(ring.turn(group), turn_phase);
    turn_phase ^= 1;
    multiply_set<Plan>(sums, fragments, group, ring);
  };
  for (uint32_t round = 0; round < rounds(a); ++round) {
    const TileOfRound tile(a, round, group);
    const int start = static_cast<int>(tile.start), in_job = static_cast<int>(tile.in_job);
    wait_for_phase(ring.rows_full(group), round % 2);
    load_fragments<Plan>(fragments, rows);
    const float mask[2] = {masks[0], masks[8]};
    arrive_as_warp(ring.rows_empty(group));
    for (int side = 0; side < 2; ++side) {
      float factors[2] = {mask[0], mask[1]};
      scale_masks<kFactor>(factors, a, a.first_batch + tile.in_job, side);
      const float exponent = to_exponent<kFactor>(a.scales, 2 + side);
      const CUtensorMap& map = side == 0 ? a.left : a.right;
      for (int set = 0; set < a.sets.side; ++set) {
        multiply();
        float values[16];
        gate_projections<kFactor>(sums, exponent, factors, values);
        boxes.template put<kFactor, 0>(values, 0);
        if constexpr (Plan::kParts == 2) boxes.template put<kFactor, 1>(values, kSetChannels);
        boxes.end([&](uint32_t place) {
          for (int part = 0; part < Plan::kParts && tile.exists; ++part) {
            copy_box_out(map, {start, set * kSetChannels, in_job + part * static_cast<int>(a.batches)},
                         place + static_cast<uint32_t>(part * kSetChannels * kBoxRowBytes));
          }
        });
      }
    }
    const float exponent = to_exponent<kFactor>(a.scales, 4);
    for (int set = 0; set < a.sets.gate; ++set) {
      multiply();
      const int channel = set * kSetColumns;
      if constexpr (sizeof(typename Plan::Gate) == 2) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float values[16];
          sigmoids<kFactor, kGateExponent<kFactor>>(sums + 16 * half, exponent, values);
          boxes.template put<kFactor>(values, 0);
          boxes.end([&](uint32_t place) {
            if (tile.exists) copy_box_out(a.gate, {start, channel + half * kSetChannels, in_job}, place);
          });
        }
      } else {
        float values[32];
        sigmoids<kFactor, kGateExponent<kFactor>>(sums, exponent, values);
        const int64_t plane = a.in.planes.plane(), first = start + row - lane / 4;
        float* gate = static_cast<float*>(a.gates) + in_job * a.in.planes.batch() +
                      (channel + lane % 4 * 2) * plane + start + row;
        write_columns(values, gate, plane, static_cast<int>(a.in.planes.hidden) - channel,
                      tile.exists ? plane - first : 0);
      }
    }
  }
  boxes.finish();
}

#endif  // ASSAY_HAS_WGMMA

template <class Plan>
__global__ void __launch_bounds__(kThreads, 1) project_streamed_kernel(const __grid_constant__ Arguments a) {
#if ASSAY_HAS_WGMMA
  extern __shared__ __align__(kBoxAlignment) uint8_t shared[];
  const Ring<Plan> ring{shared_address(shared)};
  if (threadIdx.x == 0) ring.make_barriers();
  auto* const norm = reinterpret_cast<float*>(shared + Plan::kNorm);
  for (int i = static_cast<int>(threadIdx.x); i < 2 * Plan::kNormFloats; i += kThreads) {
    const int channel = i % Plan::kNormFloats;
    float value = i < Plan::kNormFloats ? a.norms->weight[channel] : a.norms->bias[channel];
    if constexpr (kIsScaled<Plan::kFactor>) value = Power(a.scales->xn)(value);
    norm[i] = value;
  }
  cluster_arrive();
  cluster_wait();
  const int group = group_of_thread();
  if (group < kGroups) {
    take_registers<160>();
    project_tiles<Plan>(a, ring, shared, group);
  } else if (group == kGroups) {
    take_registers<168>();
    make_rows<Plan>(a, ring, shared);
  } else {
    give_registers<24>();
    if (threadIdx.x % kGroupThreads == 0) copy_weights<Plan>(a, ring);
  }
  // Until then the other block may still free slots of this one.
  cluster_arrive();
  cluster_wait();
#else
  __trap();  // the host offers this kernel only on devices that serve it
#endif
}

template <class Plan>
void launch(const Job<Plan::kFactor>& job, const Arguments& a) {
  const int64_t tiles = a.tiles.all, of_cluster = kGroups * kCluster;
  const int64_t clusters =
      std::clamp<int64_t>(std::min<int64_t>(job.multiprocessors / kCluster, kMostBlocks.value()), 1,
                          (tiles + of_cluster - 1) / of_cluster);
  launch_clusters({.name = "project_streamed_kernel",
                   .compute_capability = 90,
                   .size = kCluster,
                   .threads = kThreads,
                   .shared_bytes = Plan::kShared,
                   .stream = job.stream},
                  project_streamed_kernel<Plan>, clusters, a);
}

}  // namespace

template <Format kFactor>
void project_streamed(const Job<kFactor>& job) {
  using Slot = SetSlot<kFactor>;
  constexpr int kParts = TileFactor<kFactor>::kParts;
  Arguments a{.left = map_of_edges(job, job.left, kSetChannels, kParts),
              .right = map_of_edges(job, job.right, kSetChannels, kParts),
              .gate = {},
              .gates = job.gate,
              .in = InputEdges(job.tensors, job.planes),
              .norms = job.weights.norms,
              .slots = job.weights.projections,
              .scales = job.weights.scales,
              .sides = job.sides,
              .sides_step = job.sides_step,
              .sets = Sets(job.planes.hidden),
              .tiles = Tiles<kGroups>(job),
              .first_batch = job.first,
              .batches = job.count};
  if constexpr (sizeof(Stored<kFactor>) == 2) a.gate = map_of_edges(job, job.gate, kSetChannels);
  if (a.in.channels <= Slot::kDepth) return launch<Plan<kFactor, 1>>(job, a);
  if (a.in.channels <= 2 * Slot::kDepth) return launch<Plan<kFactor, 2>>(job, a);
  if constexpr (kParts == 1) launch<Plan<kFactor, 3>>(job, a);
}

template void project_streamed(const Job<Format::kF16>&);
template void project_streamed(const Job<Format::kBF16>&);
template void project_streamed(const Job<Format::kF16x3>&);

}  // namespace assay::trimul
