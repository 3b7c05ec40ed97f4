// SPDX-License-Identifier: Apache-2.0
#include "kernels/core/operands.h"

namespace assay {

void require_operands(std::span<const Operand> inputs, std::span<const Operand> outputs) {
  const auto require_common = [](const Operand& operand) {
    require_dtype(operand.name, operand.view, operand.dtype);
    require_shape(operand.name, operand.view, operand.shape);
  };
  for (const Operand& input : inputs) {
    require_common(input);
    require_input(input.name, input.view);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Operand& output = outputs[i];
    require_common(output);
    require_output(output.name, output.view);
    for (const Operand& input : inputs) require_disjoint(output.name, output.view, input.name, input.view);
    for (const Operand& other : outputs.first(i)) {
      require_disjoint(output.name, output.view, other.name, other.view);
    }
  }
}

}  // namespace assay
