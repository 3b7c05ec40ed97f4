// SPDX-License-Identifier: Apache-2.0
// The last kernel of trimul with to_out in shared memory (cuda_finish_resident.cu): what its blocks
// consist of.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/core_cuda/tile_product.cuh"
#include "kernels/trimul/cuda_boxes.cuh"
#include "kernels/trimul/cuda_out.cuh"
#include "kernels/trimul/cuda_plan.cuh"
#include "kernels/trimul/cuda_tiles.cuh"

namespace assay::trimul::finishing {

// kDepth is the number of hidden channels, padded (depth_of_out()).
template <Format kFactor_, int kDepth_>
struct Plan {
  static constexpr Format kFactor = kFactor_;
  using Traits = TileFactor<kFactor>;
  using F = typename Traits::F;
  using T = Stored<kFactor>;
  static constexpr int kParts = Traits::kParts, kDepth = kDepth_, kSteps = kDepth / kStepDepth;
  // Of kSlotColumns.
  static constexpr int kColumnsBytes = kDepth / Traits::kSlotDepth * Traits::kSlotBytes;
  static constexpr int kBoxBytes = kDepth * kBoxRowBytes;
  static constexpr int kStageBytes = kBoxesOfGroup<T> * kBoxBytes;  // of hidden, or of the gate
  // Shared memory has room for boxes of f32 of two warpgroups.
  static constexpr int kGroups = sizeof(T) == 4 ? 2 : 3, kThreads = kGroups * kGroupThreads;
  using Tiles = trimul::Tiles<kGroups>;
  using Reader = BoxReader<T, kDepth>;
};

template <class Plan>
struct Arguments : FinishInputs {
  CUtensorMap hidden, gate;
  int stages = 0;
  int sharers = 1;  // blocks that read the same tiles for different columns of out
  float share;      // of a hidden channel in the mean
  typename Plan::Tiles tiles;

  explicit Arguments(const Job<Plan::kFactor>& job)
      : FinishInputs(job),
        hidden(map_of_edges(job, job.hidden, Plan::kDepth)),
        gate(map_of_edges(job, job.gate, Plan::kDepth)),
        share(1.0f / static_cast<float>(job.planes.hidden)),
        tiles(job) {}
  // Of kSlotColumns, in a block.
  __host__ __device__ int own_chunks() const { return chunks / sharers; }
};

// The first channel of out of a block.
template <class Plan>
__device__ int own_columns(const Arguments<Plan>& a) {
  return static_cast<int>(blockIdx.x) % a.sharers * a.own_chunks() * kSlotColumns;
}

// The shared memory of a block: boxes of hidden, those of the gate, to_out, the norm of hidden,
// barriers.
template <class Plan>
struct Shared {
  uint32_t hidden, gate, weights, norm, barriers, end;

  __host__ __device__ constexpr Shared(uint32_t address, int stages, int chunks)
      : hidden(address),
        gate(hidden + static_cast<uint32_t>(Plan::kGroups * stages * Plan::kStageBytes)),
        weights(gate + static_cast<uint32_t>(Plan::kGroups * stages * Plan::kStageBytes)),
        norm(weights + static_cast<uint32_t>(chunks * Plan::kColumnsBytes)),
        barriers(norm + 2 * static_cast<uint32_t>(Plan::kDepth * int{sizeof(float)})),
        end(barriers + static_cast<uint32_t>(8 * (1 + 2 * Plan::kGroups * stages))) {}
};

}  // namespace assay::trimul::finishing
