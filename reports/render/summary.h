// SPDX-License-Identifier: Apache-2.0
// What the renderings share: the cases of a record, gathered by path.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/record/tally.h"

namespace assay {

// The worst of each number over all outputs of some cases, and how many elements are equal to the
// bit (Comparison::equal).
struct Numbers {
  double max_error_over_bound = 0;
  // Absent if the rms law applies to no output.
  std::optional<double> rms_over_allowed, rms_over_predicted;
  int64_t equal = 0, compared = 0;  // 0 of 0 in records of older versions
  std::optional<double> share_of_equal() const;
  std::optional<double> largest_error, rel_l2;  // absent if no output has one
};
std::optional<double> rms_over_allowed(const OutputNumerics& output);
// Absent if right paths, as they were sampled, had no error and this one has.
std::optional<double> rms_over_predicted(const Conformity& seen);
Numbers numbers_of(const OutputNumerics& output);
std::optional<Numbers> numbers_of(const CaseRecord& item);  // nothing if no element was compared

// All cases of one op, path, dtype and device. Points into the record.
struct PathSummary {
  std::string op;
  std::string path;
  DType dtype;
  std::string device;
  Tally tally;
  std::optional<Numbers> worst;
  std::optional<Numbers> on_normal_data;      // elsewhere errors mean little to a user
  const CaseRecord* largest_timed = nullptr;  // the first timed case that moves most bytes
  std::optional<double> best_fraction;        // of the floor, cold, by a plausible time
  int64_t implausible = 0;                    // implausible cold times
  std::vector<const CaseRecord*> cases;
};

// Each stage's share of the sum of all stages' bounds, in order; 0 if the sum is 0 or infinite.
std::vector<double> parts_of_bound(const std::vector<Share>& shares);

std::vector<PathSummary> summarize(const Record& record);  // by op, path, device and dtype

std::vector<const CaseRecord*> timed_cases(const Record& record);

// "not measured", with the reason if it was tried.
std::string ceilings_missing(const DeviceRecord& device);
// What disturbed the times of a run: a sentence for each thing that it found at first, and one of
// the ceilings that changed by more than 5 % while it went on.
std::vector<std::string> disturbed_times(const Record& record);

// "198 pass, 2 fail"
std::string describe(const Tally& tally);

// [bytes/s] At the median. Absent if the time is 0 or the problem is empty.
std::optional<double> bytes_per_second(const Perf& perf);
// "1250 GB/s", "187 TFLOP/s" with `between` between them, or a dash.
std::string render_rates(const Perf& perf, std::string_view between);
// "launch 3.9 µs + call 32 µs by bytes"; empty without parts.
std::string render_floor_parts(const Perf& perf);
// "the first 24 calls took 1.38 ms, the last half 1.47 ms"; empty unless the samples drift.
std::string render_drift(const Perf& perf);

}  // namespace assay
