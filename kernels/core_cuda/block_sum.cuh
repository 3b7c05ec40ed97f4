// SPDX-License-Identifier: Apache-2.0
// Sums in double over the threads of a block, in an order that depends on the number of threads
// alone.
#pragma once

#include <bit>

namespace assay {

inline constexpr int kWarp = 32;  // [threads]

// Adds over the 32 lanes of a complete warp of a one-dimensional block. All lanes get the results.
template <int kSums>
__device__ void sum_over_warp(double (&sums)[kSums]) {
  constexpr int kPlaces = static_cast<int>(std::bit_ceil(static_cast<unsigned>(kSums)));
  static_assert(kPlaces <= kWarp, "each lane ends with one sum");
  double own[kPlaces]{};
#pragma unroll
  for (int i = 0; i < kSums; ++i) own[i] = sums[i];
  // Of two lanes, each goes on with half of their sums, until it has one.
  int count = kPlaces / 2;
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    const bool is_upper = (threadIdx.x & static_cast<unsigned>(offset)) != 0;
#pragma unroll
    for (int i = 0; i < max(count, 1); ++i) {
      const double given = is_upper || count == 0 ? own[i] : own[count + i];
      const double kept = is_upper && count > 0 ? own[count + i] : own[i];
      own[i] = kept + __shfl_xor_sync(0xFFFFFFFFu, given, offset);
    }
    count /= 2;
  }
#pragma unroll
  for (int i = 0; i < kSums; ++i) sums[i] = __shfl_sync(0xFFFFFFFFu, own[0], i * (kWarp / kPlaces));
}

// Adds over all threads of a one-dimensional block of whole warps, 1024 threads at most. The result
// is in thread 0. All threads call it. They synchronise before they use the same `shared` again.
template <int kSums>
__device__ void sum_over_block(double (&sums)[kSums], double (&shared)[32][kSums]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  sum_over_warp(sums);
  if (lane == 0) {
#pragma unroll
    for (int i = 0; i < kSums; ++i) shared[warp][i] = sums[i];
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int other = 1; other < static_cast<int>(blockDim.x) / kWarp; ++other) {
#pragma unroll
      for (int i = 0; i < kSums; ++i) sums[i] += shared[other][i];
    }
  }
}

// Adds `count` sets of sums in memory. One whole warp calls it; all lanes get the result.
template <int kSums>
__device__ void sum_over_memory(const double* from, long long count, double (&sums)[kSums]) {
#pragma unroll
  for (int i = 0; i < kSums; ++i) sums[i] = 0;
#pragma unroll 4
  for (long long set = threadIdx.x % kWarp; set < count; set += kWarp) {
#pragma unroll
    for (int i = 0; i < kSums; ++i) sums[i] += from[set * kSums + i];
  }
  sum_over_warp(sums);
}

}  // namespace assay
