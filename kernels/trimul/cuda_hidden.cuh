// SPDX-License-Identifier: Apache-2.0
// hidden and the gate of the output in registers. A thread has eight channels of eight edges, a
// group has 64 edges.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "kernels/core_cuda/packed.cuh"
#include "kernels/core_cuda/tile_product.cuh"
#include "kernels/trimul/cuda_plan.cuh"

namespace assay::trimul {

// Eight neighbouring edges of one channel.
template <class T>
using Eight = Bits<T, 8>;

template <class T>
__device__ Eight<T> load_eight(const T* from) {
  Eight<T> bits;
#pragma unroll
  for (int i = 0; i < Eight<T>::kBytes / 16; ++i) {
    reinterpret_cast<uint4*>(bits.words)[i] = __ldcs(reinterpret_cast<const uint4*>(from) + i);
  }
  return bits;
}

// A thread's part of hidden or of the gate: 8 edges from `vector` on and, in each block, 8 channels
// from `channel` on. Neighbours stand in for channels and edges that do not exist. Nothing uses
// their results.
template <class Plan>
struct Values {
  using T = typename Plan::T;
  Eight<T> values[Plan::kBlocks][8];

  __device__ static int vector() { return static_cast<int>(threadIdx.x % 8) * 8; }
  __device__ static int channel(int block) {
    return 128 * block + static_cast<int>(threadIdx.x % kGroupThreads / 8) * 8;
  }

  // The address of the thread's edges in the first channel.
  __device__ static const T* edges(const void* tensor, const Planes& planes, int64_t in_job,
                                   int64_t first_edge) {
    const int64_t edge = first_edge + vector();
    return static_cast<const T*>(tensor) + in_job * planes.batch() + (edge < planes.plane() ? edge : 0);
  }

  // Loads the values. `from` comes from edges().
  __device__ void load(const T* from, const Planes& planes) {
    const auto hidden = static_cast<int>(planes.hidden);
    const int64_t plane = planes.plane();
    const auto for_each = [&](auto visit) {
#pragma unroll
      for (int block = 0; block < Plan::kBlocks; ++block) {
#pragma unroll
        for (int c = 0; c < 8; ++c) visit(values[block][c], channel(block), c);
      }
    };
    if (hidden == 0) {
      for_each([](Eight<T>& bits, int, int) { bits = {}; });
    } else if (hidden % 8 == 0) {
      for_each([&](Eight<T>& bits, int channel, int c) {
        bits = load_eight(from + min(channel, hidden - 8) * plane + c * plane);
      });
    } else {
      for_each([&](Eight<T>& bits, int channel, int c) {
        bits = load_eight(from + min(channel + c, hidden - 1) * plane);
      });
    }
  }
};

// Sums values over the threads of a group for each edge. A thread has eight edges, which depend on
// lane % 8. `shared` has 64 floats for each warp of the group.
__device__ inline void add_up(float (&values)[8], float* shared, int group) {
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32 % 4);
#pragma unroll
  for (float& value : values) {
    value += __shfl_xor_sync(0xFFFFFFFFu, value, 8);
    value += __shfl_xor_sync(0xFFFFFFFFu, value, 16);
  }
  float* const own = shared + lane % 8 * 8;
  if (lane < 8) {
#pragma unroll
    for (int i = 0; i < 8; i += 4) {
      *reinterpret_cast<float4*>(own + warp * kGroupRows + i) = {values[i], values[i + 1], values[i + 2],
                                                                 values[i + 3]};
    }
  }
  synchronize_group(group);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    values[i] = own[i] + own[kGroupRows + i] + (own[2 * kGroupRows + i] + own[3 * kGroupRows + i]);
  }
}

}  // namespace assay::trimul
