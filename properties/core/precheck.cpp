// SPDX-License-Identifier: Apache-2.0
#include "properties/core/precheck.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "kernels/core/printable.h"
#include "properties/core/float_environment.h"
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

Verdict verdict_on_change(std::string_view what, std::string_view function) {
  return refusal(VerdictKind::kFail, fmt::format("the path changed {}, in {}", what, function));
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
    const FloatEnvironment environment;
    try {
      if (const auto why = path.unsupported(which.dims, which.dtype))
        return refusal(VerdictKind::kUnsupported, excerpt(*why, kLongestReason));
    } catch (...) {
      return verdict_on_thrown_in(kUnsupported);
    }
    if (const auto what = environment.change()) return verdict_on_change(*what, kUnsupported);
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

std::optional<Verdict> precheck_elsewhere(const Subject& subject, const Case& which) {
  if (auto refused = precheck_case(subject, which)) return refused;
  if (returns_elsewhere([&] { ask_path(*subject.path, which); })) return ask_path(*subject.path, which);
  return refusal(VerdictKind::kCrashed,
                 fmt::format("the path does not return within a second, in {} or {}", kUnsupported, kRecipe));
}

bool returns_elsewhere(const std::function<void()>& function) {
  constexpr int kReturned = 42;
  const pid_t child = fork();
  if (child < 0) return true;
  if (child == 0) {
    alarm(1);
    try {
      function();
    } catch (...) {
      _exit(1);
    }
    _exit(kReturned);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == kReturned;
}

Recipe recipe_of(const Path& path, const Dims& dims, DType dtype) {
  const FloatEnvironment environment;
  std::optional<Recipe> recipe;
  try {
    recipe = path.recipe(dims, dtype);
    static_cast<void>(recipe->sites());  // throws if two share a place
  } catch (...) {
    throw RecipeThrew(verdict_on_thrown_in(kRecipe));
  }
  if (const auto what = environment.change()) throw RecipeThrew(verdict_on_change(*what, kRecipe));
  return *std::move(recipe);
}

}  // namespace assay
