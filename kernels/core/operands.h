// SPDX-License-Identifier: Apache-2.0
// The checks that every op makes of the tensors of a call.
#pragma once

#include <span>
#include <string_view>

#include "kernels/core/tensor.h"

namespace assay {

// A tensor of a call, and what the op's contract asks of it.
struct Operand {
  std::string_view name;
  ConstTensorView view;
  Extents shape;
  DType dtype;
};

// Throws Error (usage), naming the operand and its values, unless every operand has its shape and its dtype, and the
// outputs share no memory with another operand (kernels/core/tensor.h).
void require_operands(std::span<const Operand> inputs, std::span<const Operand> outputs);

}  // namespace assay
