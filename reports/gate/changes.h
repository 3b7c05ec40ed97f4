// SPDX-License-Identifier: Apache-2.0
// Whether a path got slower or more wrong, from the records of two versions. All functions here are
// pure functions of records.
//
// A side is one version: one run or several. A time also differs from run to run, because of where
// its tensors lie in memory, clocks and neighbours. The interval within one run does not know that.
// So the interval of a side reaches from the lowest to the highest end of the intervals of its
// runs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reports/gate/noise.h"
#include "reports/record/record.h"

namespace assay {

// How much may change before it counts, as a share of the value before.
struct Limits {
  double slower = 0.05;  // of a time, and of a ceiling of the machine
  // Of the rms of a path's distances; another order of a sum changes it, too.
  double more_wrong = 0.25;
  Noise noise = {};  // of `calibrate`; empty without it

  // The larger of `slower` and the scatter.
  double of_time(const Case& which, const std::string& device, Cache cache) const;
  double of_rate(const std::string& device, const std::string& name) const;
};

enum class Change : uint8_t {
  kWorse,
  kBetter,
  kSame,
  kUnclear,
  kTraded,  // one of time and error got better, the other one worse
};
std::string_view name_of(Change change);  // "worse"

// A problem that both sides timed. A ratio is the time after by the time before.
struct TimeChange {
  Case which;  // of the last run
  std::string device;
  Cache cache;
  int64_t runs_before, runs_after;
  double before_ns, after_ns;  // medians over the runs of a side
  double ratio;                // of these
  double low, high;            // the least and largest ratio of two times in the sides' intervals
  double limit;                // Limits::of_time()
  // Worse if low > 1 + limit, better if high < 1 / (1 + limit), the same if low and high both lie
  // between these limits. Otherwise unclear: the samples leave it open, however far `ratio` is from
  // 1. Also unclear with a reason. Traded: worse where the errors of the path got better, or the
  // reverse.
  Change change;
  std::string reason;  // if a time cannot be right, or machines or their states are not alike
};

// The errors of a path, over outputs of at least 64 elements in the cases that both sides passed.
// An output's share is the rms of its distance from what the recipe computes, divided by the rms
// that was allowed before (Conformity::allowed). So wider limits hide nothing.
//
// A path that changes its recipe may still compute what that says. So accuracy counts, too: the rms
// of an output's errors against the exact values, divided by the larger of the old rms and the rms
// allowed before: another order of a sum then counts as no loss.
struct ErrorChange {
  std::string op, path;
  DType dtype;
  std::string device;
  int64_t cases;
  double before, after;              // [1] root mean square of the shares
  double ratio;                      // after / before; 1 if both are 0
  double accuracy;                   // [1] root mean square of these ratios
  double exact;                      // [1] the same by the old rms alone; 1 if that is 0
  double growth;                     // [1] the largest growth of one output's share
  std::optional<Case> grown;         // the case with this growth, if any
  double worst_before, worst_after;  // [1] largest error by its bound
  // Worse if ratio or accuracy > 1 + more_wrong, or if growth > more_wrong, since one case of many
  // hardly moves the ratio. Better if ratio or exact < 1 / (1 + more_wrong). Never unclear: the
  // same case has the same errors each time. Traded: worse, and some time of the path is traded,
  // too; or the reverse.
  Change change;
};

// A case of the later side that fails.
struct FailureChange {
  Case which;
  std::string device;
  VerdictKind after;
  std::string reason;
  std::optional<VerdictKind> before;  // absent if not judged then
  bool is_new() const;                // it did not fail in this way before
};

// Something that the earlier side judged or timed and the later side did not.
struct Gone {
  std::string what;  // "the time of ...", a case, "all cases of ..."
  std::string reason;
};

struct Changes {
  Limits limits;
  int64_t runs_before = 0, runs_after = 0;
  std::string program = "assay";         // as the user of the later side called it
  std::vector<std::string> differences;  // of the machines and tools
  std::vector<TimeChange> times;         // the worst ratio first
  std::vector<ErrorChange> errors;       // likewise
  std::vector<FailureChange> failures;   // new ones first
  std::vector<Gone> gone;
  int64_t added = 0;   // times that only the later side has
  int64_t shared = 0;  // cases that both sides judged
};

// Throws Error (internal) if a side is empty.
Changes changes_between(std::span<const Record> before, std::span<const Record> after,
                        const Limits& limits = {});

// Throws Error (usage) if a record's device is of another model than the one that was calibrated.
void require_calibrated(const Noise& noise, std::span<const Record> runs);

int64_t count(const std::vector<TimeChange>& times, Change change);
int64_t count(const std::vector<ErrorChange>& errors, Change change);
int64_t new_failures(const Changes& changes);
// The traded times: those that got faster while the errors grew, and the reverse.
struct Trades {
  int64_t faster = 0, slower = 0;
};
Trades trades(const Changes& changes);

// An upper limit of the chance that a time which did not change is called worse, if runs differ by
// chance alone. With a and b runs on the two sides each order of the a + b runs is equally likely,
// and in one of (a + b choose a) all runs of one side come after the others. This is the chance of
// the time with the fewest runs; 1 without times.
double chance_of_slower(const Changes& changes);

}  // namespace assay
