// SPDX-License-Identifier: Apache-2.0
// The pairwise product of trimul for factors in two parts. A block computes all three products of a
// tile of 128 by 128 and then writes it to hidden.
//
// Blocks are persistent and take tiles one after the other. One warp of a block has boxes of both
// factors copied into a ring in shared memory; it already copies those of the next tile while this
// one is written. Two warpgroups multiply 64 rows each. Two blocks form a cluster. They take
// consecutive tiles, most of which lie below each other. Then each block copies half of what both
// need of `right`.
//
// The sums of second * first and of first * second are computed and added, then parts of first *
// first are added to them (terms_at_once()). So left and right are exchangeable.
#include <cstdint>

#include "kernels/core_cuda/bulk_copy.cuh"
#include "kernels/core_cuda/cluster.cuh"
#include "kernels/core_cuda/cuda_check.h"
#include "kernels/core_cuda/mbarrier.cuh"
#include "kernels/core_cuda/shared_memory.cuh"
#include "kernels/core_cuda/tensor_copy.cuh"
#include "kernels/core_cuda/tensor_map.h"
#include "kernels/core_cuda/wgmma.cuh"
#include "kernels/trimul/cuda_plan.cuh"

namespace assay::trimul {
namespace {

constexpr int kCluster = 2;
constexpr int kGroups = 2;                                   // warpgroups that multiply
constexpr int kRows = kGroups * kGroupRows, kColumns = 128;  // of a tile
constexpr int kThreads = kGroups * kGroupThreads + 32;
constexpr int kDepth = kBoxRowBytes / int{sizeof(f16)};  // of the summed dimension in a slot
constexpr int kSlots = 6;
constexpr int kLeftBytes = kRows * kBoxRowBytes, kSlotBytes = kLeftBytes + kColumns * kBoxRowBytes;
constexpr int kPlaces = 2;  // from which a warpgroup writes boxes of its rows in turn
constexpr int kBoxBytes = kGroupRows * kBoxRowBytes;
constexpr int kShared = kSlots * (kSlotBytes + 16) + kGroups * kPlaces * kBoxBytes;

struct Arguments {
  CUtensorMap left, right, hidden;
  int64_t nodes, tiles;
  int rows_of_tiles, columns_of_tiles;  // of a plane
  int steps;                            // slots along the summed dimension
  int steps_at_once;                    // the most steps in a part of first * first
  int second;                           // [planes] from a factor to its second part
};

#if ASSAY_HAS_WGMMA

constexpr int kProducts = 3;
constexpr int kBoxColumns = kBoxRowBytes / int{sizeof(float)};

// Where a tile begins. Consecutive tiles lie below each other, then side by side, then in the next
// plane.
struct Tile {
  int plane, row, column;

  __device__ Tile(const Arguments& a, int64_t number) {
    const auto all = static_cast<uint32_t>(number), rows = static_cast<uint32_t>(a.rows_of_tiles);
    row = static_cast<int>(all % rows) * kRows;
    column = static_cast<int>(all / rows % static_cast<uint32_t>(a.columns_of_tiles)) * kColumns;
    plane = static_cast<int>(all / rows / static_cast<uint32_t>(a.columns_of_tiles));
  }
};

// The shared memory of a block, from a multiple of kBoxAlignment on: slots with boxes of both
// factors, places of boxes to be written, barriers.
struct Ring {
  uint32_t address;
  int at = 0;
  uint32_t phase = 0;

  __device__ uint32_t slot() const { return address + static_cast<uint32_t>(at * kSlotBytes); }
  __device__ uint32_t place(int group, int number) const {
    return address + static_cast<uint32_t>(kSlots * kSlotBytes + (group * kPlaces + number) * kBoxBytes);
  }
  __device__ uint32_t full(int slot) const { return place(kGroups, 0) + static_cast<uint32_t>(slot) * 16; }
  __device__ uint32_t empty(int slot) const { return full(slot) + 8; }
  __device__ void advance() {
    if (++at < kSlots) return;
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

// One thread calls it. It copies the boxes of all tiles, as slots become free in both blocks.
__device__ inline void copy_factors(const Arguments& a, Ring ring) {
  constexpr int kShare = kColumns / kCluster;
  const int rank = cluster_rank();
  for_each_tile(a, [&](int64_t number) {
    const Tile tile(a, number), other(a, number ^ 1);
    const bool is_shared = tile.column == other.column && tile.plane == other.plane;
    for (int product = 0; product < kProducts; ++product) {
      const int left = tile.plane + (product == 0 ? a.second : 0),
                right = tile.plane + (product == 1 ? a.second : 0);
      for (int step = 0; step < a.steps; ++step) {
        const uint32_t full = ring.full(ring.at), to = ring.slot(), to_right = to + kLeftBytes;
        const int depth = step * kDepth;
        wait_for_phase(ring.empty(ring.at), ring.phase ^ 1);
        arrive_with_copies(full, kSlotBytes);
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

// A warpgroup calls it if it has no rows of the tile.
__device__ inline void pass_slots(int slots, Ring& ring) {
  for (int i = 0; i < slots; ++i) {
    wait_for_phase(ring.full(ring.at), ring.phase);
    arrive_at_cluster<kCluster>(ring.empty(ring.at));
    ring.advance();
  }
}

using Sums = float[kColumns / 2];  // of a thread

// A warpgroup calls it: the product of the next slots.
__device__ inline void multiply(Sums& sums, int steps, int group, Ring& ring) {
  int last = 0;
  for (int step = 0; step < steps; ++step) {
    wait_for_phase(ring.full(ring.at), ring.phase);
    const uint64_t left =
        descriptor_of_box(ring.slot() + static_cast<uint32_t>(group * kGroupRows * kBoxRowBytes));
    const uint64_t right = descriptor_of_box(ring.slot() + kLeftBytes);
    wgmma_begin();
#pragma unroll
    for (int k = 0; k < kBoxRowBytes; k += 32) {
      wgmma<f16>(sums, moved(left, k), moved(right, k), k > 0 || step > 0 ? 1 : 0);
    }
    wgmma_commit();
    if (step > 0) {
      wgmma_wait<1>();
      arrive_at_cluster<kCluster>(ring.empty(last));
    }
    last = ring.at;
    ring.advance();
  }
  wgmma_wait<0>();
  keep_in_place(sums);
  arrive_at_cluster<kCluster>(ring.empty(last));
}

// Writes the sums of a warpgroup that form a box to its place in shared memory.
__device__ inline void stage_box(const float* sums, uint32_t place) {
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32 % 4);
#pragma unroll
  for (int j = 0; j < kBoxColumns / 8; ++j) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = 16 * warp + lane / 4 + 8 * half, piece = 2 * j + lane % 4 / 2;
      store_shared(place + static_cast<uint32_t>(row * kBoxRowBytes + (piece ^ row % 8) * 16 + lane % 2 * 8),
                   sums[4 * j + 2 * half], sums[4 * j + 2 * half + 1]);
    }
  }
}

__device__ inline void multiply_tiles(const Arguments& a, Ring ring, int group) {
  Sums sums, part;
  const auto add = [&](int steps) {
    multiply(part, steps, group, ring);
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i) sums[i] += part[i];
  };
  const bool copies = threadIdx.x % kGroupThreads == 0;
  for_each_tile(a, [&](int64_t number) {
    const Tile tile(a, number);
    if (number >= a.tiles || tile.row + group * kGroupRows >= a.nodes) {
      return pass_slots(kProducts * a.steps, ring);
    }
    multiply(sums, a.steps, group, ring);
    add(a.steps);
    for (int step = 0; step < a.steps; step += a.steps_at_once) add(min(a.steps - step, a.steps_at_once));
    // With an odd number of boxes, the last one was in the first place.
    if (copies) wait_for_boxes_out<0>();
#pragma unroll
    for (int box = 0; box < kColumns / kBoxColumns; ++box) {
      if (tile.column + box * kBoxColumns >= a.nodes) break;
      const uint32_t place = ring.place(group, box % kPlaces);
      if (copies) wait_for_boxes_out<kPlaces - 1>();
      synchronize_group(group);
      stage_box(sums + box * kBoxColumns / 2, place);
      fence_async_proxy();
      synchronize_group(group);
      if (copies) {
        copy_box_out(a.hidden, {tile.column + box * kBoxColumns, tile.row + group * kGroupRows, tile.plane},
                     place);
      }
    }
  });
  if (copies) wait_for_boxes_out<0>();
}

#endif  // ASSAY_HAS_WGMMA

__global__ void __launch_bounds__(kThreads) contract_kernel(const __grid_constant__ Arguments a) {
#if ASSAY_HAS_WGMMA
  extern __shared__ __align__(kBoxAlignment) uint8_t shared[];
  const Ring ring{shared_address(shared)};
  if (threadIdx.x == 0) {
    for (int slot = 0; slot < kSlots; ++slot) {
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
  __trap();  // the host offers this product only on devices that serve it
#endif
}

}  // namespace

void contract_parts(const Job<Format::kF16x3>& job) {
  const Planes& p = job.planes;
  const int64_t planes = job.count * p.hidden;
  const auto matrices = [&](void* data, DType dtype, int64_t columns, int64_t count) {
    return Matrices{.data = data,
                    .dtype = dtype,
                    .columns = columns,
                    .rows = p.nodes,
                    .count = count,
                    .row_stride = p.pitch,
                    .matrix_stride = p.plane()};
  };
  static_assert(kTermsStep % kDepth == 0, "a part consists of slots");
  const auto count = [&](int of) { return static_cast<int>((p.nodes + of - 1) / of); };
  // The padding of hidden behind its last column gets products of zeros.
  Arguments a{.left = map_of(matrices(job.left, DType::kF16, p.nodes, 2 * planes), kRows),
              .right = map_of(matrices(job.right, DType::kF16, p.nodes, 2 * planes), kColumns / kCluster),
              .hidden = map_of(matrices(job.hidden, DType::kF32, p.pitch, planes), kGroupRows),
              .nodes = p.nodes,
              .tiles = 0,
              .rows_of_tiles = count(kRows),
              .columns_of_tiles = count(kColumns),
              .steps = count(kDepth),
              .steps_at_once = static_cast<int>(terms_at_once(p.nodes) / kDepth),
              .second = static_cast<int>(planes)};
  a.tiles = planes * a.rows_of_tiles * a.columns_of_tiles;
  const int64_t clusters = clusters_of(a.tiles, kCluster, job.multiprocessors, kCluster);
  launch_clusters({.name = "contract_kernel",
                   .compute_capability = 90,
                   .size = kCluster,
                   .threads = kThreads,
                   .shared_bytes = kShared,
                   .stream = job.stream},
                  contract_kernel, clusters, a);
}

}  // namespace assay::trimul
