// SPDX-License-Identifier: Apache-2.0
// The deviations of hidden from its mean, whose powers of two are those of left and right.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/trimul/cuda_plan.cuh"

namespace assay::trimul {

// The mean of 16-bit values is rounded to one f32 number before it is subtracted: its rounding is
// small next to theirs.
template <Format kFactor>
inline constexpr bool kIsMeanOneNumber = sizeof(Stored<kFactor>) == 2;

// Unscaled values are normalised as they are. Scaled deviations stay as stored: 2^exponent times
// their value. eps is then scaled alike, if it stays in the range of f32. Below 2^-100 the scaled
// eps does not matter: squares that are not 0 add at least 2^-56 in f16, and factors in two parts
// are known to 2^-25, so smaller deviations than 2^-50 are chance. At 2^117 or more the squares do
// not matter, since they are at most 2^92. Then the weight of the norm takes a part of 2^-exponent.
struct DeviationScale {
  float eps = static_cast<float>(kEpsilon);
  bool is_eps_alone = false;
  Power rest = Power(0);

  __device__ explicit DeviationScale(int exponent) {
    is_eps_alone = exponent > 66;
    if (is_eps_alone) {
      rest = Power(-exponent);
    } else {
      eps = fmaxf(Power(2 * exponent)(eps), 0x1p-100f);
    }
  }
  __device__ float factor(float squares, float share) const {
    return is_eps_alone ? rest.first * reciprocal_root(eps) : reciprocal_root(fmaf(squares, share, eps));
  }
};

}  // namespace assay::trimul
