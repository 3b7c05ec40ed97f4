// SPDX-License-Identifier: Apache-2.0
// From sums of the projections to gates and to the mask that left and right are multiplied by.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/core_cuda/approximate.cuh"
#include "kernels/trimul/cuda_plan.cuh"

namespace assay::trimul {

// Whether two sigmoids share a division: 1 / (ab) serves both, since 1/a = b / (ab), where the
// error of b cancels. This costs two more roundings and saves one in four of the instructions for
// which a multiprocessor has the fewest units. ab stays in range, since sigmoids are taken to be at
// least 2^-60: f16 factors are 0 below 2^-39 of the largest. A NaN makes its neighbour in the pair
// NaN. Both belong to the same edge, whose channels are all NaN after the next norm. The bits of a
// sigmoid depend on its neighbour: equal channels have equal bits if all are equal.
template <Format kFactor>
inline constexpr bool kInPairs = kFactor == Format::kF16;

// The factor that turns a sum of weight number `weight` into -g / ln 2. Beyond the range of f32 the
// sigmoid is 1/2, 0 or 1 for any such factor: scaled factors are at most 2^15, and sums that are
// not 0 exceed 2^-49.
template <Format kFactor>
__device__ float to_exponent(const Scales* scales, int weight) {
  constexpr float kMinusLog2E = -1.442695041f;
  if constexpr (!kIsScaled<kFactor>) return kMinusLog2E;
  return kMinusLog2E * Power::power_of_two(min(max(-scales->xn - scales->weights[weight], -126), 126));
}

// 1 / sigmoid(g) for g * `exponent` = -g / ln 2, times 2^-kExponent.
template <Format kFactor, int kExponent = 0>
__device__ float inverse_sigmoid(float g, float exponent) {
  constexpr float kPart = 1.0f / (1 << kExponent);  // 2^-kExponent
  float power = __fmul_rn(g, exponent);
  if constexpr (kInPairs<kFactor>) power = min_nan(power, 60);
  return fmaf(power_of_two(power), kPart, kPart);
}

// 2^kExponent times the sigmoids of kCount values g in f32. The relative error of each is at most
// 4u + (4 + 2|g|) u (1 - sigmoid); in pairs, 5u takes the place of 4u.
template <Format kFactor, int kExponent = 0, int kCount>
__device__ void sigmoids(const float* g, float exponent, float (&results)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; i += 2) {
    const float a = inverse_sigmoid<kFactor, kExponent>(g[i], exponent);
    const float b = inverse_sigmoid<kFactor, kExponent>(g[i + 1], exponent);
    if constexpr (kInPairs<kFactor>) {
      const float both = reciprocal(a * b);
      results[i] = both * b;
      results[i + 1] = both * a;
    } else {
      results[i] = reciprocal(a);
      results[i + 1] = reciprocal(b);
    }
  }
}

// gate * projection * factor for sums of 64 columns: eight projections, then their eight gates, and
// so on. `exponent` is to_exponent() of the gates, `factors` are those of the two edges.
template <Format kFactor>
__device__ void gate_projections(const float* sums, float exponent, const float (&factors)[2],
                                 float (&values)[16]) {
#pragma unroll
  for (int i = 0; i < 16; i += 2) {
    const float* const s = sums + i / 4 * 8 + i % 4;
    const float factor = factors[i / 2 % 2];
    const float a = inverse_sigmoid<kFactor>(s[4], exponent);
    const float b = inverse_sigmoid<kFactor>(s[5], exponent);
    if constexpr (kInPairs<kFactor>) {
      const float both = reciprocal(a * b) * factor;
      values[i] = s[0] * b * both;
      values[i + 1] = s[1] * a * both;
    } else {
      values[i] = s[0] * reciprocal(a) * factor;
      values[i + 1] = s[1] * reciprocal(b) * factor;
    }
  }
}

// Multiplies the masks of two edges by the powers of all scales of left (side 0) or right, large
// and small. The largest result is near 2^-14.
template <Format kFactor>
__device__ void scale_masks(float (&masks)[2], const ProjectionInputs& a, int64_t batch, int side) {
  if constexpr (kIsScaled<kFactor>) {
    const SideScales& sides = a.sides[batch * a.sides_step];
    const Power stored((side == 0 ? sides.left : sides.right) - a.scales->xn - a.scales->weights[side]);
    masks[0] = stored(masks[0]);
    masks[1] = stored(masks[1]);
  }
}

}  // namespace assay::trimul
