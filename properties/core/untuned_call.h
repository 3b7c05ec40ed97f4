// SPDX-License-Identifier: Apache-2.0
// The call that all others on the same inputs are compared with: a new context, nothing tuned.
#pragma once

#include <optional>
#include <string>

#include "properties/core/problem.h"

namespace assay {

// The outputs of a direct call on the same inputs, in a new context, with configurations that the
// seed draws among those that fit. Overwrites the problem's outputs.
TensorBytes outputs_of_untuned_call(Problem& problem);

// The first element that differs, with both values, if there is one.
std::optional<std::string> first_difference(const Problem& problem, const TensorBytes& a,
                                            const TensorBytes& b);

}  // namespace assay
