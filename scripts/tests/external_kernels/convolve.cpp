// SPDX-License-Identifier: Apache-2.0
// The running sum of two neighbours: a dynamic_conv with two taps of 1.
#include <cstdio>

#include "kernels/dynamic_conv/dynamic_conv.h"

int main() {
  const float x[] = {1, 2, 3};
  const float one = 1;
  float out[3];
  const assay::Extents shape{1, 3, 1};
  assay::dynamic_conv::forward_cpu({
      .x = {x, assay::DType::kF32, shape, {3, 1, 1}},
      .k = {&one, assay::DType::kF32, {1, 3, 1, 2}, {0, 0, 0, 0}},
      .out = {out, assay::DType::kF32, shape, {3, 1, 1}},
  });
  std::printf("%g %g %g\n", out[0], out[1], out[2]);
}
