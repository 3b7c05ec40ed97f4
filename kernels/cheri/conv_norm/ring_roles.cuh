// SPDX-License-Identifier: Apache-2.0
// What conv_norm in one pass over x and its gradient in one pass over x and dy share. Each block
// holds some tiles in a ring of stages in shared memory. It adds up a tile as soon as it is there,
// and computes its results up to `lag` tiles later. By then the blocks that hold the other tiles of
// the example have published their sums, too. So each tensor is read from memory once, and all
// multiprocessors work on examples of any size.
//
// A long example is one that all blocks together do not hold. Each of them brings its tiles of it
// twice. First it adds up all of them and publishes one sum. Then it goes back from the last one,
// which may still be in the L2 cache.
//
// Warps have roles, and barriers hand the stages on:
//   loads       empty -> full     brings the next tile
//   adds        full -> summed    adds up what the statistics need
//   publishes   summed            hands the sums of a part (of a tile, or of a block) to all blocks
//   finishes    summed -> normed  waits for the sums of all parts of an example, once for its tiles
//   ends        normed -> empty   computes the results of the tile
// In conv_norm the same warps add and end, in turn. In its gradient they are different warps.
//
// Blocks wait for each other, so all of them run at the same time. None waits for ever. Say tile t
// is the first of all that wait for statistics, and tile u of its example is not published. Then
// the block of u waits with a tile v >= t, and has published v and its next `lag` tiles. So
// u >= v + (lag + 1) * blocks. But an example that is held has at most (lag + 1) * blocks tiles. Of
// long ones, say e is the first example that a block waits with. All blocks end the examples before
// it. So each of them adds up its tiles of e and publishes its sum before it waits with e itself.
#pragma once

#include "kernels/cheri/conv_norm/ring_job.cuh"
#include "kernels/core_cuda/async_copy.cuh"
#include "kernels/core_cuda/bulk_copy.cuh"
#include "kernels/core_cuda/shared_memory.cuh"

namespace assay::cheri {

// Warps of a block: one that publishes, one that finishes, those that load, and then those that
// convolve. Rows are copied whole if kPiece is a vector of channels, else one element after the
// other.
template <int kConvolvers, class T, int kPiece>
struct RingWarps {
  static constexpr bool kCopiesRows = kPiece == kTileLanes * int{sizeof(T)};
  static constexpr int kLoaders = kCopiesRows ? 2 : 4;
  // Threads that bring a tile. Warps that copy rows take turns.
  static constexpr int kBringers = (kCopiesRows ? 1 : kLoaders) * kWarp;
  static constexpr int kLoader = 2, kConvolver = kLoader + kLoaders;  // the first ones
  static constexpr int kThreads = (kConvolver + kConvolvers) * kWarp;
};

// A tensor in the stages.
template <class T>
struct StagedTensor {
  Strided<const T> from;
  int reach;         // of the taps, in rows
  int rows_of_copy;  // that lie together

  StagedTensor(const ConstTensorView& view, const Tiling& tiling, int reach)
      : from(view), reach(reach), rows_of_copy(1) {
    const bool is_dense = view.strides[1] == view.shape[2] && view.shape[2] == tiling.row_elements();
    if (is_dense) rows_of_copy = tiling.groups == 1 ? tiling.stage_rows(reach) : tiling.chains;
  }
  __host__ __device__ int elements(const Tiling& tiling) const {
    return tiling.stage_rows(reach) * tiling.row_elements();
  }
};

// Moves over the turns of a block. `parity` is that of the barriers of its stage.
template <int kStages>
struct Turn {
  int64_t number = blockIdx.x;
  int stage = 0;
  uint32_t parity = 0;

  __device__ void next() {
    number += gridDim.x;
    if (++stage < kStages) return;
    stage = 0;
    parity ^= 1;
  }
};

// The state of a block's stages, in shared memory. As many warps add as end. Statistics are what
// the sums over an example give.
template <int kStages, int kAdders, int kSums, class Statistics, bool kIsHeld>
struct Ring {
  using Turn = cheri::Turn<kStages>;
  using Task = cheri::Task<kIsHeld>;
  // Parts whose sums a lane loads at a time: each wait takes as long as the L2, but they need
  // registers.
  static constexpr int kPartsAtOnce = kSums > 2 ? 1 : 2;

  double sums[kStages][kAdders][kSums];
  Tile tiles[kStages];
  double references[kStages];
  Statistics statistics[kStages];
  uint64_t empty[kStages], full[kStages], summed[kStages], normed[kStages];
  bool adds[kStages];  // the tile; else it is ended. If an example is held, both.

  // The tile of a stage, without rows if it is not to be added up, or not to be ended.
  __device__ Tile added(const Tiling& tiling, int stage) const {
    return kIsHeld || adds[stage] ? tiles[stage] : tiles[stage].without_rows(tiling);
  }
  __device__ Tile ended(const Tiling& tiling, int stage) const {
    return kIsHeld || !adds[stage] ? tiles[stage] : tiles[stage].without_rows(tiling);
  }

  // One thread calls it; __syncthreads() follows. All lanes of a warp arrive, each after its own
  // reads of the stage.
  __device__ void make_barriers(int bringers) {
    for (int stage = 0; stage < kStages; ++stage) {
      make_barrier(shared_address(&empty[stage]), (kAdders + 1) * kWarp);
      make_barrier(shared_address(&full[stage]), bringers);
      make_barrier(shared_address(&summed[stage]), kAdders * kWarp);
      make_barrier(shared_address(&normed[stage]), kWarp);
    }
    fence_async_proxy();
  }

  // Role. Calls bring(tile, stage, barrier) for each task. It starts this warp's copies, and
  // returns how many bytes of them arrive at the barrier by themselves.
  template <class Warps, class T, class Bring>
  __device__ void load(const RingJob& job, int warp, const Strided<const T>& x, const Strided<const T>& w,
                       Bring&& bring) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    int turn = 0;
    for (Turn at; at.number < job.turns; at.next()) {
      if (Warps::kCopiesRows && turn++ % Warps::kLoaders != warp) continue;
      const uint32_t barrier = shared_address(&full[at.stage]);
      const Task task(job, at.number);
      const Tile tile(job.tiling, task.tile);
      const bool describes = (Warps::kCopiesRows || warp == 0) && lane == kWarp - 1;
      // Under way while the warp waits.
      const float reference = describes ? reference_of(job.tiling, x, w, tile.example) : 0.0f;
      wait_for_phase(shared_address(&empty[at.stage]), at.parity ^ 1);
      const uint32_t bytes = task.is_there ? bring(tile, at.stage, barrier) : 0;
      if (describes) {
        tiles[at.stage] = task.is_there ? tile : tile.without_rows(job.tiling);
        if constexpr (!kIsHeld) adds[at.stage] = task.adds;
        references[at.stage] = reference;
      }
      if constexpr (Warps::kCopiesRows) {
        arrive_with_copies(barrier, bytes);
      } else {
        wait_for_copies();
        arrive(barrier);
      }
    }
  }

  // Of this launch. Two warps of each block call it.
  __device__ static uint32_t flag(const RingJob& job) { return flag_of_launch(job.count, gridDim.x * 2); }

  // Each warp that adds up hands over its sums of a tile. They are those of its lane 0.
  __device__ void hand_over(int stage, int warp, const double (&own)[kSums]) {
    if (threadIdx.x % kWarp == 0) {
#pragma unroll
      for (int i = 0; i < kSums; ++i) sums[stage][warp][i] = own[i];
    }
    arrive(shared_address(&summed[stage]));
  }

  // Role of one warp.
  __device__ void publish_sums(const RingJob& job) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const uint32_t launch = flag(job);
    double sum = 0;
    for (Turn at; at.number < job.turns; at.next()) {
      const Task task(job, at.number);
      wait_for_phase(shared_address(&summed[at.stage]), at.parity);
      if (lane < kSums) {
#pragma unroll
        for (int warp = 0; warp < kAdders; ++warp) sum += sums[at.stage][warp][lane];
        if (task.completes_part) {
          publish(job.sums + task.part * kSums + lane, sum, launch);
          sum = 0;
        }
      }
      arrive(shared_address(&empty[at.stage]));
    }
  }

  // Role of one warp. finish(reference, sums) makes statistics from the sums of an example.
  template <class Finish>
  __device__ void finish_sums(const RingJob& job, Finish&& finish) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const uint32_t launch = flag(job);
    int64_t example = -1;
    Statistics of_example{};
    for (Turn at; at.number < job.turns; at.next()) {
      const Task task(job, at.number);
      wait_for_phase(shared_address(&summed[at.stage]), at.parity);
      if (task.ends && tiles[at.stage].example != example) {
        example = tiles[at.stage].example;
        const Published* const published = job.sums + example * job.parts * kSums;
        double all[kSums]{};
        for (int first = 0; first < job.parts; first += kPartsAtOnce * kWarp) {
          const auto part = [&](int i) { return first + i / kSums * kWarp + lane; };
          double sums_of_parts[kPartsAtOnce * kSums];
          wait_for_published(sums_of_parts, launch, [&](int i) {
            return published + (part(i) < job.parts ? part(i) : 0) * kSums + i % kSums;
          });
#pragma unroll
          for (int i = 0; i < kPartsAtOnce * kSums; ++i)
            all[i % kSums] += part(i) < job.parts ? sums_of_parts[i] : 0;
        }
        sum_over_warp(all);
        of_example = finish(references[at.stage], all);
      }
      if (task.ends && lane == 0) statistics[at.stage] = of_example;
      arrive(shared_address(&normed[at.stage]));
    }
  }
};

// A warp's part of the copies of a tile to a stage. Returns the bytes that arrive at `barrier`.
template <class Warps, class T>
__device__ uint32_t copy_rows(const Tiling& tiling, const Tile& tile, const StagedTensor<T>& tensor, T* stage,
                              int warp, uint32_t barrier) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int row_elements = tiling.row_elements(), rows = tiling.stage_rows(tensor.reach);
  const int valid = min(row_elements, tiling.channels - tile.channel);
  const T* const first =
      tensor.from.data + tile.example * tensor.from.example + tile.channel * tensor.from.channel;
  uint32_t bytes = 0;
  if constexpr (Warps::kCopiesRows) {
    for (int index = lane; index * tensor.rows_of_copy < rows; index += kWarp) {
      const TileCopy copy(tiling, tile, tensor.reach, tensor.rows_of_copy, index);
      if (copy.count <= 0) continue;
      const auto length = static_cast<uint32_t>(copy.count) * static_cast<uint32_t>(valid * int{sizeof(T)});
      copy_bulk<CacheUse::kAgain>(shared_address(stage + copy.to * row_elements),
                                  first + copy.from * tensor.from.row, length, barrier);
      bytes += length;
    }
  } else {
    for (int row = warp; row < rows; row += Warps::kLoaders) {
      const TileCopy one(tiling, tile, tensor.reach, 1, row);
      if (one.count <= 0) continue;
      const T* const from = first + one.from * tensor.from.row;
#pragma unroll 4
      for (int e = lane; e < valid; e += kWarp)
        copy_async<int{sizeof(T)}>(stage + row * row_elements + e, from + e * tensor.from.channel);
    }
  }
  return bytes;
}

// A convolving thread's place in all tiles of its block.
struct Convolver {
  int line, column, piece, chain;
  Lane lane;

  // `thread` counts those that work on the same tile.
  __device__ Convolver(const Tiling& tiling, int thread)
      : line(thread / tiling.columns),
        column(thread - line * tiling.columns),
        piece(line / tiling.chains),
        chain(line - piece * tiling.chains) {
    const int side = static_cast<int>(blockIdx.x) % tiling.sides;
    const int channel = side * tiling.row_elements() + column * kTileLanes;
    lane = {line, channel, max(0, min(tiling.channels - channel, kTileLanes))};
  }

  __device__ Strip strip(const Tiling& tiling, const Tile& tile) const {
    return lane.valid == 0 ? Strip{} : tile.strip(tiling, chain, piece);
  }
};

// The rows of a strip in a stage, and its neighbours.
template <class T>
struct StageRows {
  using Vector = Piece<kTileLanes* int{sizeof(T)}>;
  const Vector* row0;
  int step;  // [vectors] to the next row of a chain

  // The taps reach `reach` rows.
  __device__ StageRows(const Tiling& tiling, const Convolver& own, const T* stage, int reach)
      : row0(reinterpret_cast<const Vector*>(stage) +
             ((own.piece * tiling.length + tiling.halo * reach) * tiling.chains + own.chain) *
                 tiling.columns +
             own.column),
        step(tiling.chains * tiling.columns) {}

  // Moves down the rows.
  struct Cursor {
    struct Values {
      float lanes[kTileLanes];
      __device__ float operator[](int i) const { return lanes[i]; }
    };
    const Vector* at;
    int step;

    __device__ void load(Values& values) const {
      Bits<T, kTileLanes> bits;
      *reinterpret_cast<Vector*>(bits.words) = *at;
#pragma unroll
      for (int e = 0; e < kTileLanes; ++e) values.lanes[e] = bits[e];
    }
    __device__ void next() {
      at += step;
    }
  };
  __device__ Cursor from(int row) const {
    return {row0 + row * step, step};
  }
};

}  // namespace assay::cheri
