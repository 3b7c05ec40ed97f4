// SPDX-License-Identifier: Apache-2.0
// When the weights of trimul's projections stay in shared memory, and how they are then packed.
#pragma once

#include <cstdint>
#include <cstdlib>

#include "kernels/core_cuda/tile_product.cuh"
#include "kernels/trimul/cuda_plan.cuh"

namespace assay::trimul {

// Whether they fit. A position in a plane is then a coordinate of a box.
template <Format kFactor>
bool is_resident(int64_t channels, const Planes& planes) {
  if (const char* e = std::getenv("K2_PROJECT"); e != nullptr && e[0] == '0') return false;
  return TileFactor<kFactor>::kParts == 1 && channels > 0 && channels <= kChannelsOfPart &&
         planes.hidden <= kSlotColumns && planes.plane() <= INT32_MAX;
}

inline constexpr int kStepDepth = 16;  // of a wgmma

// The sum over the four lanes that have the same edge.
__device__ inline float add_up_row(float value) {
  value += __shfl_xor_sync(0xFFFFFFFFu, value, 1);
  return value + __shfl_xor_sync(0xFFFFFFFFu, value, 2);
}

}  // namespace assay::trimul
