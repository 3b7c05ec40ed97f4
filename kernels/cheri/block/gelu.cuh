// SPDX-License-Identifier: Apache-2.0
// The activation of the Cheri block.
#pragma once

namespace assay::cheri {

// gelu(z) = z / 2 * (1 + tanh(sqrt(2/pi) * (z + 0.044715 z^3))) = z * sigmoid(2
// sqrt(2/pi) * (z + 0.044715 z^3)). The second form neither cancels for negative z nor overflows.
__device__ inline float gelu(float z) {
  constexpr float kLinear = static_cast<float>(-2 * 0.79788456080286535588 * 1.44269504088896340736);
  constexpr float kCubic =
      static_cast<float>(0.044715 * -2 * 0.79788456080286535588 * 1.44269504088896340736);
  float power, inverse;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(z * fmaf(kCubic, z * z, kLinear)));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(1.0f + power));
  return z * inverse;
}

}  // namespace assay::cheri
