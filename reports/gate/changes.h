// SPDX-License-Identifier: Apache-2.0
// Whether a path got slower or more wrong: what two versions left in their records, side by side. Pure functions of records.
//
// A side is one run or several. What a time differs by from run to run (where its tensors lie in memory, clocks, neighbours)
// is not in the interval that one run knows, so the interval of a side goes from the lowest to the highest end of those of
// its runs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reports/record/record.h"

namespace assay {

// What may change before it counts, as a share of what was there before.
struct Limits {
  double slower = 0.05;      // of a time
  double more_wrong = 0.25;  // of the rms of a path's errors: another order of a sum changes it, too
};

enum class Change : uint8_t { kWorse, kBetter, kSame, kUnclear };
std::string_view name_of(Change change);  // "worse"

// A problem that both sides timed. A ratio is the time after by the time before.
struct TimeChange {
  Case which;  // of the last run
  std::string device;
  Cache cache;
  int64_t runs_before, runs_after;
  double before_ns, after_ns;  // medians over the runs of a side
  double ratio;                // of these
  double low, high;            // between these lies the ratio of any two times in the sides' intervals
  // Worse if low > 1 + slower, better if high < 1 / (1 + slower), the same if all between them is neither; otherwise the
  // samples leave it open, as far as `ratio` may be from 1.
  Change change;
  std::string reason;  // where a time cannot be right
};

// The errors of a path, over the outputs of 64 elements and more in the cases that both sides passed. The rms of an output's
// error is taken as a share of what was allowed before (largest_allowed_rms), so that wider bounds hide nothing.
struct ErrorChange {
  std::string op, path;
  DType dtype;
  std::string device;
  int64_t cases;
  double before, after;              // [1] root mean square of the shares
  double ratio;                      // after / before; 1 if both are 0
  double growth;                     // [1] the most that a share of one output grew by
  std::optional<Case> grown;         // the case it belongs to, if any grew
  double worst_before, worst_after;  // [1] largest error by its bound
  // Worse if ratio > 1 + more_wrong, or growth > more_wrong: one case of many hardly moves the ratio. Better if ratio <
  // 1 / (1 + more_wrong). Never unclear: the same case has the same errors each time.
  Change change;
};

// A case of the later side that fails.
struct FailureChange {
  Case which;
  std::string device;
  VerdictKind after;
  std::string reason;
  std::optional<VerdictKind> before;  // absent if it was not judged then
  bool is_new() const;                // it did not fail in this way
};

// What the earlier side judged or timed and the later one did not.
struct Gone {
  std::string what;  // "the time of ...", a case, "all cases of ..."
  std::string reason;
};

struct Changes {
  Limits limits;
  int64_t runs_before = 0, runs_after = 0;
  std::vector<std::string> differences;  // between the machines and the tools
  std::vector<TimeChange> times;         // the worst ratio first
  std::vector<ErrorChange> errors;       // likewise
  std::vector<FailureChange> failures;   // new ones first
  std::vector<Gone> gone;
  int64_t added = 0;   // times that only the later side has
  int64_t shared = 0;  // cases that both sides judged
};

// Neither side may be empty.
Changes changes_between(std::span<const Record> before, std::span<const Record> after,
                        const Limits& limits = {});

int64_t count(const std::vector<TimeChange>& times, Change change);
int64_t count(const std::vector<ErrorChange>& errors, Change change);
int64_t new_failures(const Changes& changes);

// How likely a time that did not change is called worse, at most, if its runs differ by chance alone: then each order of
// the a + b runs is as likely, and one of (a + b choose a) has all those of one side behind the others. Of the time that
// has the fewest runs; 1 without times.
double chance_of_slower(const Changes& changes);

}  // namespace assay
