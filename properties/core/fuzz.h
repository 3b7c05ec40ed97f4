// SPDX-License-Identifier: Apache-2.0
// Fuzzes one path: draws cases, judges them, shrinks those that fail.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <vector>

#include "properties/core/generate.h"
#include "properties/core/judge.h"

namespace assay {

struct Judged {
  Case which;
  Verdict verdict;
  // The failing case as drawn. `which` is the simplest one found that still fails.
  std::optional<Case> shrunk_from;
  int timeouts = 0;  // that it took to say so, shrinking included
};

// The verdict on a case, or nothing to stop.
using Judging = std::function<std::optional<Verdict>(const Case&)>;
// Whether the path refuses a case.
using Refusing = std::function<bool(const Case&)>;

struct FuzzOptions {
  int64_t cases = 200;
  std::optional<std::chrono::duration<double>> budget;  // stop after this time, not by `cases`
  uint64_t seed = 0;
  std::optional<DType> dtype;  // only this dtype
  // Of the largest tensor of a case. By default kFuzzElements, and every 64th case is a large one.
  std::optional<int64_t> max_elements;
  int64_t shard = 0;  // judge the cases i with i % shards == shard
  int64_t shards = 1;
  bool stop_at_first_failure = false;
  int max_shrinks = 400;  // judgements spent on shrinking one failure
  int max_timeouts = 3;   // after so many, shrinking included, the path is judged no further
  int timeouts = 0;       // that an earlier run of the same options took
  std::optional<int64_t> max_failures = {};  // after so many failing cases, likewise
  bool shrinks_crashes = false;              // a crash does not spoil later cases
  // What an earlier run of the same options said of a drawn case, if it came so far. The case is
  // then neither judged nor reported. Called twice of it if the path has a function `unsupported`.
  std::function<std::optional<Judged>(const Case& drawn)> recall = {};
  // Called before a path is asked about a case, unless it is drawn ahead, and before it is judged.
  std::function<void(const Case& drawn)> starts = {};
  // Called before a case is judged, with the one that is drawn after it.
  std::function<void(const Case& following)> expects = {};
  // Asks the path elsewhere than in this process whether it refuses a case. What keeps it from
  // answering shows when the case is judged.
  Refusing refuses = {};
  // Judges a case in a new process. Of each kind of failure the smallest case so far is judged once
  // more by it, to tell whether the case fails alone. Crashes and timeouts say so themselves.
  Judging alone = {};
};

// Judges cases in order and hands each to `report`, which may return false to stop. If a failure
// shrinks to a case that was reported before, it is reported as it was drawn.
void fuzz(const Subject& subject, const Judging& judging, const FuzzOptions& options,
          const std::function<bool(const Judged&)>& report);
// The same with judge().
void fuzz(const Subject& subject, Device& device, const FuzzOptions& options,
          const std::function<bool(const Judged&)>& report);

}  // namespace assay
