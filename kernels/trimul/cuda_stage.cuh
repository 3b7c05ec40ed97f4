// SPDX-License-Identifier: Apache-2.0
// How a warp writes the projections of its 16 edges: 16-bit values through rows in shared memory,
// one for each channel, so that a row is written as a whole sector; f32 as it is. No other warp
// takes part.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/core_cuda/mma.cuh"
#include "kernels/core_cuda/packed.cuh"
#include "kernels/core_cuda/shared_memory.cuh"
#include "kernels/trimul/cuda_plan.cuh"

namespace assay::trimul {

inline constexpr int kWarpEdges = 16;
inline constexpr int kStagedColumns = 32;  // channels at once

// The layout of the rows of a warp. A row has two vectors of eight edges, which change places every
// four columns. So no two lanes use the same bank.
struct Staged {
  static constexpr int kVector = 8, kVectors = kWarpEdges / kVector;
  static constexpr int kPitch = 16 * kVectors;
  static constexpr int kBytes = kStagedColumns * kPitch;

  __device__ static int offset(int column, int vector) {
    return column * kPitch + 16 * (vector ^ (column / 4 % 2));
  }
};

// Writes part kPart of two rows of 32 columns to `staged`, as one row for each column.
template <Format kFactor, int kPart>
__device__ void stage(const float* values, uint8_t* staged) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const auto pack = [&](int i) { return pack_part<kFactor, kPart>(values[i], values[i + 1]); };
  // Four matrices at once: both halves of the edges for 16 columns.
  uint32_t to =
      shared_address(staged) + static_cast<uint32_t>(Staged::offset(lane / 16 * 8 + lane % 8, lane / 8 % 2));
#pragma unroll
  for (int j = 0; j < 4 * (kStagedColumns / 8); j += 8) {
    store_transposed(to, pack(j), pack(j + 2), pack(j + 4), pack(j + 6));
    to += 16 * Staged::kPitch;
  }
}

// The part of the staged rows that a lane writes: vector number `vector` of the warp's edges, for
// the channels `first`, `first` + kStep and so on.
struct StagedLane {
  static constexpr int kStep = 32 / Staged::kVectors;
  int first, vector;

  __device__ StagedLane() {
    const int lane = static_cast<int>(threadIdx.x % 32);
    first = lane / Staged::kVectors;
    vector = lane % Staged::kVectors;
  }
  // [elements] From the warp's first edge of the first channel. `plane` is the distance of
  // channels.
  __device__ int64_t offset(int64_t plane) const { return first * plane + vector * Staged::kVector; }
};

// Writes the staged rows to memory. `to` is the place of the lane's first vector; it moves on to
// the next kStagedColumns channels. The first `channels` channels exist. `step` is the distance
// [elements] from a channel of the lane to its next.
template <class T>
__device__ void unstage(const uint8_t* staged, const StagedLane& lane, T*& to, int64_t step, int channels,
                        int64_t edges) {
  staged += Staged::offset(lane.first, lane.vector);
  if (lane.vector * Staged::kVector >= edges) channels = 0;
#pragma unroll
  for (int i = 0; i < kStagedColumns / StagedLane::kStep; ++i) {
    const uint4 bits = *reinterpret_cast<const uint4*>(staged + i * StagedLane::kStep * Staged::kPitch);
    if (lane.first + i * StagedLane::kStep < channels) *reinterpret_cast<uint4*>(to) = bits;
    to += step;
  }
}

// Writes two rows of 64 columns of f32, of which the first `channels` exist. Eight lanes write a
// sector. `to` is the place of edge lane / 4 in column lane % 4 * 2; it moves on to the next 64.
__device__ inline void write_columns(const float (&values)[32], float*& to, int64_t plane, int channels,
                                     int64_t edges) {
  const int first = static_cast<int>(threadIdx.x % 4) * 2;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      float* const column = to + e * plane;
      const bool is_there = first + 8 * j + e < channels;
      if (is_there && edges > 0) column[0] = values[4 * j + e];
      if (is_there && edges > 8) column[8] = values[4 * j + 2 + e];
    }
    to += 8 * plane;
  }
}

}  // namespace assay::trimul
