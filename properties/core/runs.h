// SPDX-License-Identifier: Apache-2.0
// Runs a path on a case and looks at what it did to memory, to its own results and to its launches:
// rules 2 to 7 and 11 of the judge. The path can touch nothing else, so this may happen in another
// process (isolation.h).
#pragma once

#include <optional>

#include "properties/core/evidence.h"
#include "properties/core/problem.h"
#include "properties/core/verdict.h"

namespace assay {

// What a verdict needs to know of two runs of the judged call, on outputs with different poison.
struct Runs {
  std::optional<Verdict> verdict;  // if these rules give one; else `got` is to be compared
  std::optional<Recipe> recipe;    // absent if the path does not say it
  TensorBytes got;                 // the outputs of the first run
  TensorBytes previous;            // what they held before it; empty if poison
  TensorBytes again;               // the outputs of the second run, if they differ
  TensorBytes untuned;             // those of an untuned call in a new context, if they differ
  TensorBytes changed_inputs;      // the inputs after the call, if the path changed them
  Evidence of_step;                // of a step of the state that went wrong
  std::string broken_law;          // which, and with what values; empty if none is known
};

// On given inputs, else on those drawn from the case. What the path throws becomes a verdict. The
// recipe is what the path has said (precheck.h).
Runs run_path(const Subject& subject, Problem& problem, Recipe recipe, const TensorBytes* inputs = nullptr);

// The verdict on the exception that ended runs of a problem, which is being handled: what the path
// threw or touched. Without memory for them the case is skipped.
Verdict verdict_on_stop(const Problem& problem);

// The laws that hold on the data of a case; of given inputs nothing is known. None for a path that
// is not deterministic, for empty tensors, and for tensors of more than kMostOfLaw elements
// together.
inline constexpr int64_t kMostOfLaw = 4096;
std::vector<const Law*> laws_on(const Subject& subject, const Case& which, bool is_given = false);
// Those of them that rule 11 tries: all for tensors of up to kMostOfAllLaws elements together, else
// the one that the case's seed chooses.
inline constexpr int64_t kMostOfAllLaws = 2048;
std::vector<const Law*> tried_laws(const Subject& subject, const Case& which, bool is_given = false);

}  // namespace assay
