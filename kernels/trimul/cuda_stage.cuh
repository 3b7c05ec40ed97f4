// SPDX-License-Identifier: Apache-2.0
// How a warp writes the projections of its 16 edges: through rows in shared memory, one for each
// channel, so that a row is written as whole sectors. No other warp takes part.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/core_cuda/packed.cuh"
#include "kernels/core_cuda/shared_memory.cuh"
#include "kernels/trimul/cuda_plan.cuh"

namespace assay::trimul {

inline constexpr int kWarpEdges = 16;
inline constexpr int kStagedColumns = 32;  // channels at once

// The layout of the rows of a warp.
template <class T>
struct Staged {
  static constexpr int kVector = 16 / int{sizeof(T)};  // edges
  static constexpr int kVectors = kWarpEdges / kVector;
  // Rows of two vectors exchange them every four columns. Longer rows are a vector apart, and eight
  // lanes read two rows that are four apart. So no two lanes use the same bank.
  static constexpr bool kIsExchanged = kVectors == 2;
  static constexpr int kPitch = 16 * (kIsExchanged ? kVectors : kVectors + 1);
  static constexpr int kBytes = kStagedColumns * kPitch;

  __device__ static int offset(int column, int vector) {
    return column * kPitch + 16 * (kIsExchanged ? vector ^ (column / 4 % 2) : vector);
  }
};

// Writes two rows of 32 columns to `staged`, as one row for each column.
template <class T>
__device__ void stage(const float* values, uint8_t* staged) {
  using Rows = Staged<T>;
  const int lane = static_cast<int>(threadIdx.x % 32);
  if constexpr (sizeof(T) == 2) {
#if __CUDA_ARCH__ >= 900
    // Four matrices at once: both halves of the edges for 16 columns.
    uint32_t to =
        shared_address(staged) + static_cast<uint32_t>(Rows::offset(lane / 16 * 8 + lane % 8, lane / 8 % 2));
#pragma unroll
    for (int j = 0; j < kStagedColumns / 8; j += 2) {
      const float* const v = values + 4 * j;
      asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(to),
                   "r"(pack_factors<T>(v[0], v[1])), "r"(pack_factors<T>(v[2], v[3])),
                   "r"(pack_factors<T>(v[4], v[5])), "r"(pack_factors<T>(v[6], v[7]))
                   : "memory");
      to += 16 * Rows::kPitch;
    }
#endif
  } else {
#pragma unroll
    for (int j = 0; j < kStagedColumns / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int column = 8 * j + lane % 4 * 2 + e % 2, edge = lane / 4 + e / 2 * 8;
        float* const to = reinterpret_cast<float*>(staged + Rows::offset(column, edge / Rows::kVector)) +
                          edge % Rows::kVector;
        *to = values[4 * j + e];
      }
    }
  }
}

// The part of the staged rows that a lane writes: vectors of kVector edges, from edge `vector` *
// kVector of the warp on, for the channels `first`, `first` + kStep and so on.
template <class T>
struct StagedLane {
  using Rows = Staged<T>;
  static constexpr int kStep = 32 / Rows::kVectors;
  int first, vector;

  __device__ StagedLane() {
    const int lane = static_cast<int>(threadIdx.x % 32);
    first = Rows::kIsExchanged ? lane / 2 : lane / 4 % 2 * 4 + lane / 8;
    vector = lane % Rows::kVectors;
  }
  // [elements] From the warp's first edge of the first channel. `plane` is the distance of
  // channels.
  __device__ int64_t offset(int64_t plane) const { return first * plane + vector * Rows::kVector; }
};

// Writes the staged rows to memory. `to` is the place of the lane's first vector; it moves on to
// the next kStagedColumns channels. The first `channels` channels exist. `step` is the distance
// [elements] from a channel of the lane to its next. Factors of 32 bits are rounded on the way.
template <Format kFactor, bool kIsFactor>
__device__ void unstage(const uint8_t* staged, const StagedLane<Stored<kFactor>>& lane, Stored<kFactor>*& to,
                        int64_t step, int64_t rest, int channels, int64_t edges) {
  using T = Stored<kFactor>;
  using Rows = Staged<T>;
  using Lane = StagedLane<T>;
  staged += Rows::offset(lane.first, lane.vector);
  if (lane.vector * Rows::kVector >= edges) channels = 0;
#pragma unroll
  for (int i = 0; i < kStagedColumns / Lane::kStep; ++i) {
    const uint4 bits = *reinterpret_cast<const uint4*>(staged + i * Lane::kStep * Rows::kPitch);
    const bool is_there = lane.first + i * Lane::kStep < channels;
    if constexpr (kIsFactor && sizeof(T) == 4) {
      float values[4] = {__uint_as_float(bits.x), __uint_as_float(bits.y), __uint_as_float(bits.z),
                         __uint_as_float(bits.w)};
      float rests[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float rounded = round_to_tf32(values[e]);
        rests[e] = rest_of_tf32(values[e], rounded);
        values[e] = rounded;
      }
      if (is_there) *reinterpret_cast<float4*>(to) = {values[0], values[1], values[2], values[3]};
      if constexpr (kFactor == Format::kTF32x3) {
        if (is_there) *reinterpret_cast<float4*>(to + rest) = {rests[0], rests[1], rests[2], rests[3]};
      }
    } else {
      if (is_there) *reinterpret_cast<uint4*>(to) = bits;
    }
    to += step;
  }
}

}  // namespace assay::trimul
