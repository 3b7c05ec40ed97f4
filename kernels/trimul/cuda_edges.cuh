// SPDX-License-Identifier: Apache-2.0
// The channels of an edge in a warp, and their layer norm. Lane l has channels 128 v + 4 l + e for
// each vector v and e < 4.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/trimul/cuda_plan.cuh"

namespace assay::trimul {

template <int kVectors>
struct EdgeValues {
  float values[kVectors][4];
};

// Calls visit(value, v, e) for each value of the lane.
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

// Whether each channel of the lane exists: 1 if so, else 0.
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

// Loads channels that are `step` elements apart. Channels beyond the last one are 0, and all are if
// `from` is null.
template <int kVectors>
__device__ void load_channels(EdgeValues<kVectors>& edge, const float* from, int channels, int64_t step) {
  for_each_value(edge, [&](float& value, int v, int e) {
    const int channel = first_channel(v) + e;
    value = from != nullptr && channel < channels ? __ldcs(from + channel * step) : 0.0f;
  });
}

// The first lane that gets the sum of value `number` of kCount from add_up().
template <int kCount>
__device__ constexpr int lane_of_sum(int number) {
  return number * (32 / kCount);
}

// Sums each of kCount values over the warp. Each lane gets one sum; neighbouring lanes get the sum
// of the same value.
template <int kCount>
__device__ float add_up(float (&values)[kCount]) {
  static_assert((kCount & (kCount - 1)) == 0, "half of the values go to the other half of the lanes");
  int lanes = 16;
#pragma unroll
  for (int count = kCount / 2; count > 0; count /= 2) {
    const bool is_upper = (threadIdx.x & lanes) != 0;
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const float given = is_upper ? values[i] : values[i + count];
      values[i] = (is_upper ? values[i + count] : values[i]) + __shfl_xor_sync(0xFFFFFFFFu, given, lanes);
    }
    lanes /= 2;
  }
#pragma unroll
  for (; lanes > 0; lanes /= 2) values[0] += __shfl_xor_sync(0xFFFFFFFFu, values[0], lanes);
  return values[0];
}

// Replaces the values of some edges by their deviations from the mean, by way of deviations from
// the first value. Channels that do not exist become 0. `factors` normalise the deviations.
template <int kVectors, int kEdges>
__device__ void centre(EdgeValues<kVectors> (&edges)[kEdges], const Channels<kVectors>& channels,
                       float (&factors)[kEdges]) {
  const auto of_edge = [](float value, int i) {
    return __shfl_sync(0xFFFFFFFFu, value, lane_of_sum<kEdges>(i));
  };
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
  const float mean = add_up(sums) * channels.share;
#pragma unroll
  for (int i = 0; i < kEdges; ++i) {
    subtract(i, of_edge(mean, i), [&](float value) { squares[i] = fmaf(value, value, squares[i]); });
  }
  const float square = add_up(squares);
  float factor = reciprocal_deviation(square, channels.share, 1.0f);
  if (__any_sync(0xFFFFFFFFu, is_large(square))) {
    float scaled_squares[kEdges] = {};
#pragma unroll
    for (int i = 0; i < kEdges; ++i) {
      for_each_value(edges[i], [&](float& value, int, int) {
        const float scaled = value * kScaleOfLarge;
        scaled_squares[i] = fmaf(scaled, scaled, scaled_squares[i]);
      });
    }
    const float scaled_square = add_up(scaled_squares);
    if (is_large(square)) factor = reciprocal_deviation(scaled_square, channels.share, kScaleOfLarge);
  }
#pragma unroll
  for (int i = 0; i < kEdges; ++i) factors[i] = of_edge(factor, i);
}

}  // namespace assay::trimul
