// SPDX-License-Identifier: Apache-2.0
// What happened before the judged call, made to happen; and the law that it must not matter.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "properties/core/problem.h"
#include "properties/core/specimen.h"

namespace assay {

// Throws Error (usage) for a state that no such path can be in: a step that names an input, a tunable or a configuration
// that is not there, or dimensions that are not the op's.
void require_state(const State& state, const Op& op, const Path& path);

// Why the path cannot be in this state, which it names rightly; or nothing.
std::optional<std::string> inapplicable(const State& state, const Path& path);

// A step of a state that cannot be made here: there is no memory for its tensors.
class StepIsImpossible : public Error {
 public:
  StepIsImpossible(uint64_t step, std::string_view why)
      : Error(device_error("step {} of the state: {}", step, why)) {}
};

// Brings a problem into its case's state, with the drawn inputs or the given ones in place; outputs are poisoned unless
// the last step is second_call, whose results they hold. Throws what the path throws, and StepIsImpossible. Returns the
// first step whose call gave another result than the same call, untuned, in a new context, or nothing; a path that does not
// call itself deterministic is not compared.
[[nodiscard]] std::optional<std::string> prepare(Problem& problem, const TensorBytes* inputs = nullptr);

// The outputs of a direct call on the same inputs in a context of its own, with the first configuration that fits. The problem's outputs are overwritten.
TensorBytes outputs_of_untuned_call(Problem& problem);

// The first element that differs, with both values; or nothing.
std::optional<std::string> first_difference(const Problem& problem, const TensorBytes& a,
                                            const TensorBytes& b);

// out[0, 3, 1]
std::string element_name(std::string_view tensor, int64_t element, const Extents& shape);
double read_element(std::span<const std::byte> dense, DType dtype, int64_t element);

}  // namespace assay
