// SPDX-License-Identifier: Apache-2.0
// Boxes of edges (tensor_map.h), whose rows are channels: 64 edges of 16-bit tensors, 32 of f32. A
// warpgroup reads 64 edges as fragments, or writes them: warp w has edges 16w .. 16w + 15.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/core_cuda/bulk_copy.cuh"
#include "kernels/core_cuda/mma.cuh"
#include "kernels/core_cuda/packed.cuh"
#include "kernels/core_cuda/shared_memory.cuh"
#include "kernels/core_cuda/tensor_copy.cuh"
#include "kernels/core_cuda/tensor_map.h"
#include "kernels/trimul/cuda_plan.cuh"

namespace assay::trimul {

// Host: the map of boxes of `channels` rows of left, right, hidden or the gate. The second parts of
// factors are matrices behind those of the first parts.
template <Format kFactor, class T>
CUtensorMap map_of_edges(const Job<kFactor>& job, T* data, int channels, int parts = 1) {
  const Planes& p = job.planes;
  return map_of(Matrices{.data = data,
                         .dtype = dtype_of<T>(),
                         .columns = p.plane(),
                         .rows = p.hidden,
                         .count = parts * job.count,
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

// The boxes of T with the 64 edges of a warpgroup, one after the other.
template <class T>
inline constexpr int kBoxesOfGroup = int{sizeof(T)} / 2;

// Reads these boxes. Lane 4 r + q of a warp has values of edges r and r + 8 of the warp.
template <class T, int kChannels>
class BoxReader {
 public:
  __device__ BoxReader() {
    if constexpr (sizeof(T) == 2) {
      offsets_[0] = row_in_box();
    } else {
      const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, channel = lane % 4 * 2,
                     piece = warp % 2 * 4 + lane / 16;
      const uint32_t first = warp / 2 * kChannels * kBoxRowBytes + channel * kBoxRowBytes +
                             (piece ^ channel) * 16 + lane / 4 % 4 * 4;
      // The next channel, then two pieces further, as they are swizzled.
      offsets_[0] = first;
      offsets_[1] = (first + kBoxRowBytes) ^ 16;
      offsets_[2] = offsets_[0] ^ 32;
      offsets_[3] = offsets_[1] ^ 32;
    }
  }
  // values[half][e] is channel 16 * step + 2 q + e % 2 + e / 2 * 8 of edge r + 8 * half.
  __device__ void load(float (&values)[2][4], uint32_t boxes, int step) const {
    boxes += static_cast<uint32_t>(step * 16 * kBoxRowBytes);
    if constexpr (sizeof(T) == 2) {
      Bits<T, 2> bits;
      uint32_t fragment[4];
      load_transposed(fragment, boxes + offsets_[0]);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        bits.words[0] = fragment[i];
#pragma unroll
        for (int e = 0; e < 2; ++e) values[i % 2][i / 2 * 2 + e] = bits[e];
      }
    } else {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        values[i / 4][i % 4] = load_shared(boxes + static_cast<uint32_t>(i / 2 % 2 * 8 * kBoxRowBytes) +
                                           offsets_[i / 4 * 2 + i % 2]);
      }
    }
  }

 private:
  uint32_t offsets_[sizeof(T) == 2 ? 1 : 4];
};

inline constexpr int kBoxChannels = 64;
inline constexpr int kBoxBytes = kBoxChannels * kBoxRowBytes;

// The boxes of a warpgroup on their way to memory. They leave from kPlaces places of kBytes in
// turn, by kCopies copies each. A warpgroup waits for itself once for each box with three places,
// twice with two.
template <int kPlaces, int kBytes, int kCopies = 1>
class Boxes {
 public:
  // [bytes] of a warpgroup
  static constexpr int kAllBytes = kPlaces * kBytes;

  __device__ Boxes(uint32_t places, int group) : places_(places), in_place_(row_in_box()), group_(group) {
    copies_ = threadIdx.x % kGroupThreads == 0;
  }
  // Waits until the next place is free.
  __device__ void begin() const requires(kPlaces == 2) {
    if (copies_) wait_for_boxes_out<(kPlaces - 1) * kCopies>();
    __syncwarp();
    synchronize_group(group_);
  }
  // Writes part kPart of 2 * kCount channels to the place, from row `channel` on, a multiple of 16.
  template <Format kFactor, int kPart = 0, int kCount>
  __device__ void put(const float (&values)[kCount], int channel) const {
    uint32_t to = place() + static_cast<uint32_t>(channel * kBoxRowBytes) + in_place_;
    const auto pack = [&](int i) { return pack_part<kFactor, kPart>(values[i], values[i + 1]); };
#pragma unroll
    for (int j = 0; j < kCount; j += 8) {
      store_transposed(to, pack(j), pack(j + 2), pack(j + 4), pack(j + 6));
      to += 16 * kBoxRowBytes;
    }
  }
  // One thread calls copy(place), which starts kCopies copies: waits count them.
  template <class Copy>
  __device__ void end(Copy copy) {
    fence_async_proxy();
    if constexpr (kPlaces > 2) {
      // All but the last copies are done. So the place after this one is free.
      if (copies_) wait_for_boxes_out<(kPlaces - 2) * kCopies>();
      __syncwarp();
    }
    synchronize_group(group_);
    if (copies_) copy(place());
    __syncwarp();
    at_ = (at_ + 1) % kPlaces;
  }
  __device__ void finish() const {
    if (copies_) wait_for_boxes_out<0>();
  }

 private:
  __device__ uint32_t place() const {
    return places_ + static_cast<uint32_t>(at_ * kBytes);
  }

  uint32_t places_, in_place_;
  int group_, at_ = 0;
  bool copies_;
};

}  // namespace assay::trimul
