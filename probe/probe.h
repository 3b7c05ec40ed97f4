// SPDX-License-Identifier: Apache-2.0
// Probes the sums of a path: the tree in which each adds up, what it adds with, the proof by
// replay, and what of this contradicts the recipe that the path declares.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "probe/accumulator.h"
#include "probe/bound.h"
#include "probe/calls.h"
#include "probe/identity.h"
#include "probe/replay.h"
#include "probe/tree.h"
#include "properties/core/probed_sum.h"

namespace assay {

struct ProbeOptions {
  std::optional<int64_t> terms{};  // in place of the usual number; clamped to the most of each sum
  int64_t draws = 1000;            // of the proof
  uint64_t seed = 0;
};

// Bounds of the error of a sum of these terms, over the sum of their sizes (probe/bound.h).
struct SumBounds {
  double of_tree = 0;
  double of_any_order = 0;  // of as many terms, with the same adder
  std::string why_not{};    // none follows
};

struct Probed {
  const ProbedSum* sum = nullptr;
  DType dtype = DType::kF32;
  int64_t terms = 0;
  Dims dims{};             // of a call
  std::string declared{};  // Sum::to_string()
  std::string why_not{};   // it could not be probed
  std::optional<SumTree> tree{};
  int64_t pairs = 0;                     // of terms that were asked for
  std::vector<std::string> differing{};  // places or launches that add up in other ways
  Accumulator accumulator{};
  bool is_scaled = false;  // only the tree can be seen
  Replay proof{};
  SumBounds bounds{};  // if there is a tree
  std::vector<std::string> contradictions{};
  std::optional<Identity> identity{};  // of a sum that is a polynomial
  double seconds = 0;                  // [s]
};

// Throws Error that a call threw. One that the path refuses is `why_not`.
Probed probe(const Subject& subject, const PathCalls& calls, const ProbedSum& sum, DType dtype,
             const ProbeOptions& options);

// Whether nothing speaks against the path: no contradiction, and no polynomial but the formula's.
bool is_consistent(const Probed& probed);

}  // namespace assay
