// SPDX-License-Identifier: Apache-2.0
// Whether a case can run at all: asked before its tensors are made.
#pragma once

#include <optional>

#include "properties/core/case.h"
#include "properties/core/problem.h"
#include "properties/core/verdict.h"

namespace assay {

// Nothing if the path serves the case; else the verdict that says why not: unsupported if the path refuses it,
// skipped if its layout does not apply to its dimensions, or its state to the path. Throws Error (usage) for dimensions
// outside the op's ranges, and for a state that names what is not there.
std::optional<Verdict> precheck(const Subject& subject, const Case& which);

}  // namespace assay
