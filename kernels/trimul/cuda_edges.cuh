// SPDX-License-Identifier: Apache-2.0
// The channels of an edge in a warp, and their layer norm. Lane l has channels 128 v + 4 l + e for
// each vector v and e < 4.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "kernels/core_cuda/global_memory.cuh"
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

// Which channels of the lane exist.
template <int kVectors>
struct Channels {
  static_assert(4 * kVectors <= 32, "each value has a bit");
  uint32_t bits = 0;
  float share;  // of one of them in their mean

  __device__ explicit Channels(int count) : share(1.0f / static_cast<float>(count)) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
#pragma unroll
      for (int e = 0; e < 4; ++e) bits |= first_channel(v) + e < count ? 1u << (4 * v + e) : 0;
    }
  }
  __device__ bool has(int v, int e) const {
    return (bits >> (4 * v + e) & 1) != 0;
  }
};

// Weights or biases of the norm, filled up with zeros to whole vectors.
template <int kVectors>
__device__ void load_norm(EdgeValues<kVectors>& to, const float* from) {
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    reinterpret_cast<float4&>(to.values[v]) = *reinterpret_cast<const float4*>(from + first_channel(v));
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

// Loads edges of a batch from a position on.
template <int kVectors, int kEdges>
__device__ void load_edges(EdgeValues<kVectors> (&edges)[kEdges], const InputEdges& in, int64_t batch,
                           int64_t position) {
  const Planes::Edge first = in.planes.edge(position);
  if (in.has_vectors && first.is_inside && first.second + kEdges <= in.planes.nodes) {
    const float* const run = in.address_of(batch, first);
#pragma unroll
    for (EdgeValues<kVectors>& edge : edges) edge = {};
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int channel = first_channel(v);
      if (channel >= in.channels) break;
#pragma unroll
      for (int i = 0; i < kEdges; ++i) {
        reinterpret_cast<float4&>(edges[i].values[v]) =
            __ldcs(reinterpret_cast<const float4*>(run + i * in.x_second + channel));
      }
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kEdges; ++i) {
    const Planes::Edge edge = in.planes.edge(position + i);
    load_channels(edges[i], edge.is_inside ? in.address_of(batch, edge) : nullptr, in.channels, in.x_channel);
  }
}

// Has such edges brought to the L2 cache if they are vectors.
template <int kEdges>
__device__ void prefetch_edges(const InputEdges& in, int64_t batch, int64_t position) {
  constexpr int kLine = 32;  // [floats]
  const Planes::Edge first = in.planes.edge(position);
  const int channel = static_cast<int>(threadIdx.x % 32) * kLine;
  if (!in.has_vectors || !first.is_inside || first.second + kEdges > in.planes.nodes) return;
  if (channel >= in.channels) return;
  const float* const run = in.address_of(batch, first);
#pragma unroll
  for (int i = 0; i < kEdges; ++i) prefetch_l2(run + i * in.x_second + channel);
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
      if (channels.has(v, e)) value = __fadd_rn(value, -other);
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

// Calls store(part, channel, packed) for the factors of vector v of a normalised edge.
template <Format kFactor, int kVectors, class Store>
__device__ void pack_vector(const EdgeValues<kVectors>& edge, int v, float factor, const float* weight,
                            const float* bias, Store store) {
  float xn[4];
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    // 0 beyond the last channel
    xn[e] = fmaf(edge.values[v][e] * factor, weight[e], bias[e]);
  }
  const auto store_part = [&]<int kPart>(std::integral_constant<int, kPart>) {
    store(kPart, first_channel(v),
          uint2{pack_part<kFactor, kPart>(xn[0], xn[1]), pack_part<kFactor, kPart>(xn[2], xn[3])});
  };
  store_part(std::integral_constant<int, 0>{});
  if constexpr (TileFactor<kFactor>::kParts == 2) store_part(std::integral_constant<int, 1>{});
}

}  // namespace assay::trimul
