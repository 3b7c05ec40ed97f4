// SPDX-License-Identifier: Apache-2.0
// The producers of block_tile.cuh: from x to the factors of the first product.
#pragma once

#include <cstdint>

#include "kernels/cheri/block_plan.cuh"
#include "kernels/core_cuda/mbarrier.cuh"
#include "kernels/core_cuda/mma.cuh"
#include "kernels/core_cuda/packed.cuh"
#include "kernels/core_cuda/wgmma.cuh"

namespace assay::cheri {

// A row of x and out; example -1 if there is none.
struct Place {
  int64_t example, position;
};

template <class T>
__device__ Place place_of(const BlockArguments<T>& a, int64_t row) {
  if (row >= a.rows) return {-1, 0};
  const int64_t example =
      a.rows <= INT32_MAX ? int64_t{a.by_length(static_cast<uint32_t>(row))} : row / a.length;
  // The last examples first: they are what the statistics have left in the cache.
  return {a.examples - 1 - example, a.order.position(row - example * a.length)};
}

__device__ inline Place place_from(const Place& place, int lane) {
  return {__shfl_sync(0xFFFFFFFFu, place.example, lane), __shfl_sync(0xFFFFFFFFu, place.position, lane)};
}

template <class T>
__device__ float load_element(const T* from) {
  Bits<T, 1> bits{};
  load_pieces<int{sizeof(T)}>(bits, from, 0);
  return bits[0];
}

// Asks for a row that is needed soon; the two lanes with the same row do it together.
template <class Plan>
__device__ void prefetch_row(const BlockArguments<typename Plan::T>& a, const Place& place) {
  if (place.example < 0) return;
  const auto* const row =
      reinterpret_cast<const uint8_t*>(a.x + place.example * a.x_example + place.position * a.x_row);
  const int bytes = a.channels * int{sizeof(typename Plan::T)};
  for (int at = static_cast<int>(threadIdx.x) % 32 / 16 * 128; at < bytes; at += 256) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(row + at));
  }
}

// 16 bytes, or zeros. Volatile: loads stay where they are written, and with them the number of those on their way.
template <class T>
__device__ void load_vector(Bits<T, 16 / int{sizeof(T)}>& bits, const T* from, bool is_there) {
  bits = {};
  if (!is_there) return;
  asm volatile("ld.global.nc.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(bits.words[0]), "=r"(bits.words[1]), "=r"(bits.words[2]), "=r"(bits.words[3])
               : "l"(from));
}

template <class Plan>
__device__ void split(float low, float high, uint32_t (&parts)[Plan::kParts]) {
  parts[0] = pack_factors<typename Plan::F>(low, high);
  if constexpr (Plan::kSplit) parts[1] = pack_remainders(low, high, parts[0]);
}

// A lane's row while it is loaded.
template <class T>
struct LoadedRow {
  const T* first;    // of the lane's channels
  int64_t distance;  // [elements] to the rows of the taps
  bool is_there, has_before, has_after;
  Norm norm;

  __device__ LoadedRow(const BlockArguments<T>& a, const Place& place, int channel)
      : first(a.x + place.example * a.x_example + place.position * a.x_row + channel),
        distance(a.dilation * a.x_row),
        is_there(place.example >= 0),
        has_before(is_there && place.position >= a.dilation),
        has_after(is_there && a.dilation < a.length - place.position),
        norm(is_there ? a.norms[place.example] : Norm{}) {}
};

// x at the three taps.
template <class T>
struct Neighbourhood {
  Bits<T, 16 / int{sizeof(T)}> before, centre, after;

  __device__ void load(const LoadedRow<T>& row, int column, bool has_column) {
    load_vector(before, row.first + column - row.distance, row.has_before && has_column);
    load_vector(centre, row.first + column, row.is_there && has_column);
    load_vector(after, row.first + column + row.distance, row.has_after && has_column);
  }
};

// Normalised convolution of the lane's two rows, as factors; their first word goes to `at`.
template <class Plan>
__device__ void make_factors(const BlockArguments<typename Plan::T>& a, const Place& mine, const float* taps,
                             uint8_t* at) {
  using T = typename Plan::T;
  constexpr int kVector = Plan::kVector;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int first = lane % 4 * kVector;
  const LoadedRow<T> rows[2] = {{a, place_from(mine, lane / 4), first},
                                {a, place_from(mine, lane / 4 + 8), first}};
  // Factors of channels that do not exist are 0, even if a row is not finite.
  const auto mask_of = [&](int channel) {
    return channel + 1 < a.channels ? 0xFFFFFFFFu : channel < a.channels ? 0xFFFFu : 0u;
  };
  constexpr int kRing = Plan::kAhead + 1;
  Neighbourhood<T> x[kRing][2];
  const auto load = [&](int v) {
    const int column = v * 4 * kVector;
#pragma unroll
    for (int half = 0; half < 2; ++half)
      x[v % kRing][half].load(rows[half], column, first + column < a.channels);
  };
#pragma unroll
  for (int v = 0; v < Plan::kAhead; ++v) {
    if (v < Plan::kVectors) load(v);
  }
#pragma unroll
  for (int v = 0; v < Plan::kVectors; ++v) {
    const int column = v * 4 * kVector;
    if (v + Plan::kAhead < Plan::kVectors) load(v + Plan::kAhead);
    float w[3][kVector];
#pragma unroll
    for (int i = 0; i < 3 * kVector; i += 4) {
      const float* const from = taps + i / kVector * Plan::kColumns + first + column + i % kVector;
      *reinterpret_cast<float4*>(&w[i / kVector][i % kVector]) = *reinterpret_cast<const float4*>(from);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const LoadedRow<T>& row = rows[half];
      const Neighbourhood<T>& taken = x[v % kRing][half];
      float normalised[kVector];
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        const float value = convolve(taken.before[i], taken.centre[i], taken.after[i], row.has_before,
                                     row.has_after, w[0][i], w[1][i], w[2][i]);
        normalised[i] = row.norm(value);
      }
#pragma unroll
      for (int i = 0; i < kVector; i += 2) {
        uint32_t parts[Plan::kParts];
        split<Plan>(normalised[i], normalised[i + 1], parts);
        const uint32_t mask = mask_of(first + column + i);
        const int step = v * (kVector / 4) + i / 4;
        const int side = i % 4 / 2;
#pragma unroll
        for (int p = 0; p < Plan::kParts; ++p) {
          *reinterpret_cast<uint32_t*>(at + (p * Plan::kSteps + step) * Plan::kStepBytes + half * 256 +
                                       side * 128) = parts[p] & mask;
        }
      }
    }
    // The assembler would otherwise load all vectors first, and run out of registers.
    __syncwarp();
  }
}

// Shared memory: weights, stages, taps, barriers.
template <class Plan>
struct Layout {
  uint8_t* stages;
  float* taps;
  uint32_t weights, full, empty;  // barriers of each stage: its factors are there, they are used up
  int stage_log;

  __device__ Layout(uint8_t* shared, int slots, int log)
      : stages(shared + slots * Plan::kUnit),
        taps(reinterpret_cast<float*>(stages + (Plan::kStageBytes << log))),
        weights(shared_address(shared)),
        full(shared_address(taps + 3 * Plan::kColumns)),
        empty(full + 8 * kMostStages),
        stage_log(log) {}

  static int64_t bytes(int64_t slots, int64_t stages) {
    return slots * Plan::kUnit + stages * Plan::kStageBytes + 3 * Plan::kColumns * int64_t{sizeof(float)} +
           2 * kMostStages * int64_t{sizeof(uint64_t)};
  }

  __device__ int stage_of(int item) const { return item & ((1 << stage_log) - 1); }
  __device__ uint32_t parity_of(int item) const { return item >> stage_log & 1; }  // of the phases of an item
  __device__ uint8_t* factors_of(int item) const { return stages + stage_of(item) * Plan::kStageBytes; }
  __device__ RowOffsets* offsets_of(int item) const {
    return reinterpret_cast<RowOffsets*>(factors_of(item) + Plan::kFactorBytes);
  }
  __device__ uint32_t full_of(int item) const { return full + 8 * stage_of(item); }
  __device__ uint32_t empty_of(int item) const { return empty + 8 * stage_of(item); }
};

// Item number i of the block: neighbouring tiles for its consumers.
template <class Plan>
__device__ int tile_of(int item) {
  const int round = item / Plan::kConsumers;
  return (round * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x)) * Plan::kConsumers +
         item % Plan::kConsumers;
}

template <class Plan>
__device__ void produce(const BlockArguments<typename Plan::T>& a, const Layout<Plan>& layout, int producer) {
  const int warp = static_cast<int>(threadIdx.x) % kGroupThreads / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto place_in = [&](int tile) {
    return tile < a.tiles ? place_of(a, int64_t{tile} * kTileRows + warp * 16 + lane % 16) : Place{-1, 0};
  };
  Place place = place_in(tile_of<Plan>(producer));
  for (int item = producer; tile_of<Plan>(item) < a.tiles; item += Plan::kProducers) {
    uint8_t* const factors = layout.factors_of(item);
    wait_for_phase(layout.empty_of(item), layout.parity_of(item) ^ 1);
    if (lane < 16) {
      const bool is_there = place.example >= 0;
      layout.offsets_of(item)[warp * 16 + lane] = {
          is_there ? place.example * a.x_example + place.position * a.x_row : -1,
          place.example * a.out_example + place.position * a.out_row};
    }
    const Place next = place_in(tile_of<Plan>(item + Plan::kProducers));
    prefetch_row<Plan>(a, next);
    make_factors<Plan>(a, place, layout.taps, factors + warp * 512 + lane * 4);
    place = next;
#if ASSAY_HAS_WGMMA
    fence_async_proxy();
#endif
    arrive(layout.full_of(item));
  }
}

}  // namespace assay::cheri
