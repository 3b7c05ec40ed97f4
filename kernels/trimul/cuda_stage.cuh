// SPDX-License-Identifier: Apache-2.0
// How the projections of a group's 64 edges leave: through rows in shared memory, one for each channel, Plan::kStagedPitch
// bytes apart.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/core_cuda/packed.cuh"
#include "kernels/core_cuda/shared_memory.cuh"
#include "kernels/trimul/cuda_plan.cuh"

namespace assay::trimul {

// Two rows of 64 columns as rows of `staged`, one for each column.
template <class Plan>
__device__ void stage(const float (&values)[32], uint8_t* staged) {
  using T = typename Plan::T;
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32 % 4);
  if constexpr (sizeof(T) == 2) {
#if __CUDA_ARCH__ >= 900
    // Four matrices at once: both halves of the warp's 16 edges, of 16 columns.
    const int column = lane / 16 * 8 + lane % 8, edge = 16 * warp + lane / 8 % 2 * 8;
    uint32_t to = shared_address(staged) + static_cast<uint32_t>(column * Plan::kStagedPitch + edge * 2);
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
      const float* const v = values + 4 * j;
      asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(to),
                   "r"(pack_factors<T>(v[0], v[1])), "r"(pack_factors<T>(v[2], v[3])),
                   "r"(pack_factors<T>(v[4], v[5])), "r"(pack_factors<T>(v[6], v[7]))
                   : "memory");
      to += 16 * Plan::kStagedPitch;
    }
#endif
  } else {
#pragma unroll
    for (int j = 0; j < 8; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int column = 8 * j + lane % 4 * 2 + e % 2, edge = 16 * warp + lane / 4 + e / 2 * 8;
        *reinterpret_cast<float*>(staged + column * Plan::kStagedPitch + edge * 4) = values[4 * j + e];
      }
    }
  }
}

// What is staged goes to memory: `to` is where the group's first edge of the first channel lies. Factors of f32's width
// are rounded on the way.
template <class Plan, bool kIsFactor>
__device__ void unstage(const uint8_t* staged, typename Plan::T* to, int64_t plane, int64_t rest,
                        int channels, int64_t edges) {
  using T = typename Plan::T;
  constexpr int kVector = 16 / int{sizeof(T)}, kVectors = kGroupRows / kVector;
  constexpr int kStep = kGroupThreads / kVectors;  // [channels] from a vector of a thread to the next
  const int thread = static_cast<int>(threadIdx.x % kGroupThreads);
  const int first = thread / kVectors, vector = thread % kVectors;
  if (vector * kVector >= edges) return;
  staged += first * Plan::kStagedPitch + vector * 16;
  to += first * plane + vector * kVector;
#pragma unroll
  for (int i = 0; i < kStagedHidden / kStep; ++i) {
    const uint4 bits = *reinterpret_cast<const uint4*>(staged + i * kStep * Plan::kStagedPitch);
    const bool is_there = first + i * kStep < channels;
    if constexpr (kIsFactor && sizeof(T) == 4) {
      float values[4] = {__uint_as_float(bits.x), __uint_as_float(bits.y), __uint_as_float(bits.z),
                         __uint_as_float(bits.w)};
      float rests[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float rounded = round_to_tf32(values[e]);
        rests[e] = rest_of_tf32(values[e], rounded);
        values[e] = rounded;
      }
      if (is_there) *reinterpret_cast<float4*>(to) = {values[0], values[1], values[2], values[3]};
      if constexpr (Plan::kFactor == Factor::kTF32x3) {
        if (is_there) *reinterpret_cast<float4*>(to + rest) = {rests[0], rests[1], rests[2], rests[3]};
      }
    } else {
      if (is_there) *reinterpret_cast<uint4*>(to) = bits;
    }
    to += kStep * plane;
  }
}

}  // namespace assay::trimul
