// SPDX-License-Identifier: Apache-2.0
// What the renderings have in common: the cases of a record gathered by path.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/record/record.h"

namespace assay {

// The worst of each number over all outputs of one or more cases.
struct Numbers {
  double max_error_over_bound = 0;
  std::optional<double> rms_over_allowed;  // absent where the rms law applies to none of the outputs
  double max_ulp = 0;
  std::optional<double> rel_l2;  // absent where no output has one
};
std::optional<double> rms_over_allowed(const OutputNumerics& output);
std::optional<Numbers> numbers_of(const CaseRecord& item);  // nothing if no element was compared

// All cases of one op, path, dtype and device. Points into the record.
struct PathSummary {
  std::string op;
  std::string path;
  DType dtype;
  std::string device;
  Tally tally;
  std::optional<Numbers> worst;
  const CaseRecord* largest_timed = nullptr;  // the timed case that moves the most bytes, the first of them
  std::optional<double> best_fraction;        // of the floor, cold; an implausible time does not count
  int64_t implausible = 0;                    // cold times that are
  std::vector<const CaseRecord*> cases;
};

// Of the sum of all stages' bounds, in their order; 0 if that is 0 or infinite.
std::vector<double> parts_of_bound(const std::vector<Share>& shares);

std::vector<PathSummary> summarize(const Record& record);  // by op, path, device and dtype

std::vector<const CaseRecord*> failures(const Record& record);
std::vector<const CaseRecord*> timed_cases(const Record& record);

// "198 pass, 2 fail"
std::string describe(const Tally& tally);

// [bytes/s] at the median; nothing if the time is 0 or the problem empty.
std::optional<double> bytes_per_second(const Perf& perf);
// "1250 GB/s", "187 TFLOP/s", with this between them; or a dash.
std::string render_rates(const Perf& perf, std::string_view between);
// "the first 24 calls took 1.38 ms, the last half 1.47 ms"; empty unless the samples drift.
std::string render_drift(const Perf& perf);

}  // namespace assay
