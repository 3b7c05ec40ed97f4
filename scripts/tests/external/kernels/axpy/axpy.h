// SPDX-License-Identifier: Apache-2.0
// A scaled vector added to another: out[i] = a * x[i] + y[i].
//
// shapes   a (1); x, y, out (N); N >= 0
// strides  any, in elements, >= 0; inputs may repeat elements (stride 0), out may not
// dtypes   f32 or bf16, the same for all tensors of a call; arithmetic in f32, one rounding to the
//          dtype at the end
// aliasing out must not overlap an input
// empty    N = 0: returns without touching memory
// errors   throws Error (usage) that names the tensor and its values
#pragma once

#include <vector>

#include "kernels/core/op.h"
#include "kernels/core/tensor.h"

namespace assay::axpy {

inline constexpr Dim kN{0, "n"};
inline constexpr Input kA{0, "a"}, kX{1, "x"}, kY{2, "y"};
inline constexpr Output kOut{0, "out"};

struct Tensors {
  ConstTensorView a;  // (1)
  ConstTensorView x;  // (N)
  ConstTensorView y;  // (N)
  TensorView out;     // (N)
};

void axpy_cpu(const Tensors& tensors);

// The op axpy, with its paths.
const std::vector<Op>& ops();

}  // namespace assay::axpy
