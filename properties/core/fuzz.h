// SPDX-License-Identifier: Apache-2.0
// Fuzzing one path: draw cases, judge them, shrink what fails.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <vector>

#include "properties/core/generate.h"
#include "properties/core/judge.h"

namespace assay {

struct FuzzOptions {
  int64_t cases = 200;
  std::optional<std::chrono::duration<double>> budget;  // stop after this time, whatever the number of cases
  uint64_t seed = 0;
  std::optional<DType> dtype;            // only this one
  int64_t max_elements = kFuzzElements;  // of a case's largest tensor
  int64_t shard = 0;                     // judge the cases i with i % shards == shard
  int64_t shards = 1;
  bool stop_at_first_failure = false;
  int max_shrinks = 400;  // judgements spent on shrinking one failure
};

struct Judged {
  Case which;
  Verdict verdict;
  std::optional<Case>
      shrunk_from;  // of a failure, the case that was drawn; `which` is the simplest that still fails
};

// Judges cases in order and hands each to `report`, which may return false to stop. A failure that shrinks to
// a case that was reported before is reported as it was drawn.
void fuzz(const Subject& subject, Device& device, const FuzzOptions& options,
          const std::function<bool(const Judged&)>& report);

}  // namespace assay
