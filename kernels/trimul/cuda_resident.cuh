// SPDX-License-Identifier: Apache-2.0
// The kernels of trimul whose weights stay in shared memory. There is one block on a
// multiprocessor. Its warpgroups, at most three, take tiles of 64 edges, each for itself.
//
// For the projections, columns of left and right alternate: eight of the projection, the eight
// gates of these. Channels of a step are ordered so that a thread has four neighbours (in_fours()
// in cuda_weights.cu).
#pragma once

#include <cstdint>

#include "kernels/core_cuda/tile_product.cuh"
#include "kernels/trimul/cuda_plan.cuh"
#include "kernels/trimul/cuda_tiles.cuh"

namespace assay::trimul {

inline constexpr int kResidentGroups = 3, kResidentThreads = kResidentGroups * kGroupThreads;

// Whether the weights of all projections fit, and a position in a plane is a coordinate of a box.
template <Format kFactor>
bool is_resident(int64_t channels, const Planes& planes) {
  return TileFactor<kFactor>::kParts == 1 && channels > 0 && channels <= kChannelsOfPart &&
         planes.hidden <= kSlotColumns && planes.plane() <= INT32_MAX;
}

using ResidentTiles = Tiles<kResidentGroups>;

// The sum over the four lanes that have the same edge.
__device__ inline float add_up_row(float value) {
  value += __shfl_xor_sync(0xFFFFFFFFu, value, 1);
  return value + __shfl_xor_sync(0xFFFFFFFFu, value, 2);
}

}  // namespace assay::trimul
