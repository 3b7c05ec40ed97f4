// SPDX-License-Identifier: Apache-2.0
#include "bench/core/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace assay {
namespace {

double time_once(Problem& problem, Cache cache) {
  if (cache == Cache::kCold) problem.device().flush_cache();
  return problem.device().time([&] { problem.enqueue(); });
}

// As many calls as fill a third of a second, or five seconds together with their flushes, but 15 to
// 300. 15 are enough for an interval of the median, and few enough for a slow path or a slow flush.
int64_t sample_count(Problem& problem, Cache cache) {
  using Seconds = std::chrono::duration<double>;
  const auto start = std::chrono::steady_clock::now();
  const double call = time_once(problem, cache);
  const double all = Seconds(std::chrono::steady_clock::now() - start).count();
  return std::clamp<int64_t>(static_cast<int64_t>(std::min(0.33 / std::max(call, 1e-9), 5 / all)), 15, 300);
}

}  // namespace

std::string_view name_of(Cache cache) {
  switch (cache) {
    case Cache::kCold:
      return "cold";
    case Cache::kWarm:
      return "warm";
  }
  throw Error("Cache({}) is not a cache state", static_cast<int>(cache));
}

MedianInterval median_interval(std::vector<double> samples) {
  if (samples.empty()) throw Error("a median needs at least one sample");
  std::ranges::sort(samples);
  const size_t n = samples.size();
  const double median = n % 2 == 1 ? samples[n / 2] : (samples[n / 2 - 1] + samples[n / 2]) / 2;
  // The number of samples below the true median is binomial(n, 1/2). The interval from the k-th
  // smallest to the k-th largest sample misses it with probability 2 * P(binomial < k). Take the
  // largest k for which that is at most 5 %. With fewer than six samples there is no such k, and
  // the interval is the whole range.
  double probability = std::ldexp(1.0, -static_cast<int>(n));  // of j samples below
  double below = 0;                                            // of at most j
  size_t k = 0;
  for (size_t j = 0; j < n / 2; ++j) {
    below += probability;
    if (2 * below > 0.05) break;
    k = j;
    probability *= static_cast<double>(n - j) / static_cast<double>(j + 1);
  }
  return {.median = median, .low = samples[k], .high = samples[n - 1 - k]};
}

std::optional<Drift> drift_of(const std::vector<double>& samples) {
  const size_t count = std::max<size_t>(samples.size() / 10, 10);
  if (samples.size() < 3 * count) return std::nullopt;
  const auto begin = samples.begin();
  const MedianInterval first = median_interval({begin, begin + static_cast<std::ptrdiff_t>(count)});
  const MedianInterval last =
      median_interval({begin + static_cast<std::ptrdiff_t>(samples.size() / 2), samples.end()});
  const bool is_apart = first.high < last.low || last.high < first.low;
  if (!is_apart || std::abs(last.median - first.median) <= 0.03 * first.median) return std::nullopt;
  return Drift{.count = count, .first = first.median, .last = last.median};
}

std::vector<double> take_samples(Problem& problem, Cache cache, int rounds) {
  time_once(problem, Cache::kWarm);  // first touch of the outputs, code pages, clocks
  const int64_t count = std::max<int64_t>(sample_count(problem, cache) / rounds, 3);
  std::vector<double> samples;
  for (int64_t i = 0; i < count; ++i) samples.push_back(time_once(problem, cache) * 1e9);
  return samples;
}

Perf measure(Problem& problem, const Recipe& recipe, Cache cache, const std::optional<Ceilings>& ceilings) {
  return perf_of(take_samples(problem, cache), problem.op(), recipe, problem.which(), problem.device().info(),
                 cache, ceilings);
}

Perf perf_of(std::vector<double> samples_ns, const Op& op, const Recipe& recipe, const Case& which,
             const DeviceInfo& device, Cache cache, const std::optional<Ceilings>& ceilings) {
  Perf perf;
  perf.cache = cache;
  perf.timer = device.kind == DeviceKind::kCuda ? "cuda_event" : "steady_clock";
  perf.samples_ns = std::move(samples_ns);
  const MedianInterval interval = median_interval(perf.samples_ns);
  perf.median_ns = interval.median;
  perf.ci95_ns[0] = interval.low;
  perf.ci95_ns[1] = interval.high;
  const Cost cost = op.cost(which.dims, which.dtype);
  perf.bytes = cost.bytes;
  perf.flops = cost.flops;
  if (!ceilings) return perf;
  perf.floor_ns = floor_seconds(*ceilings, cost, recipe) * 1e9;
  perf.fraction_of_floor = *perf.floor_ns / perf.median_ns;
  // Warm data may come from a cache, which no memory bandwidth limits, unless it is too large for
  // the cache.
  const bool from_memory = cache == Cache::kCold || cost.bytes > 2 * device.cache_bytes;
  const double fastest = std::max(ceilings->copy_bytes_per_s, ceilings->read_bytes_per_s);
  const double least_ns = static_cast<double>(cost.bytes) / fastest * 1e9;
  if (from_memory && perf.ci95_ns[1] < least_ns) {
    perf.implausible = fmt::format("{:.4g} us is less than reading as many bytes takes, {:.4g} us",
                                   perf.ci95_ns[1] / 1e3, least_ns / 1e3);
  }
  return perf;
}

}  // namespace assay
