// SPDX-License-Identifier: Apache-2.0
// The channels of an edge in a warp, and their layer norm: lane l has channels 128 v + 4 l + e for vectors v and e < 4.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/trimul/cuda_plan.cuh"

namespace assay::trimul {

template <int kVectors>
struct EdgeValues {
  float values[kVectors][4];
};

// visit(value, v, e)
template <int kVectors, class Visit>
__device__ void for_each_value(EdgeValues<kVectors>& edge, Visit visit) {
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
#pragma unroll
    for (int e = 0; e < 4; ++e) visit(edge.values[v][e], v, e);
  }
}

__device__ inline int first_channel(int v) {
  return 128 * v + 4 * static_cast<int>(threadIdx.x % 32);
}

// Which of the lane's channels there are: 1 for those, else 0.
template <int kVectors>
struct Channels {
  EdgeValues<kVectors> exist;
  float share;  // of one of them in their mean

  __device__ explicit Channels(int count) : share(1.0f / static_cast<float>(count)) {
    for_each_value(exist,
                   [&](float& value, int v, int e) { value = first_channel(v) + e < count ? 1.0f : 0.0f; });
  }
};

// Weights or biases of the norm, filled up with zeros to whole vectors.
template <int kVectors>
__device__ void load_norm(EdgeValues<kVectors>& to, const float* from) {
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    reinterpret_cast<float4&>(to.values[v]) = __ldg(reinterpret_cast<const float4*>(from + first_channel(v)));
  }
}

// Zeros where there is no channel, and where `from` is null. `step` elements from a channel to the next; with vectors they
// lie side by side, aligned, and their number is a multiple of four.
template <int kVectors>
__device__ void load_edge(EdgeValues<kVectors>& edge, const float* from, int channels, int64_t step,
                          bool has_vectors) {
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int channel = first_channel(v);
    if (from != nullptr && has_vectors && channel < channels) {
      const float4 four = __ldcs(reinterpret_cast<const float4*>(from + channel));
      edge.values[v][0] = four.x;
      edge.values[v][1] = four.y;
      edge.values[v][2] = four.z;
      edge.values[v][3] = four.w;
    } else {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const bool is_there = from != nullptr && channel + e < channels;
        edge.values[v][e] = is_there ? __ldcs(from + (channel + e) * step) : 0.0f;
      }
    }
  }
}

// Each of some values becomes its sum over the warp. They go side by side: the steps of one wait for each other.
template <int kCount>
__device__ void add_up(float (&values)[kCount]) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) {
#pragma unroll
    for (float& value : values) value += __shfl_xor_sync(0xFFFFFFFFu, value, lanes);
  }
}

// Some edges become their deviations from the mean, by way of those from the first value; 0 where there is no channel.
// `factors` normalise them.
template <int kVectors, int kEdges>
__device__ void centre(EdgeValues<kVectors> (&edges)[kEdges], const Channels<kVectors>& channels,
                       float (&factors)[kEdges]) {
  float sums[kEdges] = {}, squares[kEdges] = {};
  const auto subtract = [&](int i, float other, auto visit) {
    for_each_value(edges[i], [&](float& value, int v, int e) {
      value = fmaf(-other, channels.exist.values[v][e], value);
      visit(value);
    });
  };
#pragma unroll
  for (int i = 0; i < kEdges; ++i) {
    const float first = __shfl_sync(0xFFFFFFFFu, edges[i].values[0][0], 0);
    subtract(i, first, [&](float value) { sums[i] += value; });
  }
  add_up(sums);
#pragma unroll
  for (int i = 0; i < kEdges; ++i) {
    subtract(i, sums[i] * channels.share, [&](float value) { squares[i] = fmaf(value, value, squares[i]); });
  }
  add_up(squares);
  bool has_large = false;  // as all lanes say
#pragma unroll
  for (int i = 0; i < kEdges; ++i) {
    factors[i] = reciprocal_deviation(squares[i] * channels.share, 1.0f);
    has_large |= is_large(squares[i]);
  }
  if (!has_large) return;
#pragma unroll
  for (int i = 0; i < kEdges; ++i) {
    float sum[1] = {};
    for_each_value(edges[i], [&](float& value, int, int) {
      const float scaled = value * kScaleOfLarge;
      sum[0] = fmaf(scaled, scaled, sum[0]);
    });
    add_up(sum);
    if (is_large(squares[i])) factors[i] = reciprocal_deviation(sum[0] * channels.share, kScaleOfLarge);
  }
}

}  // namespace assay::trimul
