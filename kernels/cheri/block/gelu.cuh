// SPDX-License-Identifier: Apache-2.0
// The activation of the Cheri block.
#pragma once

#include "kernels/core_cuda/approximate.cuh"

namespace assay::cheri {

// gelu(z) = z / 2 * (1 + tanh(sqrt(2/pi) * (z + 0.044715 z^3))) = z * sigmoid(2
// sqrt(2/pi) * (z + 0.044715 z^3)). The second form neither cancels for negative z nor overflows.
__device__ inline float gelu(float z) {
  constexpr float kLinear = static_cast<float>(-2 * 0.79788456080286535588 * 1.44269504088896340736);
  constexpr float kCubic =
      static_cast<float>(0.044715 * -2 * 0.79788456080286535588 * 1.44269504088896340736);
  return z * reciprocal(1.0f + power_of_two(z * fmaf(kCubic, z * z, kLinear)));
}

}  // namespace assay::cheri
