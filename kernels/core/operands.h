// SPDX-License-Identifier: Apache-2.0
// The checks that every op makes on the tensors of a call.
#pragma once

#include <span>
#include <string_view>

#include "kernels/core/tensor.h"

namespace assay {

// A tensor of a call, with the shape and the dtype that the op's contract asks for.
struct Operand {
  std::string_view name;
  ConstTensorView view;
  Extents shape;
  DType dtype;
};

// Throws Error (usage), naming the operand and its values, unless every operand has its shape and
// its dtype and no output shares memory with another operand (kernels/core/tensor.h).
void require_operands(std::span<const Operand> inputs, std::span<const Operand> outputs);

}  // namespace assay
