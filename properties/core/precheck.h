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

// Nothing if the path serves a case of one of its dtypes, and says its recipe; else the verdict:
// unsupported if it refuses the case, crashed if one of the two functions throws, fail if one
// changes the floating-point environment. `step` is told which of them is called, "unsupported()"
// or "recipe()".
std::optional<Verdict> ask_path(const Path& path, const Case& which,
                                const std::function<void(std::string_view)>& step = {});

// Both.
std::optional<Verdict> precheck(const Subject& subject, const Case& which);
// Both, for a program that the path must not end: a copy of the process asks first. The verdict is
// crashed if that ends otherwise, or takes more than a second.
std::optional<Verdict> precheck_elsewhere(const Subject& subject, const Case& which);

// Whether a copy of this process comes to the end of a function within a second.
bool returns_elsewhere(const std::function<void()>& function);

// Path::recipe threw, or changed the floating-point environment.
class RecipeThrew : public Error {
 public:
  explicit RecipeThrew(Verdict verdict) : Error("{}", verdict.reason), verdict_(std::move(verdict)) {}
  const Verdict& verdict() const { return verdict_; }

 private:
  Verdict verdict_;
};

// Throws RecipeThrew.
Recipe recipe_of(const Path& path, const Dims& dims, DType dtype);

}  // namespace assay
