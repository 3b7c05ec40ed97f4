// SPDX-License-Identifier: Apache-2.0
// Performs what a state says happened before the judged call, and checks that it does not matter.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "properties/core/evidence.h"
#include "properties/core/problem.h"
#include "properties/core/specimen.h"

namespace assay {

// Throws Error (usage) if a step names an input, a tunable, a configuration or dimensions that the
// path does not have.
void require_state(const State& state, const Op& op, const Path& path);

// The reason why the path cannot be in this state, though every name is right; or nothing.
std::optional<std::string> inapplicable(const State& state, const Path& path);

// A step that cannot be performed here because there is no memory for its tensors.
class StepIsImpossible : public OutOfMemory {
 public:
  StepIsImpossible(uint64_t step, std::string_view why)
      : OutOfMemory("step {} of the state: {}", step, why) {}
};

// A step whose call gave another result than an untuned call in a new context.
struct WrongStep {
  std::string reason;
  Evidence evidence;  // the tensors of its call
};

// Brings a problem into its case's state. Inputs then hold the given values, else those drawn from
// the case. Outputs hold poison; if the last step is second_call, they hold its results. Each
// step's call after the first is compared with the same call, untuned, in a new context, if the
// path is deterministic. Returns the first difference, if there is one. Throws what the path
// throws, and StepIsImpossible.
[[nodiscard]] std::optional<WrongStep> prepare(Problem& problem, const TensorBytes* inputs = nullptr);

}  // namespace assay
