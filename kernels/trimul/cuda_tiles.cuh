// SPDX-License-Identifier: Apache-2.0
// Tiles of 64 edges that the warpgroups of persistent blocks take.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/core/error.h"
#include "kernels/core_cuda/limits.h"
#include "kernels/core_cuda/tile_product.cuh"
#include "kernels/trimul/cuda_plan.cuh"

namespace assay::trimul {

inline constexpr int kStepDepth = 16;          // of a wgmma
inline constexpr int kMostShared = 227 << 10;  // [bytes] of a block of compute capability 9.0

// The tiles of a launch, for kGroups warpgroups in each block.
template <int kGroups>
struct Tiles {
  uint32_t of_batch, all;

  template <Format kFactor>
  explicit Tiles(const Job<kFactor>& job) {
    const int64_t tiles = (job.planes.plane() + kGroupRows - 1) / kGroupRows;
    if (tiles * job.count > INT32_MAX) {
      throw unsupported_error("{} tiles of {} edges are more than {}", tiles * job.count, kGroupRows,
                              INT32_MAX);
    }
    of_batch = static_cast<uint32_t>(tiles);
    all = static_cast<uint32_t>(tiles * job.count);
  }
  unsigned blocks(int multiprocessors) const {
    const int64_t most = (int64_t{all} + kGroups - 1) / kGroups;
    return static_cast<unsigned>(std::min({int64_t{multiprocessors}, most, kMostBlocks.value()}));
  }
  // Those of a warpgroup are first(), first() + step() and so on. `sharers` neighbouring blocks
  // have the same.
  __device__ static uint32_t first(int group, int sharers = 1) {
    const auto by = static_cast<uint32_t>(sharers);
    return static_cast<uint32_t>(group) * (gridDim.x / by) + blockIdx.x / by;
  }
  __device__ static uint32_t step(int sharers = 1) {
    return kGroups * (gridDim.x / static_cast<uint32_t>(sharers));
  }
};
}  // namespace assay::trimul
