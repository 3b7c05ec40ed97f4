// SPDX-License-Identifier: Apache-2.0
// Whether a case can run at all, and what its path says of it before it runs.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "properties/core/case.h"
#include "properties/core/problem.h"
#include "properties/core/verdict.h"

namespace assay {

// Nothing if the case can run; else the verdict that says why not: unsupported for a dtype that the
// path does not list, skipped if the layout does not apply to the dimensions or the state to the
// path. Calls nothing of the path. Throws Error (usage) for dimensions outside the op's ranges and
// for a state with unknown names.
std::optional<Verdict> precheck_case(const Subject& subject, const Case& which);

// What a path says of a case before it runs: its recipe, or else the verdict that it does not run.
struct Said {
  std::optional<Recipe> recipe = {};
  std::optional<Verdict> verdict = {};
};

// Asks the path about a problem of one of its dtypes. The verdict is unsupported if it refuses the
// problem, crashed if one of the two functions throws, fail if one changes the floating-point
// environment. `step` is told which of them is called, "unsupported()" or "recipe()".
using OnStep = std::function<void(std::string_view)>;
Said ask_path(const Path& path, const Dims& dims, DType dtype, const OnStep& step = {});

// The recipe alone.
Said ask_recipe(const Path& path, const Dims& dims, DType dtype, const OnStep& step = {});

// precheck_case(), and then ask_path().
Said precheck(const Subject& subject, const Case& which);

}  // namespace assay
