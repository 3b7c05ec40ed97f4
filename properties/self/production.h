// SPDX-License-Identifier: Apache-2.0
// Judges production paths in tests.
#pragma once

#include "properties/core/precheck.h"
#include "properties/core/runs.h"
#include "properties/self/spoiled.h"

namespace assay::test {

// The verdict on a production path. Sanitizers look at code, and the optimised build at numbers: so
// under sanitizers the oracle is not asked, and what runs without a complaint passes. The oracles'
// code runs in BallsOf.
inline Verdict judge_production(const Subject& subject, const Case& which, Device& device) {
  if (!kIsSanitized) return judge(subject, which, device);
  Said said = precheck(subject, which);
  if (said.verdict) return *std::move(said.verdict);
  Problem problem(*subject.op, *subject.path, which, device);
  const Runs runs = run_path(subject, problem, *std::move(said.recipe));
  if (runs.verdict) return *runs.verdict;
  if (!runs.broken_law.empty()) return {.kind = VerdictKind::kFail, .reason = runs.broken_law, .outputs = {}};
  if (is_empty(*subject.op, which.dims))
    return {.kind = VerdictKind::kSkipped, .reason = "empty", .outputs = {}};
  return {.kind = VerdictKind::kPass, .reason = "", .outputs = {}};
}

}  // namespace assay::test
