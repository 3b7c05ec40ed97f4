// SPDX-License-Identifier: Apache-2.0
// x as the fragments that wgmma reads from registers (core_cuda/wgmma.cuh), and its layer norm. A
// warpgroup has 64 edges. The summed dimension is ordered so that a thread has four neighbouring
// channels of a step (cuda_resident.cuh).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/trimul/cuda_plan.cuh"
#include "kernels/trimul/cuda_resident.cuh"

namespace assay::trimul {

// Where a tile lies.
struct TileOfEdges {
  int64_t batch;
  uint32_t start;
};

// Channels 16 s + 4 q + e of two edges, row and row + 8, for q = lane % 4.
template <int kSteps, bool kHasVectors>
struct Edges {
  float x[kSteps][2][4];
  float mask[2];

  // Loads the channels of steps kFirst .. kLast - 1.
  template <int kFirst, int kLast>
  __device__ void load(const InputEdges& a, const TileOfEdges& tile) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int row = static_cast<int>(threadIdx.x / 32 % 4) * 16 + lane / 4;
    Planes::Edge edge = a.planes.edge(tile.start + row);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (half == 1) {
        edge.second += 8;
        // Rows have at least eight positions.
        if (edge.second >= a.planes.pitch) {
          edge.second -= a.planes.pitch;
          ++edge.first;
        }
        edge.is_inside = edge.first < a.planes.nodes && edge.second < a.planes.nodes;
      }
      const int most = edge.is_inside ? a.channels - lane % 4 * 4 : 0;
      const float* const from = a.address_of(tile.batch, edge) + lane % 4 * 4 * a.x_channel;
#pragma unroll
      for (int s = kFirst; s < kLast; ++s) {
        if constexpr (kHasVectors) {
          // With __ldcs() the kernel took 560 us instead of 501 (N 1024 on an H200).
          float4 v{};
          if (kStepDepth * s < most) v = __ldg(reinterpret_cast<const float4*>(from + kStepDepth * s));
          x[s][half][0] = v.x;
          x[s][half][1] = v.y;
          x[s][half][2] = v.z;
          x[s][half][3] = v.w;
        } else {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int channel = kStepDepth * s + e;
            x[s][half][e] = channel < most ? __ldcs(from + channel * a.x_channel) : 0.0f;
          }
        }
      }
      if constexpr (kLast == kSteps) mask[half] = a.mask_of(tile.batch, edge);
    }
  }
};

// The factors of a product with the rows of a warpgroup as fragments.
template <int kSteps>
using Fragments = uint32_t[kSteps][4];

// Normalises two edges, which are replaced by their deviations. `norm` has weights, then biases.
template <Format kFactor, int kSteps, bool kHasVectors>
__device__ void normalise(Edges<kSteps, kHasVectors>& edges, const InputEdges& a, const float* norm,
                          Fragments<kSteps>& fragments) {
  const int lane = static_cast<int>(threadIdx.x % 32), most = a.channels - lane % 4 * 4;
  float factors[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    // Channels that do not exist stay 0.
    const auto subtract = [&](float other, auto visit) {
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const bool exists = kStepDepth * s + (kHasVectors ? 0 : e) < most;
          edges.x[s][half][e] = __fadd_rn(edges.x[s][half][e], exists ? -other : 0.0f);
          visit(edges.x[s][half][e], e);
        }
      }
    };
    const auto add_squares = [&]<bool kIsLarge>(std::bool_constant<kIsLarge>) {
      float squares[2] = {};
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const float value = edges.x[s][half][e],
                      scaled = kIsLarge ? __fmul_rn(value, kScaleOfLarge) : value;
          squares[e / 2] = fmaf(scaled, scaled, squares[e / 2]);
        }
      }
      return add_up_row(__fadd_rn(squares[0], squares[1]));
    };
    float sums[2] = {};
    const float first = __shfl_sync(0xFFFFFFFFu, edges.x[0][half][0], lane & ~3);
    subtract(first, [&](float value, int e) { sums[e / 2] = __fadd_rn(sums[e / 2], value); });
    const float mean = __fmul_rn(add_up_row(__fadd_rn(sums[0], sums[1])), a.share);
    subtract(mean, [](float, int) {});
    const float square = add_squares(std::false_type{});
    factors[half] = reciprocal_deviation(square, a.share, 1.0f);
    if (__any_sync(0xFFFFFFFFu, is_large(square))) {
      const float scaled_square = add_squares(std::true_type{});
      if (is_large(square)) factors[half] = reciprocal_deviation(scaled_square, a.share, kScaleOfLarge);
    }
  }
#pragma unroll
  for (int s = 0; s < kSteps; ++s) {
    const int channel = kStepDepth * s + lane % 4 * 4;
    const float4 w = *reinterpret_cast<const float4*>(norm + channel);
    const float4 b = *reinterpret_cast<const float4*>(norm + kChannelsOfPart + channel);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float(&v)[4] = edges.x[s][half];
      const float factor = factors[half];
      // 0 beyond the last channel
      const float xn[4] = {fmaf(__fmul_rn(v[0], factor), w.x, b.x), fmaf(__fmul_rn(v[1], factor), w.y, b.y),
                           fmaf(__fmul_rn(v[2], factor), w.z, b.z), fmaf(__fmul_rn(v[3], factor), w.w, b.w)};
      fragments[s][half] = pack_part<kFactor, 0>(xn[0], xn[1]);
      fragments[s][2 + half] = pack_part<kFactor, 0>(xn[2], xn[3]);
    }
  }
}

}  // namespace assay::trimul
