// SPDX-License-Identifier: Apache-2.0
// Functions of one instruction. Those that approximate take subnormal arguments and results for 0.
#pragma once

#include <cuda_runtime.h>

namespace assay {

// 1 / value
__device__ inline float reciprocal(float value) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value));
  return result;
}

// 1 / sqrt(value) with a relative error of at most 2.2u.
__device__ inline float reciprocal_root(float value) {
  float result;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value));
  return result;
}

// 2^exponent
__device__ inline float power_of_two(float exponent) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(exponent));
  return result;
}

// The smaller one, or a NaN if either is one.
__device__ inline float min_nan(float a, float b) {
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}

}  // namespace assay
