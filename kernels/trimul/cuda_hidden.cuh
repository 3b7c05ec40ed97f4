// SPDX-License-Identifier: Apache-2.0
// hidden and the gate of the output in registers. A thread has eight channels of eight edges, a
// block has 64 edges.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "kernels/core_cuda/packed.cuh"
#include "kernels/core_cuda/tile_product.cuh"
#include "kernels/trimul/cuda_plan.cuh"

namespace assay::trimul {

// Eight edges of one channel.
template <class T>
using Eight = Bits<T, 8>;

// Where a thread's edges lie in the first channel: one vector of 16 bytes, in f32 two that are 32
// edges apart. So eight threads read whole lines at once. Neighbours stand in for edges that do not
// exist. Nothing uses their results.
template <class T>
struct EdgesOfThread {
  static constexpr int kVector = 16 / int{sizeof(T)}, kApart = 8 * kVector;  // [edges]
  const T* first;
  int next;  // [elements] from the first vector to the second

  // The place in the block of edge e of the threads with threadIdx.x % 8 = thread.
  __device__ static int number(int thread, int e) {
    return e / kVector * kApart + thread * kVector + e % kVector;
  }
  __device__ EdgesOfThread(const void* tensor, const Planes& planes, int64_t in_job, int64_t first_edge) {
    const int64_t edge = first_edge + number(static_cast<int>(threadIdx.x % 8), 0);
    first = static_cast<const T*>(tensor) + in_job * planes.batch() + (edge < planes.plane() ? edge : 0);
    next = edge + kApart < planes.plane() ? kApart : 0;
  }
  // Loads the edges of the channel that is `offset` elements from the first one.
  __device__ Eight<T> load(int64_t offset) const {
    Eight<T> bits;
#pragma unroll
    for (int i = 0; i < 8 / kVector; ++i) {
      reinterpret_cast<uint4*>(bits.words)[i] =
          __ldcs(reinterpret_cast<const uint4*>(first + offset + i * next));
    }
    return bits;
  }
};

// A thread's part of hidden or of the gate: its edges and, in each block, 8 channels from `channel`
// on. Neighbours stand in for channels that do not exist, too.
template <class Plan>
struct Values {
  using T = typename Plan::T;
  Eight<T> values[Plan::kBlocks][8];

  __device__ static int channel(int block) { return 128 * block + static_cast<int>(threadIdx.x / 8) * 8; }

  __device__ void load(const EdgesOfThread<T>& from, const Planes& planes) {
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
        bits = from.load(min(channel, hidden - 8) * plane + c * plane);
      });
    } else {
      for_each([&](Eight<T>& bits, int channel, int c) {
        bits = from.load(min(channel + c, hidden - 1) * plane);
      });
    }
  }
};

// Sums values over the threads of the block for each edge. A thread has eight edges, which depend
// on lane % 8. `shared` has 64 floats for each warp.
__device__ inline void add_up(float (&values)[8], float* shared) {
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
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
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    values[i] = own[i] + own[kGroupRows + i] + (own[2 * kGroupRows + i] + own[3 * kGroupRows + i]);
  }
}

}  // namespace assay::trimul
