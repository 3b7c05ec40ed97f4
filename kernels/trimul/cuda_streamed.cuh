// SPDX-License-Identifier: Apache-2.0
// The kernel of trimul whose weights stream through shared memory past rows that stay in registers
// (cuda_project_streamed.cu): which sizes it serves, and what its blocks consist of.
//
// Columns of left and right alternate as resident ones do (cuda_resident.cuh). The depth of the
// weights is padded to that of the rows of a kernel.
#pragma once

#include <cuda.h>

#include <algorithm>
#include <cstdint>

#include "kernels/core_cuda/mbarrier.cuh"
#include "kernels/core_cuda/tile_product.cuh"
#include "kernels/trimul/cuda_boxes.cuh"
#include "kernels/trimul/cuda_plan.cuh"
#include "kernels/trimul/cuda_tiles.cuh"

namespace assay::trimul {

// Rows of a kernel have a multiple of so many channels, and at most so many: more do not fit into
// registers.
template <Format kFactor>
inline constexpr int kDepthStep = TileFactor<kFactor>::kParts == 1 ? 128 : 64;
template <Format kFactor>
inline constexpr int kMostDepth = TileFactor<kFactor>::kParts == 1 ? 384 : 128;

template <Format kFactor>
int64_t streamed_depth(int64_t channels) {
  return (channels + kDepthStep<kFactor> - 1) / kDepthStep<kFactor> * kDepthStep<kFactor>;
}

// Whether the kernel serves a size that is not resident.
template <Format kFactor>
bool is_streamed(int64_t channels, const Planes& planes) {
  return channels > 0 && channels <= kMostDepth<kFactor> && planes.plane() <= INT32_MAX;
}

namespace streamed {

inline constexpr int kCluster = 2;
inline constexpr int kGroups = 2;                               // warpgroups that multiply
inline constexpr int kThreads = (kGroups + 2) * kGroupThreads;  // and those that normalise and copy
inline constexpr int kWarps = kGroupThreads / 32;               // of a group
inline constexpr int kWarpRows = kGroupRows / kWarps;
inline constexpr int kBoxRows = 32;  // channels
// Of each thread at the launch, and of one in the warpgroup that copies.
inline constexpr int kLaunchRegisters = (64 << 10) / kThreads, kCopiersRegisters = 24;

// kDepth is the number of channels, padded (streamed_depth()).
template <Format kFactor_, int kDepth_>
struct Plan {
  static constexpr Format kFactor = kFactor_;
  static constexpr int kDepth = kDepth_;
  using Traits = TileFactor<kFactor>;
  using F = typename Traits::F;
  using Gate = Stored<kFactor>;
  static constexpr int kParts = Traits::kParts, kSteps = kDepth / kStepDepth;
  using Fragments = uint32_t[kParts][kSteps][4];

  // A piece of the ring has slots that follow each other along the depth.
  static constexpr int kPieceSlots = kParts, kPieceBytes = kPieceSlots * Traits::kSlotBytes;
  static constexpr int kPieceSteps = kPieceSlots * Traits::kSlotDepth / kStepDepth;
  static constexpr int kPieces = kSteps / kPieceSteps;  // of 128 columns

  // A warp that normalises has so many edges side by side, and loads so many times as many before.
  static constexpr int kVectors = (kDepth + 127) / 128;
  static constexpr int kAtOnce = 4;
  static constexpr int kAhead = kVectors == 1 ? 4 : kVectors == 2 ? 2 : 1;

  // The registers of a thread that multiplies, and of one that normalises.
  static constexpr int kRegisters = kParts * kSteps > 16 ? 192 : 168;
  static constexpr int kMakersRegisters = 4 * kLaunchRegisters - kGroups * kRegisters - kCopiersRegisters;

  using Boxes = trimul::Boxes<3, kParts * kBoxRows * kBoxRowBytes, kParts>;

  // The shared memory of a block: places of boxes, the norm of x, rows and masks of both tiles, the
  // ring, barriers. The rows of eight edges begin in different banks.
  static constexpr int kNorm = kGroups * Boxes::kAllBytes;
  static constexpr int kNormFloats = kVectors * 128;  // weights, then as many biases
  static constexpr int kPartBytes = kDepth * int{sizeof(F)}, kRowBytes = kParts * kPartBytes + 16;
  static constexpr int kRows = kNorm + 2 * kNormFloats * int{sizeof(float)};
  static constexpr int kMasks = kRows + kGroups * kGroupRows * kRowBytes;
  static constexpr int kRing = kMasks + kGroups * kGroupRows * int{sizeof(float)};
  static constexpr int kBarriersOfGroups = kGroups * 24;
  static constexpr int kPlaces = std::min((kMostShared - kRing - kBarriersOfGroups) / (kPieceBytes + 16), 8);
  static constexpr int kBarriers = kRing + kPlaces * kPieceBytes;
  static constexpr int kShared = kBarriers + kPlaces * 16 + kBarriersOfGroups;
  static_assert(kPlaces >= kPieces, "a group ends its turn when it has all pieces of its columns");
};

struct Arguments : ProjectionInputs {
  CUtensorMap left, right, gate;
  void* gates;                   // the same as `gate`
  int side_chunks, gate_chunks;  // of 128 columns
  Tiles<kGroups> tiles;
  int64_t batches;

  template <Format kFactor>
  explicit Arguments(const Job<kFactor>& job)
      : ProjectionInputs(job),
        left(map_of_edges(job, job.left, kBoxRows, TileFactor<kFactor>::kParts)),
        right(map_of_edges(job, job.right, kBoxRows, TileFactor<kFactor>::kParts)),
        gate{},
        gates(job.gate),
        side_chunks(chunks_of(job, kStagedHidden)),
        gate_chunks(chunks_of(job, kSlotColumns)),
        tiles(job),
        batches(job.count) {
    if constexpr (sizeof(Stored<kFactor>) == 2) gate = map_of_edges(job, job.gate, kBoxRows);
  }

 private:
  template <Format kFactor>
  static int chunks_of(const Job<kFactor>& job, int channels) {
    return (static_cast<int>(job.planes.hidden) + channels - 1) / channels;
  }
};

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

// The barriers of a block, and the place of a thread in the ring.
template <class Plan>
struct Ring {
  uint32_t address;  // of the shared memory
  int at = 0;
  uint32_t phase = 0;

  __device__ uint32_t piece() const {
    return address + static_cast<uint32_t>(Plan::kRing + at * Plan::kPieceBytes);
  }
  __device__ uint32_t full(int place) const {
    return address + static_cast<uint32_t>(Plan::kBarriers + place * 16);
  }
  __device__ uint32_t empty(int place) const { return full(place) + 8; }
  // Of the rows of a group: all threads that write or read them arrive.
  __device__ uint32_t rows_full(int group) const {
    return full(Plan::kPlaces) + static_cast<uint32_t>(group * 24);
  }
  __device__ uint32_t rows_empty(int group) const { return rows_full(group) + 8; }
  // Completes when it is the group's turn to multiply.
  __device__ uint32_t turn(int group) const { return rows_full(group) + 16; }

  __device__ void advance() {
    if (++at < Plan::kPlaces) return;
    at = 0;
    phase ^= 1;
  }
  __device__ void make_barriers() const {
    for (int place = 0; place < Plan::kPlaces; ++place) {
      make_barrier(full(place), 1);
      make_barrier(empty(place), kGroups * kWarps * kCluster);
    }
    for (int group = 0; group < kGroups; ++group) {
      make_barrier(rows_full(group), kGroupThreads);
      make_barrier(rows_empty(group), kGroupThreads);
      make_barrier(turn(group), kWarps);
    }
    fence_barriers();
  }
};

}  // namespace streamed
}  // namespace assay::trimul
