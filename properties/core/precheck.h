// SPDX-License-Identifier: Apache-2.0
// Whether a case can run at all. It is asked before the case's tensors are made.
#pragma once

#include <optional>

#include "properties/core/case.h"
#include "properties/core/problem.h"
#include "properties/core/verdict.h"

namespace assay {

// Nothing if the path serves the case; else the verdict that says why not: unsupported if the path
// refuses it, skipped if the layout does not apply to the dimensions or the state to the path.
// Throws Error (usage) for dimensions outside the op's ranges and for a state with unknown names.
std::optional<Verdict> precheck(const Subject& subject, const Case& which);

}  // namespace assay
