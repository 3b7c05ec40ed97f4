// SPDX-License-Identifier: Apache-2.0
// When the weights of trimul's projections stay in shared memory. Columns of left and right then
// alternate: eight of the projection, the eight gates of these. Channels of a step are ordered so
// that a thread has four neighbours (in_fours() in cuda_weights.cu).
#pragma once

#include <cstdint>

#include "kernels/core_cuda/tile_product.cuh"
#include "kernels/trimul/cuda_plan.cuh"

#if !ASSAY_HAS_WGMMA
#pragma nv_diag_suppress 177  // constants of kernels that are not compiled
#endif

namespace assay::trimul {

// Whether they fit, and a position in a plane is a coordinate of a box.
template <Format kFactor>
bool is_resident(int64_t channels, const Planes& planes) {
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
