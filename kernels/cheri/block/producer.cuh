// SPDX-License-Identifier: Apache-2.0
// The producers of tile.cuh. They bring weights and x to shared memory and tell where each row
// lies.
//
// Pieces of x, some columns of a tile each, go to the slots for pieces in turn. Each slot has a
// warp, which fills it as soon as the piece before has been used. Another warp brings the weights,
// chunk after chunk, to a ring of slots. If every chunk has a slot, it brings them once. Otherwise
// it brings them again and again, and then all consumers do as many tiles as the first one.
#pragma once

#include <cstdint>

#include "kernels/cheri/block/plan.cuh"
#include "kernels/core_cuda/bulk_copy.cuh"
#include "kernels/core_cuda/dependent_launch.cuh"
#include "kernels/core_cuda/mbarrier.cuh"
#include "kernels/core_cuda/shared_memory.cuh"
#include "kernels/core_cuda/wgmma.cuh"

namespace assay::cheri {

// The layout of shared memory: weights, pieces of x and the rows of their tiles, taps, barriers.
template <class Plan>
struct Layout {
  const uint8_t* pieces;
  RowInfo* rows;
  float* taps;
  uint32_t weights;
  uint32_t piece_full;               // for each slot of each consumer: its piece is complete
  uint32_t piece_empty;              // for each slot: its piece has been used
  uint32_t chunk_full, chunk_empty;  // for each chunk

  static constexpr int kPieceBarriers = (Plan::kConsumers + 1) * Plan::kSlots;

  __device__ Layout(uint8_t* shared, int slots) {
    uint8_t* at = shared + slots * Plan::kUnit;
    weights = shared_address(shared);
    pieces = at;
    at += Plan::kSlots * Plan::kPieceBytes;
    rows = reinterpret_cast<RowInfo*>(at);
    at += Plan::kSlots * kTileRows * sizeof(RowInfo);
    taps = reinterpret_cast<float*>(at);
    at += 3 * Plan::kColumns * sizeof(float);
    piece_full = shared_address(at);
    piece_empty = piece_full + 8 * Plan::kConsumers * Plan::kSlots;
    chunk_full = piece_full + 8 * kPieceBarriers;
    chunk_empty = chunk_full + 8 * slots;
  }

  // [bytes] For each chunk of the weights, and for everything else.
  static constexpr int64_t kChunkBytes = Plan::kUnit + 2 * int64_t{sizeof(uint64_t)};
  static constexpr int64_t kFixedBytes =
      Plan::kSlots * (Plan::kPieceBytes + kTileRows * int64_t{sizeof(RowInfo)}) +
      3 * Plan::kColumns * int64_t{sizeof(float)} + kPieceBarriers * int64_t{sizeof(uint64_t)};

  __device__ uint32_t full_of(int consumer, int slot) const {
    return piece_full + 8 * (consumer * Plan::kSlots + slot);
  }
  __device__ uint32_t empty_of(int slot) const { return piece_empty + 8 * slot; }
};

// One thread calls it, before all others come to a barrier. The lanes of a warp bring a piece, and
// all threads of a consumer give it back. One thread brings the weights, and whole warps give them
// back.
template <class Plan>
__device__ void make_barriers(const Layout<Plan>& layout, int slots) {
  constexpr int kWarps = kGroupThreads / 32;
  for (int i = 0; i < Plan::kConsumers * Plan::kSlots; ++i) make_barrier(layout.piece_full + 8 * i, 32);
  for (int slot = 0; slot < Plan::kSlots; ++slot) make_barrier(layout.empty_of(slot), kGroupThreads);
  for (int slot = 0; slot < slots; ++slot) {
    make_barrier(layout.chunk_full + 8 * slot, 1);
    make_barrier(layout.chunk_empty + 8 * slot, Plan::kConsumers * kWarps);
  }
  fence_async_proxy();
}

// Each warp of the consumers calls it when it has used a slot's weights. Without wgmma they are
// read by loads.
template <class Plan>
__device__ void release_chunk(const Layout<Plan>& layout, int slot) {
  if constexpr (!ASSAY_HAS_WGMMA) fence_async_proxy();
  __syncwarp();
  if (threadIdx.x % 32 == 0) arrive(layout.chunk_empty + 8 * slot);
}

// Tile number `item` of a consumer. The tiles of a block's consumers are far apart, so that few
// tiles use many blocks.
template <class Plan>
__device__ int64_t tile_of(int64_t item, int consumer) {
  return (item * Plan::kConsumers + consumer) * gridDim.x + blockIdx.x;
}

template <class Plan>
__device__ bool has_item(const BlockArguments<typename Plan::T>& a, int64_t item, int consumer) {
  return tile_of<Plan>(item, a.streams ? 0 : consumer) < a.tiles;
}

// A row of x and out.
struct Place {
  int64_t example, position;
  int width;  // how many numbers its taps are away
};

template <class T>
__device__ Place place_of(const BlockArguments<T>& a, int64_t number) {
  const int64_t example = a.by_length(number);
  const RowOrder::Number row = a.order(number - example * a.length);
  // The last examples come first: the statistics have left them in the cache.
  return {a.examples - 1 - example, row.position, row.width};
}

template <class Plan>
__device__ RowInfo info_of(const BlockArguments<typename Plan::T>& a, int64_t number) {
  if (number >= a.rows) return {-1, -1, 0, 0, {}};
  const Place place = place_of(a, number);
  const int distance = place.width * a.pitch;
  return {place.example * a.x_example + place.position * a.x_row,
          place.example * a.out_example + place.position * a.out_row,
          place.position >= a.dilation ? -distance : 0, a.dilation < a.length - place.position ? distance : 0,
          a.norms[place.example]};
}

// A piece of a tile.
struct Piece {
  int consumer, part;
  int64_t tile;
};

// Brings a piece of the rows of a tile, half by half, each with the rows beside it. Rows that also
// follow each other in x come in one copy.
template <class Plan>
__device__ void produce_piece(const BlockArguments<typename Plan::T>& a, const Layout<Plan>& layout, int slot,
                              const Piece& piece) {
  using T = typename Plan::T;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const uint32_t full = layout.full_of(piece.consumer, slot);
  const uint32_t to = shared_address(layout.pieces) + slot * Plan::kPieceBytes;
  constexpr int kVectorBytes = 16;
  const int columns = min(a.channels - piece.part * Plan::kPieceColumns, Plan::kPieceColumns);
  const int bytes = (columns * int{sizeof(T)} + kVectorBytes - 1) / kVectorBytes * kVectorBytes;
  int copied = 0;
#pragma unroll 1
  for (int first = 0; first < 2 * kHalfRows; first += 32) {
    const int row = first + lane, half = row >= kHalfRows;
    const int in_half = row - half * kHalfRows - kHalo, in_tile = in_half + half * (kTileRows / 2);
    const int64_t number = piece.tile * kTileRows + in_tile;
    const bool exists = row < 2 * kHalfRows && number >= 0 && number < a.rows;
    Place place{};
    if (exists) place = place_of(a, number);
    const bool is_wanted = exists && in_half >= -a.order.halo && in_half < kTileRows / 2 + a.order.halo;
    const auto from = reinterpret_cast<uintptr_t>(
        a.x + place.example * a.x_example + place.position * a.x_row + piece.part * Plan::kPieceColumns);
    const uint32_t wanted = __ballot_sync(0xFFFFFFFFu, is_wanted);
    const uintptr_t before = __shfl_up_sync(0xFFFFFFFFu, from, 1);
    const bool follows =
        lane > 0 && (wanted >> (lane - 1) & 1) != 0 && from == before + a.pitch && in_half > -kHalo;
    const uint32_t starts = __ballot_sync(0xFFFFFFFFu, !is_wanted || !follows);
    if (is_wanted && !follows) {
      const uint32_t later = lane < 31 ? starts >> (lane + 1) : 0;
      const int rows = later != 0 ? __ffs(static_cast<int>(later)) : 32 - lane;
      const int all = (rows - 1) * a.pitch + bytes;
      copy_bulk<Plan::kKeepsX ? CacheUse::kOnce : CacheUse::kAgain>(
          to + half * Plan::kHalfBytes + (in_half + kHalo) * a.pitch, reinterpret_cast<const void*>(from),
          all, full);
      copied += all;
    }
  }
  // The copies above may start before the statistics exist. What follows needs the statistics.
  wait_for_kernel_before();
#pragma unroll 1
  for (int row = lane; row < kTileRows; row += 32) {
    layout.rows[slot * kTileRows + row] = info_of<Plan>(a, piece.tile * kTileRows + row);
  }
  arrive_with_copies(full, copied);
}

// The number of a piece. Pieces are brought in the order of their numbers, number n to slot n %
// kSlots. This is the order in which equally fast consumers use them.
template <class Plan>
__device__ int piece_number(int item, int out, int consumer) {
  return ((item * Plan::kOuts + out) * Plan::kConsumers + consumer) * Plan::kPieces;
}

// The warp of a slot calls it.
template <class Plan>
__device__ void produce_pieces(const BlockArguments<typename Plan::T>& a, const Layout<Plan>& layout,
                               int slot) {
  uint32_t parity = 1;
  for (int item = 0; has_item<Plan>(a, item, 0); ++item) {
    for (int out = 0; out < Plan::kOuts; ++out) {
      for (int consumer = 0; consumer < Plan::kConsumers; ++consumer) {
        for (int part = 0; part < Plan::kPieces; ++part) {
          const int number = piece_number<Plan>(item, out, consumer) + part;
          if (number % Plan::kSlots != slot || !has_item<Plan>(a, item, consumer)) continue;
          wait_for_phase(layout.empty_of(slot), parity);
          parity ^= 1;
          produce_piece<Plan>(a, layout, slot, {consumer, part, tile_of<Plan>(item, consumer)});
        }
      }
    }
  }
}

// Brings one chunk of the weights, for the columns of out from out * kOutColumns on.
template <class Plan>
__device__ void produce_chunk(const BlockArguments<typename Plan::T>& a, int chunk, int out, uint32_t slot,
                              uint32_t full) {
  // Each step of w2 has all columns.
  constexpr int kStepBytes = Plan::kColumns * 32, kOutBytes = Plan::kOutColumns * 32;
  constexpr int kPieces = Plan::kOuts == 1 ? 1 : Plan::kChunkSteps;
#pragma unroll
  for (int p = 0; p < Plan::kParts; ++p) {
    copy_bulk<CacheUse::kAgain>(slot + p * Plan::kFirstBytes,
                                a.weights + p * a.weight_bytes + int64_t{chunk} * Plan::kFirstBytes,
                                Plan::kFirstBytes, full);
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
      constexpr int kBytes = Plan::kSecondBytes / kPieces;
      copy_bulk<CacheUse::kAgain>(
          slot + Plan::kParts * Plan::kFirstBytes + p * Plan::kSecondBytes + piece * kBytes,
          a.weights + (Plan::kParts + p) * a.weight_bytes +
              (int64_t{chunk} * Plan::kChunkSteps + piece) * kStepBytes + out * kOutBytes,
          kBytes, full);
    }
  }
  arrive_with_copies(full, Plan::kUnit);
}

// One thread calls it.
template <class Plan>
__device__ void produce_weights(const BlockArguments<typename Plan::T>& a, const Layout<Plan>& layout) {
  int slot = 0;
  uint32_t parity = 1;
  for (int64_t item = 0; a.streams ? has_item<Plan>(a, item, 0) : item == 0; ++item) {
    for (int out = 0; out < Plan::kOuts; ++out) {
      for (int chunk = 0; chunk < a.chunks; ++chunk) {
        wait_for_phase(layout.chunk_empty + 8 * slot, parity);
        produce_chunk<Plan>(a, chunk, out, layout.weights + slot * Plan::kUnit, layout.chunk_full + 8 * slot);
        if (++slot == a.slots) {
          slot = 0;
          parity ^= 1;
        }
      }
    }
  }
}

// Of the warps after those for the slots, only the first thread of the first one has work.
template <class Plan>
__device__ void produce(const BlockArguments<typename Plan::T>& a, const Layout<Plan>& layout, int thread) {
  if (thread < Plan::kSlots * 32) {
    produce_pieces<Plan>(a, layout, thread / 32);
  } else if (thread == Plan::kSlots * 32) {
    produce_weights<Plan>(a, layout);
  }
}

}  // namespace assay::cheri
