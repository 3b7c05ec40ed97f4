// SPDX-License-Identifier: Apache-2.0
// Boxes of 64 edges of 16-bit tensors (tensor_map.h), whose rows are channels. A warpgroup reads
// and writes them as fragments: warp w has edges 16w .. 16w + 15.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/core_cuda/bulk_copy.cuh"
#include "kernels/core_cuda/mma.cuh"
#include "kernels/core_cuda/tensor_copy.cuh"
#include "kernels/core_cuda/tensor_map.h"
#include "kernels/trimul/cuda_plan.cuh"

namespace assay::trimul {

// Host: the map of boxes of `channels` rows of left, right, hidden or the gate.
template <Format kFactor>
CUtensorMap map_of_edges(const Job<kFactor>& job, void* data, int channels) {
  const Planes& p = job.planes;
  return map_of(Matrices{.data = data,
                         .dtype = dtype_of<Stored<kFactor>>(),
                         .columns = p.plane(),
                         .rows = p.hidden,
                         .count = job.count,
                         .row_stride = p.plane(),
                         .matrix_stride = p.batch()},
                channels);
}

// [bytes] From the start of a box of which this lane gives a row of each of four matrices: both
// halves of its warp's edges for channels 0 .. 7, then for 8 .. 15.
__device__ inline uint32_t row_in_box() {
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32 % 4);
  const int piece = 2 * warp + lane / 8 % 2;  // of a row, eight edges
  return static_cast<uint32_t>((lane / 16 * 8 + lane % 8) * kBoxRowBytes + (piece ^ lane % 8) * 16);
}

inline constexpr int kPlaces = 2;  // in which a warpgroup collects boxes in turn
inline constexpr int kBoxChannels = 64;
inline constexpr int kBoxBytes = kBoxChannels * kBoxRowBytes;

// How a warpgroup writes its results: it collects a box in shared memory, then each warp writes
// rows of it as whole lines. The copy engine would need a fence, at which a warp waits for all that
// it loads.
template <class F>
class BoxWriter {
 public:
  // `plane` is the distance of channels in memory [elements].
  __device__ BoxWriter(uint8_t* places, int group, const int64_t& plane)
      : places_(places), in_place_(row_in_box()), group_(group), plane_(plane) {}
  // Puts kCount / 2 channels into the box, from `channel` on, a multiple of 16.
  template <Format kFactor, int kCount>
  __device__ void put(const float (&values)[kCount], int channel) const {
    uint32_t to = shared_address(place()) + static_cast<uint32_t>(channel * kBoxRowBytes) + in_place_;
    const auto pack = [&](int i) { return pack_part<kFactor, 0>(values[i], values[i + 1]); };
#pragma unroll
    for (int j = 0; j < kCount; j += 8) {
      store_transposed(to, pack(j), pack(j + 2), pack(j + 4), pack(j + 6));
      to += 16 * kBoxRowBytes;
    }
  }
  // Writes the box to the channels from `to` on, of which `channels` exist. `edges` exist from its
  // first one on.
  __device__ void write(F* to, int channels, int64_t edges) {
    // No warp fills this place again before the next box, whose barrier all warps reach after
    // reading this one.
    synchronize_group(group_);
    const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32 % 4);
    const int first = warp * kWarpRows + lane / kPieces, piece = lane % kPieces;
    if (piece * kVector >= edges) channels = 0;
    to += first * plane_ + piece * kVector;
    const uint8_t* const from = place() + first * kBoxRowBytes;
#pragma unroll
    for (int i = 0; i < kWarpRows; i += kRowsAtOnce) {
      const int row = first + i;
      const uint4 bits = *reinterpret_cast<const uint4*>(from + i * kBoxRowBytes + (piece ^ row % 8) * 16);
      if (row < channels) *reinterpret_cast<uint4*>(to) = bits;
      to += kRowsAtOnce * plane_;
    }
    at_ = (at_ + 1) % kPlaces;
  }

 private:
  static constexpr int kVector = 8, kPieces = kBoxRowBytes / 16, kRowsAtOnce = 32 / kPieces;
  static constexpr int kWarpRows = kBoxChannels / 4;

  __device__ uint8_t* place() const {
    return places_ + at_ * kBoxBytes;
  }

  uint8_t* places_;
  uint32_t in_place_;
  int group_, at_ = 0;
  const int64_t& plane_;
};

}  // namespace assay::trimul
