// SPDX-License-Identifier: Apache-2.0
// The kernel of trimul whose weights stream through shared memory past rows that stay in registers
// (cuda_project_streamed.cu), and the order of these weights.
//
// They come in sets of 64 columns. One of left or right has 32 channels: eight of the projection,
// the eight gates of these, and so on. One of the gate of the output has 64 channels. A set has
// slots along its depth, which are packed as in tile_product.cuh.
#pragma once

#include <cstdint>

#include "kernels/core_cuda/tile_product.cuh"
#include "kernels/trimul/cuda_plan.cuh"
#include "kernels/trimul/cuda_resident.cuh"

namespace assay::trimul {

inline constexpr int kSetColumns = 64, kSetChannels = kSetColumns / 2;  // of left or right

template <Format kFactor>
struct SetSlot {
  using Traits = TileFactor<kFactor>;
  static constexpr int kDepth = int{kChannelsOfPart} / Traits::kParts;
  static constexpr int kBytes = kSetColumns * kDepth * Traits::kParts * int{sizeof(typename Traits::F)};
  static constexpr int kNext = kSetColumns / 8 * Traits::kBlockBytes;
  // Rows of more channels have too many registers.
  static constexpr int kMostSlots = Traits::kParts == 1 ? 3 : 2;
};

// The sets of all projections: those of left, of right, of the gate.
struct Sets {
  int side, gate;

  explicit Sets(int64_t hidden)
      : side(static_cast<int>((hidden + kSetChannels - 1) / kSetChannels)),
        gate(static_cast<int>((hidden + kSetColumns - 1) / kSetColumns)) {}
  __host__ __device__ int all() const { return 2 * side + gate; }
};

// Whether the kernel serves a size that is not resident.
template <Format kFactor>
bool is_streamed(int64_t channels, const Planes& planes) {
  return channels > 0 && channels <= SetSlot<kFactor>::kMostSlots * SetSlot<kFactor>::kDepth &&
         planes.plane() <= INT32_MAX;
}

}  // namespace assay::trimul
