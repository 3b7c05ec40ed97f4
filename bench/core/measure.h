// SPDX-License-Identifier: Apache-2.0
// Timing on Google Benchmark with manual time: one sample per call, cold and warm caches apart, medians with
// intervals.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/core/ceilings.h"
#include "properties/core/case.h"
#include "properties/core/problem.h"

namespace assay {

enum class Cache : uint8_t {
  kCold,  // caches filled with other data before every sample: Device::flush_cache()
  kWarm,  // the same call ran just before
};
std::string_view name_of(Cache cache);

struct Perf {
  Cache cache = Cache::kCold;
  std::string timer;                       // "cuda_event", "steady_clock"
  std::vector<double> samples_ns;          // [ns] in the order taken
  double median_ns = 0;                    // [ns]
  double ci95_ns[2] = {0, 0};              // [ns] of the median, from order statistics
  int64_t bytes = 0;                       // [bytes] each input read once, each output written once
  int64_t flops = 0;                       // [flop]
  double floor_ns = 0;                     // [ns] floor_seconds() of bench/core/ceilings.h
  double fraction_of_floor = 0;            // [1] floor_ns / median_ns
  std::optional<std::string> implausible;  // why the time cannot be right: faster than memory can be read
};

// A problem to time, from an op's bench/<op>.cpp. The path is filled in by the program.
struct Sweep {
  std::string_view op;
  DeviceKind device;
  DType dtype;
  Dims dims;
};

// The sweeps of all ops. Defined in the generated source of each program.
const std::vector<Sweep>& sweeps();

// Times a problem that was judged just now. `ceilings` are the device's.
Perf measure(Problem& problem, Cache cache, const Ceilings& ceilings);

// Median and the 95 % interval of the median by order statistics (binomial, no assumption on the
// distribution).
struct MedianInterval {
  double median;
  double low;
  double high;
};
MedianInterval median_interval(std::vector<double> samples);  // throws Error if empty

// Samples that change while they are taken, as those of a GPU that meets its power limit do: the median of the first tenth,
// at least ten, lies more than 3 % from that of the last half, and their intervals apart: samples that are independent and
// alike do so in one of ten times at most. Of fewer than 30 samples nothing is said.
struct Drift {
  size_t count;        // of the first ones
  double first, last;  // medians
};
std::optional<Drift> drift_of(const std::vector<double>& samples);

}  // namespace assay
