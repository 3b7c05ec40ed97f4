// SPDX-License-Identifier: Apache-2.0
#include "properties/core/precheck.h"

#include <algorithm>

#include "kernels/core/printable.h"
#include "properties/core/generate.h"
#include "properties/core/history.h"
#include "properties/core/thrown.h"

namespace assay {
namespace {

Verdict refusal(VerdictKind kind, std::string reason) {
  return {.kind = kind, .reason = std::move(reason), .outputs = {}};
}

// The verdict on what one of the path's functions throws. Neither of them may throw.
Verdict verdict_on_thrown_in(std::string_view function) {
  return refusal(VerdictKind::kCrashed, fmt::format("{}, in {}", verdict_on_thrown().reason, function));
}

constexpr std::string_view kUnsupported = "unsupported()", kRecipe = "recipe()";

}  // namespace

std::optional<Verdict> precheck_case(const Subject& subject, const Case& which) {
  require_dims(*subject.op, which.dims);
  const Path& path = *subject.path;
  require_state(which.state, *subject.op, path);
  if (std::ranges::count(path.dtypes, which.dtype) == 0) {
    return refusal(VerdictKind::kUnsupported, fmt::format("dtype={}", name_of(which.dtype)));
  }
  if (!is_legal(which.layout, *subject.op, which.dims)) {
    return refusal(VerdictKind::kSkipped,
                   fmt::format("layout={} does not apply to these dimensions", name_of(which.layout)));
  }
  if (auto why = inapplicable(which.state, path)) return refusal(VerdictKind::kSkipped, std::move(*why));
  return std::nullopt;
}

std::optional<Verdict> ask_path(const Path& path, const Case& which,
                                const std::function<void(std::string_view)>& step) {
  if (path.unsupported) {
    if (step) step(kUnsupported);
    try {
      if (const auto why = path.unsupported(which.dims, which.dtype))
        return refusal(VerdictKind::kUnsupported, excerpt(*why, kLongestReason));
    } catch (...) {
      return verdict_on_thrown_in(kUnsupported);
    }
  }
  if (step) step(kRecipe);
  try {
    recipe_of(path, which.dims, which.dtype);
  } catch (const RecipeThrew& error) {
    return error.verdict();
  }
  return std::nullopt;
}

std::optional<Verdict> precheck(const Subject& subject, const Case& which) {
  auto refused = precheck_case(subject, which);
  return refused ? refused : ask_path(*subject.path, which);
}

Recipe recipe_of(const Path& path, const Dims& dims, DType dtype) {
  try {
    return path.recipe(dims, dtype);
  } catch (...) {
    throw RecipeThrew(verdict_on_thrown_in(kRecipe));
  }
}

std::string recipe_text(const Path& path, const Case& which, VerdictKind kind) {
  switch (kind) {
    case VerdictKind::kUnsupported:
    case VerdictKind::kCrashed:
    case VerdictKind::kTimeout:
    case VerdictKind::kSkipped:
      return "";
    case VerdictKind::kPass:
    case VerdictKind::kFail:
    case VerdictKind::kMistrusted:
    case VerdictKind::kUninformative:
      break;
  }
  try {
    return recipe_of(path, which.dims, which.dtype).to_string();
  } catch (const RecipeThrew&) {
    return "";
  }
}

}  // namespace assay
