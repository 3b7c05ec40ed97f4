// SPDX-License-Identifier: Apache-2.0
// Timing: one sample per call, cold and warm caches apart, medians with intervals.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/core/ceilings.h"
#include "bench/core/telemetry.h"
#include "properties/core/case.h"
#include "properties/core/problem.h"

namespace assay {

enum class Cache : uint8_t {
  kCold,  // Device::flush_cache() runs before every sample
  kWarm,  // the same call ran just before
};
std::string_view name_of(Cache cache);

struct Perf {
  Cache cache = Cache::kCold;
  std::string timer;               // "cuda_event", "steady_clock"
  std::vector<double> samples_ns;  // [ns] in the order taken
  double median_ns = 0;            // [ns]
  double ci95_ns[2] = {0, 0};      // [ns] of the median, from order statistics
  int64_t bytes = 0;               // [bytes] Cost::bytes of kernels/core/op.h
  int64_t flops = 0;               // [flop]
  // Absent if the ceilings of the device were not measured.
  std::optional<double> floor_ns;           // [ns] floor_seconds() of bench/core/ceilings.h
  std::optional<double> fraction_of_floor;  // [1] floor_ns / median_ns
  // Why the time cannot be right: it is shorter than reading the bytes takes.
  std::optional<std::string> implausible;
  std::optional<Telemetry> telemetry;  // absent if nobody watched the device
};

// A problem to time, from bench/<op>.cpp. The program adds the path.
struct Sweep {
  std::string_view op;
  DeviceKind device;
  DType dtype;
  Dims dims;
};

// The sweeps of all ops, defined in the generated source of each program.
const std::vector<Sweep>& sweeps();

// Times a problem that was judged just before, whose path has said its recipe. `ceilings` belong to
// its device; they are absent if they were not measured.
Perf measure(Problem& problem, const Recipe& recipe, Cache cache, const std::optional<Ceilings>& ceilings);

// The two parts of measure(): the process that runs the path takes the samples, [ns], and any other
// one, which knows the device and its ceilings, says what they mean.
std::vector<double> take_samples(Problem& problem, Cache cache);
Perf perf_of(std::vector<double> samples_ns, const Op& op, const Recipe& recipe, const Case& which,
             const DeviceInfo& device, Cache cache, const std::optional<Ceilings>& ceilings);

// The median and its 95 % interval by order statistics (binomial, without an assumption on the
// distribution).
struct MedianInterval {
  double median;
  double low;
  double high;
};
MedianInterval median_interval(std::vector<double> samples);  // throws Error if empty

// A change of the samples while they are taken, as on a GPU that meets its power limit. The median
// of the first tenth (at least ten samples) and the median of the last half differ by more than 3
// %, and their intervals do not overlap. Independent samples of one distribution do so at most one
// time in ten. Fewer than 30 samples give no answer.
struct Drift {
  size_t count;        // samples in the first part
  double first, last;  // medians
};
std::optional<Drift> drift_of(const std::vector<double>& samples);

}  // namespace assay
