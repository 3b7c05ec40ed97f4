// SPDX-License-Identifier: Apache-2.0
// What the times of a problem mean: medians with intervals, beside what the device can do at best.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/core/ceilings.h"
#include "bench/core/median.h"
#include "bench/core/telemetry.h"
#include "bench/core/timer.h"
#include "properties/core/case.h"
#include "properties/core/problem.h"

namespace assay {

// The times on other data than those of the case, or with almost its shape (Timer, rule 4).
struct OtherTimes {
  std::string what;  // "uniform", or the case of the other shape
  std::vector<double> samples_ns;
  double median_ns = 0;        // [ns]
  double ci95_ns[2] = {0, 0};  // [ns]
};

// The times of replays of a graph of the call.
struct GraphTimes {
  std::vector<double> samples_ns;
  double median_ns = 0;  // [ns]
};

struct Perf {
  Cache cache = Cache::kCold;
  std::string timer;               // "cuda_event", "steady_clock"
  std::vector<double> samples_ns;  // [ns] in the order taken
  double median_ns = 0;            // [ns]
  double ci95_ns[2] = {0, 0};      // [ns] of the median, from order statistics
  int64_t bytes = 0;               // [bytes] Cost::bytes of kernels/core/op.h
  int64_t flops = 0;               // [flop]
  // Absent if the ceilings of the device were not measured.
  std::optional<double> floor_ns;           // [ns] the sum of its parts
  std::optional<double> fraction_of_floor;  // [1] floor_ns / median_ns
  std::vector<FloorPart> floor_parts;       // bench/core/ceilings.h; none in older records
  // Why the time cannot be right: it is shorter than reading the bytes or doing the flops takes.
  std::optional<std::string> implausible;
  std::optional<uint64_t> draws;    // the seed of Draws
  std::optional<OtherTimes> other;  // on other data, with cold caches
  std::optional<OtherTimes> near;   // with almost this shape, with cold caches
  std::optional<GraphTimes> graph;  // with cold caches, where the device has graphs
  // [ns] How long a call waited for its own stream before it returned. Absent if it does not.
  std::optional<double> waits_ns;
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

// The process that runs the path takes the samples. Any other one, which knows the device and its
// ceilings, says what they mean. `ceilings` are absent if they were not measured; `draws` is the
// seed of the timer.
Perf perf_of(Samples samples, const Subject& subject, const Recipe& recipe, const Case& which,
             const DeviceInfo& device, Cache cache, const std::optional<Ceilings>& ceilings, uint64_t draws);

// Why a time is shorter than reading the bytes or doing the flops takes, if it is. Reading is as
// fast as the faster of copy and read. Warm data that are small enough come from a cache, which no
// memory bandwidth limits.
std::optional<std::string> why_implausible(const Perf& perf, const Recipe& recipe, const DeviceInfo& device,
                                           const Ceilings& ceilings);

// What the oracle says of what timed calls computed: the first verdict that is a failure, if one
// is. It runs nothing of the path, and compares briefly (compare_outputs.h): totals of one answer,
// by the seed, other outputs of all. The totals of other data need be within their bounds alone.
// `held` holds the inputs of draw 0 in host memory; without it they are drawn again. Throws Error
// (device) if the host has no memory for it.
std::optional<Verdict> find_wrong_answer(const Subject& subject, const Case& which, const Recipe& recipe,
                                         uint64_t draws, std::vector<TimedAnswer> answers,
                                         std::optional<Problem> held = {});

// The same of the answer with almost the timed shape. Its totals need be within their bounds alone.
std::optional<Verdict> find_wrong_answer(const Subject& subject, const NearSamples& near, uint64_t draws);

}  // namespace assay
