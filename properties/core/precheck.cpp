// SPDX-License-Identifier: Apache-2.0
#include "properties/core/precheck.h"

#include <algorithm>

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

// Calls a function of the path, which may neither throw nor change the environment. `take` gets
// what it returns, and may give a verdict on that.
template <class Function, class Take>
std::optional<Verdict> call(std::string_view name, const OnStep& step, const Function& function,
                            const Take& take) {
  if (step) step(name);
  const FloatEnvironment environment;
  std::optional<Verdict> verdict;
  try {
    verdict = take(function());
  } catch (...) {
    verdict = refusal(VerdictKind::kCrashed, in_step(verdict_on_thrown(), name).reason);
  }
  if (const auto what = environment.change())
    return refusal(VerdictKind::kFail, fmt::format("the path changed {}, in {}", *what, name));
  return verdict;
}

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

Said ask_path(const Path& path, const Dims& dims, DType dtype, const OnStep& step) {
  const auto refuses = [&] { return path.unsupported(dims, dtype); };
  const auto verdict_on = [](const std::optional<std::string>& why) -> std::optional<Verdict> {
    if (!why) return std::nullopt;
    return refusal(VerdictKind::kUnsupported, excerpt(*why, kLongestReason));
  };
  std::optional<Verdict> verdict;
  if (path.unsupported) verdict = call("unsupported()", step, refuses, verdict_on);
  return verdict ? Said{.verdict = std::move(verdict)} : ask_recipe(path, dims, dtype, step);
}

Said ask_recipe(const Path& path, const Dims& dims, DType dtype, const OnStep& step) {
  Said said;
  said.verdict = call(
      "recipe()", step, [&] { return path.recipe(dims, dtype); },
      [&](Recipe recipe) -> std::optional<Verdict> {
        static_cast<void>(recipe.sites());  // throws for what is none
        said.recipe = std::move(recipe);
        return std::nullopt;
      });
  if (said.verdict) said.recipe.reset();
  return said;
}

Said precheck(const Subject& subject, const Case& which) {
  Said said{.verdict = precheck_case(subject, which)};
  return said.verdict ? said : ask_path(*subject.path, which.dims, which.dtype);
}

}  // namespace assay
