// SPDX-License-Identifier: Apache-2.0
// The pairwise product of trimul for factors in two parts. A block computes all three products of a
// tile and then writes hidden.
//
// Blocks are persistent and take tiles of 128 rows one after the other. One warp of a block has
// boxes of both factors copied into a ring in shared memory; it already copies those of the next
// tile while this one is written. Two warpgroups multiply 64 rows each. Two blocks form a cluster.
// They take consecutive tiles, most of which lie below each other. Then each block copies half of
// what both need of `right`.
//
// First the sums of rest * first and of first * rest are computed and added, then first * first is
// added to them. So left and right are exchangeable. Meanwhile the finished sums are kept in
// hidden, where the result will be: the former sums while first * first is computed, and each
// finished part of first * first while the next part is computed (terms_at_once()).
#include <algorithm>
#include <cstdint>

#include "kernels/core_cuda/bulk_copy.cuh"
#include "kernels/core_cuda/cluster.cuh"
#include "kernels/core_cuda/cuda_check.h"
#include "kernels/core_cuda/limits.h"
#include "kernels/core_cuda/mbarrier.cuh"
#include "kernels/core_cuda/shared_memory.cuh"
#include "kernels/core_cuda/tensor_copy.cuh"
#include "kernels/core_cuda/tensor_map.h"
#include "kernels/core_cuda/wgmma.cuh"
#include "kernels/trimul/cuda_plan.cuh"

namespace assay::trimul {
namespace {

constexpr int kCluster = 2;
constexpr int kGroups = 2;  // warpgroups that multiply
constexpr int kTileRows = kGroups * kGroupRows;
constexpr int kThreads = kGroups * kGroupThreads + 32;
constexpr int kDepth = kBoxRowBytes / int{sizeof(float)};  // of the summed dimension in a slot

template <int kColumns_>
struct Plan {
  static constexpr int kColumns = kColumns_;               // of a tile
  static constexpr int kBlocks = kColumns == 256 ? 1 : 2;  // on a multiprocessor
  static constexpr int kSlots = kColumns == 256 ? 4 : 3;
  static constexpr int kLeftBytes = kTileRows * kBoxRowBytes;
  static constexpr int kSlotBytes = kLeftBytes + kColumns * kBoxRowBytes;
  // The rows of a warpgroup are written as boxes of kDepth columns, from these places in turn.
  static constexpr int kPlaces = kColumns == 256 ? 2 : 1;
  static constexpr int kBoxBytes = kGroupRows * kBoxRowBytes;
  static constexpr int kShared = kSlots * (kSlotBytes + 16) + kGroups * kPlaces * kBoxBytes;
  using Sums = float[kColumns / 2];  // of a thread
};

struct Arguments {
  CUtensorMap left, right, hidden;
  float* sums;  // hidden
  int64_t nodes, pitch, tiles;
  int rows_of_tiles, columns_of_tiles;  // of a plane
  int steps;                            // slots along the summed dimension
  int steps_at_once;                    // the most steps in a part of first * first
  int rest;                             // [planes] from a factor to its rest
};

// Where a tile begins. Consecutive tiles lie below each other, then side by side, then in the next
// plane.
template <class Plan>
struct Tile {
  int plane, row, column;

  __device__ Tile(const Arguments& a, int64_t number) {
    const auto all = static_cast<uint32_t>(number), rows = static_cast<uint32_t>(a.rows_of_tiles);
    row = static_cast<int>(all % rows) * kTileRows;
    column = static_cast<int>(all / rows % static_cast<uint32_t>(a.columns_of_tiles)) * Plan::kColumns;
    plane = static_cast<int>(all / rows / static_cast<uint32_t>(a.columns_of_tiles));
  }
};

// The shared memory of a block, from a multiple of kBoxAlignment on: slots with boxes of both
// factors, places of boxes to be written, barriers.
template <class Plan>
struct Ring {
  uint32_t address;
  int at = 0;
  uint32_t phase = 0;

  __device__ uint32_t slot() const { return address + static_cast<uint32_t>(at * Plan::kSlotBytes); }
  __device__ uint32_t place(int group, int number) const {
    return address + static_cast<uint32_t>(Plan::kSlots * Plan::kSlotBytes +
                                           (group * Plan::kPlaces + number) * Plan::kBoxBytes);
  }
  __device__ uint32_t full(int slot) const { return place(kGroups, 0) + static_cast<uint32_t>(slot) * 16; }
  __device__ uint32_t empty(int slot) const { return full(slot) + 8; }
  __device__ void advance() {
    if (++at < Plan::kSlots) return;
    at = 0;
    phase ^= 1;
  }
};

// Calls visit(number) for each tile of the block. Both blocks of a cluster get equally many
// numbers, so the last number may have no tile.
template <class Visit>
__device__ void for_each_tile(const Arguments& a, Visit visit) {
  for (int64_t first = blockIdx.x - cluster_rank(); first < a.tiles; first += gridDim.x) {
    visit(first + cluster_rank());
  }
}

#if ASSAY_HAS_WGMMA

constexpr int kProducts = 3;

// One thread calls it. It copies the boxes of all tiles, as slots become free in both blocks.
template <class Plan>
__device__ void copy_factors(const Arguments& a, Ring<Plan> ring) {
  constexpr int kShare = Plan::kColumns / kCluster;
  const int rank = cluster_rank();
  for_each_tile(a, [&](int64_t number) {
    const Tile<Plan> tile(a, number), other(a, number ^ 1);
    const bool is_shared = tile.column == other.column && tile.plane == other.plane;
    for (int product = 0; product < kProducts; ++product) {
      const int left = tile.plane + (product == 0 ? a.rest : 0),
                right = tile.plane + (product == 1 ? a.rest : 0);
      for (int step = 0; step < a.steps; ++step) {
        const uint32_t full = ring.full(ring.at), to = ring.slot(), to_right = to + Plan::kLeftBytes;
        const int depth = step * kDepth;
        wait_for_phase(ring.empty(ring.at), ring.phase ^ 1);
        arrive_with_copies(full, Plan::kSlotBytes);
        copy_box(to, a.left, {depth, tile.row, left}, full);
        for (int share = 0; share < kCluster; ++share) {
          const BoxAt from{depth, tile.column + share * kShare, right};
          const uint32_t to_share = to_right + static_cast<uint32_t>(share * kShare * kBoxRowBytes);
          if (!is_shared) {
            copy_box(to_share, a.right, from, full);
          } else if (share == rank) {
            copy_box_to_cluster<kCluster>(to_share, a.right, from, full);
          }
        }
        ring.advance();
      }
    }
  });
}

// Each warp that reads slots calls it when it is done with a slot. It tells both blocks.
template <class Plan>
__device__ void free_slot(const Ring<Plan>& ring, int slot) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  if (lane < kCluster) arrive_at_block(ring.empty(slot), lane);
}

// A warpgroup calls it if it has no rows of the tile.
template <class Plan>
__device__ void pass_slots(int slots, Ring<Plan>& ring) {
  for (int i = 0; i < slots; ++i) {
    wait_for_phase(ring.full(ring.at), ring.phase);
    __syncwarp();
    free_slot(ring, ring.at);
    ring.advance();
  }
}

// A warpgroup calls it. The product of the next slots is added to the sums or replaces them.
template <class Plan>
__device__ void multiply(typename Plan::Sums& sums, int steps, bool on_top, int group, Ring<Plan>& ring) {
  int last = 0;
  for (int step = 0; step < steps; ++step) {
    wait_for_phase(ring.full(ring.at), ring.phase);
    const uint64_t left =
        descriptor_of_box(ring.slot() + static_cast<uint32_t>(group * kGroupRows * kBoxRowBytes));
    const uint64_t right = descriptor_of_box(ring.slot() + Plan::kLeftBytes);
    wgmma_begin();
#pragma unroll
    for (int k = 0; k < kBoxRowBytes; k += 32) {
      wgmma_tf32(sums, moved(left, k), moved(right, k), k > 0 || step > 0 || on_top ? 1 : 0);
    }
    wgmma_commit();
    if (step > 0) {
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

// Calls visit(sums, kept) for each two neighbouring sums and their place in hidden.
template <class Plan, class Visit>
__device__ void for_each_pair(typename Plan::Sums& sums, const Arguments& a, const Tile<Plan>& tile,
                              int group, Visit visit) {
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32 % 4);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t row = tile.row + group * kGroupRows + 16 * warp + lane / 4 + 8 * half;
    float* const kept = a.sums + (tile.plane * a.nodes + row) * a.pitch + tile.column + lane % 4 * 2;
    const int64_t columns = row < a.nodes ? a.pitch - tile.column : 0;  // a multiple of 8
#pragma unroll
    for (int j = 0; j < Plan::kColumns / 8; ++j) {
      if (8 * j < columns) {
        visit(reinterpret_cast<float2&>(sums[4 * j + 2 * half]), *reinterpret_cast<float2*>(kept + 8 * j));
      }
    }
  }
}

template <class Plan>
__device__ void add_kept(typename Plan::Sums& sums, const Arguments& a, const Tile<Plan>& tile, int group) {
  for_each_pair(sums, a, tile, group, [](float2& sum, const float2& kept) {
    sum.x += kept.x;
    sum.y += kept.y;
  });
}

// Writes the sums of a warpgroup that form a box to its place in shared memory.
__device__ inline void stage_box(const float* sums, uint32_t place) {
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32 % 4);
#pragma unroll
  for (int j = 0; j < kDepth / 8; ++j) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = 16 * warp + lane / 4 + 8 * half, piece = 2 * j + lane % 4 / 2;
      asm volatile(
          "st.shared.v2.f32 [%0], {%1,%2};" ::"r"(
              place + static_cast<uint32_t>(row * kBoxRowBytes + (piece ^ row % 8) * 16 + lane % 2 * 8)),
          "f"(sums[4 * j + 2 * half]), "f"(sums[4 * j + 2 * half + 1])
          : "memory");
    }
  }
}

template <class Plan>
__device__ void multiply_tiles(const Arguments& a, Ring<Plan> ring, int group) {
  typename Plan::Sums sums;
  const bool copies = threadIdx.x % kGroupThreads == 0;
  for_each_tile(a, [&](int64_t number) {
    const Tile<Plan> tile(a, number);
    if (number >= a.tiles || tile.row + group * kGroupRows >= a.nodes) {
      return pass_slots(kProducts * a.steps, ring);
    }
    multiply(sums, a.steps, false, group, ring);
    for_each_pair(sums, a, tile, group, [](const float2& sum, float2& kept) { kept = sum; });
    multiply(sums, a.steps, false, group, ring);
    add_kept(sums, a, tile, group);
    for (int step = 0; step < a.steps; step += a.steps_at_once) {
      if (step > 0) {
        for_each_pair(sums, a, tile, group, [](const float2& sum, float2& kept) { kept = sum; });
      }
      multiply(sums, min(a.steps - step, a.steps_at_once), step == 0, group, ring);
      if (step > 0) add_kept(sums, a, tile, group);
    }
    // With an odd number of boxes, the last one was in the first place.
    if (copies) wait_for_boxes_out<0>();
#pragma unroll
    for (int box = 0; box < Plan::kColumns / kDepth; ++box) {
      if (tile.column + box * kDepth >= a.nodes) break;
      const uint32_t place = ring.place(group, box % Plan::kPlaces);
      if (copies) wait_for_boxes_out<Plan::kPlaces - 1>();
      synchronize_group(group);
      stage_box(sums + box * kDepth / 2, place);
      fence_async_proxy_everywhere();  // stores to hidden also come before the copy
      synchronize_group(group);
      if (copies) {
        copy_box_out(a.hidden, {tile.column + box * kDepth, tile.row + group * kGroupRows, tile.plane},
                     place);
      }
    }
  });
  if (copies) wait_for_boxes_out<0>();
}

#endif  // ASSAY_HAS_WGMMA

template <class Plan>
__global__ void __launch_bounds__(kThreads, Plan::kBlocks)
    contract_kernel(const __grid_constant__ Arguments a) {
#if ASSAY_HAS_WGMMA
  extern __shared__ __align__(kBoxAlignment) uint8_t shared[];
  const Ring<Plan> ring{shared_address(shared)};
  if (threadIdx.x == 0) {
    for (int slot = 0; slot < Plan::kSlots; ++slot) {
      make_barrier(ring.full(slot), 1);
      make_barrier(ring.empty(slot), kGroups * kGroupThreads / 32 * kCluster);
    }
    fence_barriers();
  }
  cluster_arrive();
  cluster_wait();
  const int group = group_of_thread();
  if (group < kGroups) {
    multiply_tiles(a, ring, group);
  } else if (threadIdx.x % 32 == 0) {
    copy_factors(a, ring);
  }
  // Until then the other block may still free slots of this one.
  cluster_arrive();
  cluster_wait();
#else
  __trap();  // the host uses cuBLASLt instead
#endif
}

template <class Plan>
void launch(const Job<Format::kTF32x3>& job, int multiprocessors) {
  const Planes& p = job.planes;
  const int64_t planes = job.count * p.hidden;
  const auto matrices = [&](float* data, int64_t columns, int64_t count) {
    return Matrices{.data = data,
                    .dtype = DType::kF32,
                    .columns = columns,
                    .rows = p.nodes,
                    .count = count,
                    .row_stride = p.pitch,
                    .matrix_stride = p.plane()};
  };
  static_assert(kTermsStep % kDepth == 0, "a part consists of slots");
  const auto count = [&](int of) { return static_cast<int>((p.nodes + of - 1) / of); };
  // The padding of hidden behind its last column gets products of zeros.
  Arguments a{.left = map_of(matrices(job.left, p.nodes, 2 * planes), kTileRows),
              .right = map_of(matrices(job.right, p.nodes, 2 * planes), Plan::kColumns / kCluster),
              .hidden = map_of(matrices(job.hidden, p.pitch, planes), kGroupRows),
              .sums = job.hidden,
              .nodes = p.nodes,
              .pitch = p.pitch,
              .tiles = 0,
              .rows_of_tiles = count(kTileRows),
              .columns_of_tiles = count(Plan::kColumns),
              .steps = count(kDepth),
              .steps_at_once = static_cast<int>(terms_at_once(p.nodes) / kDepth),
              .rest = static_cast<int>(planes)};
  a.tiles = planes * a.rows_of_tiles * a.columns_of_tiles;
  const int64_t clusters =
      std::clamp<int64_t>(std::min<int64_t>(Plan::kBlocks * multiprocessors / kCluster, kMostBlocks.value()),
                          1, (a.tiles + kCluster - 1) / kCluster);
  launch_clusters({.name = "contract_kernel",
                   .compute_capability = 90,
                   .size = kCluster,
                   .threads = kThreads,
                   .shared_bytes = Plan::kShared,
                   .stream = job.stream},
                  contract_kernel<Plan>, clusters, a);
}

}  // namespace

void contract_split(const Job<Format::kTF32x3>& job, int multiprocessors) {
  // Tiles of 256 columns read less. Tiles of 128 columns waste less at the end of a row.
  const int64_t nodes = job.planes.nodes, wasted = (nodes + 255) / 256 * 256 - (nodes + 127) / 128 * 128;
  if (8 * wasted > nodes) {
    launch<Plan<128>>(job, multiprocessors);
  } else {
    launch<Plan<256>>(job, multiprocessors);
  }
}

}  // namespace assay::trimul
