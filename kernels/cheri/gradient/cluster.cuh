// SPDX-License-Identifier: Apache-2.0
// How the cluster kernel of conv_norm's gradient spreads an example over the blocks of a cluster,
// and the slots of shared memory in which each thread keeps the rows of its strips. A thread reads
// no slots but its own. Rows at the ends of a strip, which two threads need, are kept twice, so no
// thread waits for another before the sums.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "kernels/cheri/conv_norm/conv_norm.cuh"
#include "kernels/core_cuda/async_copy.cuh"
#include "kernels/core_cuda/cluster.cuh"
#include "kernels/core_cuda/limits.h"

namespace assay::cheri {

inline constexpr int kClusterThreads = 256;  // most threads of a block

// Host: how the units of an example are dealt out to the blocks of its cluster, round after round.
struct Spread {
  Cut cut;
  int size;    // [blocks] of a cluster
  int rounds;  // most units of a block
};

// The number of blocks depends on the bytes of an example. Strips are long enough to keep all
// threads busy with the fewest slots. Each strip takes `extra` slots more than it has rows.
inline Spread spread(const Extents& shape, int64_t dilation, int lanes, int64_t bytes, int64_t longest,
                     int64_t extra) {
  // Of an example in a block: several blocks share a multiprocessor then.
  constexpr int64_t kBlockBytes = int64_t{48} << 10;
  constexpr int64_t kMostRounds = 1024;
  const auto parts = [](int64_t whole, int64_t part) { return (whole + part - 1) / part; };
  int size = 1;
  while (size < kMostClusterBlocks && size * kBlockBytes < bytes) size *= 2;
  Spread best{.cut = cut(shape, dilation, lanes, kClusterThreads, 1), .size = size, .rounds = 0};
  const int64_t steps = parts(best.cut.rows, best.cut.dilation);
  const int64_t lines = kClusterThreads / best.cut.columns;
  const int64_t fewest = parts(best.cut.tiles * parts(best.cut.dilation, lines), size);
  int64_t fewest_slots = INT64_MAX;
  for (int64_t rounds = fewest; rounds < fewest + 3; ++rounds) {
    // Pieces of a chain.
    const int64_t pieces = std::max<int64_t>(1, size * rounds / best.cut.tiles * lines / best.cut.dilation);
    const Cut trial = cut(shape, dilation, lanes, kClusterThreads, std::min(longest, parts(steps, pieces)));
    const int64_t needed = parts(trial.units(), size);
    const int64_t slots = needed * (trial.chunk + extra);
    if (slots >= fewest_slots) continue;
    fewest_slots = slots;
    best.cut = trial;
    best.rounds = static_cast<int>(std::min(needed, kMostRounds));  // more never fit
  }
  return best;
}

// Where a block works: a group of strips in a tile, and the calling thread's strip in the group.
struct Place {
  int64_t tile, group;
  Lane lane;
  Strip strip;

  __device__ Place(const Cut& cut, int64_t unit)
      : tile(quotient(unit, cut.groups)),
        group(unit - tile * cut.groups),
        lane(lane_of_thread(cut, tile)),
        strip(strip_of(cut, lane, group)) {}
};

// Calls visit(round, place) for each unit of the block. `first` is the place of its first unit.
// Most blocks have one unit.
template <class Visit>
__device__ void for_each_unit(const Cut& cut, int size, int rounds, int rank, const Place& first,
                              Visit&& visit) {
  if (rank >= cut.units()) return;
  visit(0, first);
  for (int round = 1; round < rounds; ++round) {
    const int64_t unit = rank + int64_t{round} * size;
    if (unit < cut.units()) visit(round, Place(cut, unit));
  }
}

// A thread's slots for the rows of one strip.
template <class T, int kLanes>
struct Slots {
  using Slot = Piece<kLanes* int{sizeof(T)}>;
  Slot* row0;
  int step;  // [slots]

  // Each round has a strip with `count` slots, whose row 0 is in slot `before`.
  __device__ Slots(void* shared, int round, int count, int before)
      : row0(static_cast<Slot*>(shared) + (round * count + before) * static_cast<int>(blockDim.x) +
             threadIdx.x),
        step(static_cast<int>(blockDim.x)) {}

  // Moves down the rows.
  struct Cursor {
    using Values = Bits<T, kLanes>;
    Slot* at;
    int step;

    __device__ void load(Values& bits) const { *reinterpret_cast<Slot*>(bits.words) = *at; }
    __device__ void next() { at += step; }

    // Starts to copy a row from memory.
    template <int kPiece>
    __device__ void fetch(const typename Rows<kPiece, const T, kLanes>::Cursor& row) const {
      auto* const to = reinterpret_cast<T*>(at);
#pragma unroll
      for (int i = 0; i < kLanes * int{sizeof(T)} / kPiece; ++i) {
        if (i < row.pieces) copy_async<kPiece>(to + i * (kPiece / int{sizeof(T)}), row.at + i * row.channel);
      }
    }
  };
  __device__ Cursor from(int row) const {
    return {row0 + row * step, step};
  }

  // Starts to copy the rows from `begin` to `end`.
  template <int kPiece>
  __device__ void fetch(const Rows<kPiece, const T, kLanes>& rows, int begin, int end) const {
    auto next = rows.from(begin);
    Cursor slot = from(begin);
#pragma unroll 4
    for (int row = begin; row < end; ++row) {
      slot.template fetch<kPiece>(next);
      next.next();
      slot.next();
    }
  }
};

// Adds up the sums of all blocks of the cluster, in the order of their ranks. Thread 0 of each
// block provides them in `sums`; lane 0 of the first warp gets the result there. All threads of all
// blocks call it once all blocks run, and not twice in a row with the same `all`.
template <int kSums>
__device__ void sum_over_cluster(double (&sums)[kSums], double (&all)[kMostClusterBlocks][kSums], int size) {
  const int rank = cluster_rank();
  if (threadIdx.x == 0) {
    for (int other = 0; other < size; ++other) {
#pragma unroll
      for (int i = 0; i < kSums; ++i) store_to_block(&all[rank][i], other, sums[i]);
    }
  }
  cluster_arrive();
  cluster_wait();
  if (threadIdx.x < kWarp) {
#pragma unroll
    for (int i = 0; i < kSums; ++i) sums[i] = static_cast<int>(threadIdx.x) < size ? all[threadIdx.x][i] : 0;
    sum_over_warp(sums);
  }
}

// Host: why a block cannot have this much shared memory, if it cannot.
inline std::optional<std::string> misfit(const Spread& spread, int64_t bytes) {
  if (bytes <= kMostBlockShared) return std::nullopt;
  return fmt::format(
      "an example of {} rows and {} channels takes {} bytes in each of the {} blocks of a cluster, which has "
      "{}",
      spread.cut.rows, spread.cut.channels, bytes, spread.size, kMostBlockShared);
}

// Each block prefetches its part of an example, which lies in one piece.
template <class T>
__device__ void prefetch_example(const Strided<const T>& tensor, int64_t example, int64_t bytes, int rank,
                                 int size) {
  constexpr int64_t kAtOnce = 16384;
  const auto* const first = reinterpret_cast<const char*>(tensor.data + example * tensor.example);
  for (int64_t at = (rank + int64_t{threadIdx.x} * size) * kAtOnce; at < bytes;
       at += int64_t{blockDim.x} * size * kAtOnce) {
    prefetch_to_l2(first + at, static_cast<uint32_t>(min(kAtOnce, bytes - at)));
  }
}

// Host: [bytes] of an example, or 0 if it cannot be prefetched.
inline int64_t bytes_in_one_piece(const ConstTensorView& view) {
  const int64_t bytes = view.shape[1] * view.shape[2] * static_cast<int64_t>(size_of(view.dtype));
  const bool dense = view.strides[2] == 1 && view.strides[1] == view.shape[2];
  return dense && bytes % 16 == 0 && is_aligned_across(view, 0, 1, 16) ? bytes : 0;
}

// Host: how many clusters to launch. Each works on several examples, one after the other.
template <class... Parameters>
int64_t at_once(int64_t examples, const ClusterLaunch& launch, void (*kernel)(Parameters...)) {
  return std::min({examples, std::max<int64_t>(1, resident_clusters(launch, kernel)), kMostBlocks.value()});
}

}  // namespace assay::cheri
