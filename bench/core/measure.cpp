// SPDX-License-Identifier: Apache-2.0
#include "bench/core/measure.h"

#include <algorithm>

#include "properties/core/judge.h"
#include "properties/core/random.h"

namespace assay {
namespace {

constexpr uint64_t kTotalsStream = 5200;

// The ceilings of products are those of one large product. A smaller one may run at a higher clock.
constexpr double kFasterProducts = 1.25;

std::string microseconds(double ns) {
  return fmt::format("{:.4g} µs", ns / 1e3);
}

OtherTimes other_times(std::string what, std::vector<double> ns) {
  const MedianInterval interval = median_interval(ns);
  return {.what = std::move(what),
          .samples_ns = std::move(ns),
          .median_ns = interval.median,
          .ci95_ns = {interval.low, interval.high}};
}

}  // namespace

Perf perf_of(Samples samples, const Subject& subject, const Recipe& recipe, const Case& which,
             const DeviceInfo& device, Cache cache, const std::optional<Ceilings>& ceilings, uint64_t draws) {
  Perf perf;
  perf.cache = cache;
  perf.timer = device.kind == DeviceKind::kCuda ? "cuda_event" : "steady_clock";
  perf.samples_ns = std::move(samples.ns);
  const MedianInterval interval = median_interval(perf.samples_ns);
  perf.median_ns = interval.median;
  perf.ci95_ns[0] = interval.low;
  perf.ci95_ns[1] = interval.high;
  perf.draws = draws;
  if (samples.waits > 0) perf.waits_ns = 1e9 * samples.waits;
  if (!samples.other_ns.empty())
    perf.other = other_times(other_data(draws).to_string(), std::move(samples.other_ns));
  if (samples.near) perf.near = other_times(samples.near->which.to_string(), std::move(samples.near->ns));
  if (!samples.graph_ns.empty()) {
    perf.graph = GraphTimes{.samples_ns = std::move(samples.graph_ns)};
    perf.graph->median_ns = median_interval(perf.graph->samples_ns).median;
  }
  const Cost cost = subject.op->cost(which.dims, which.dtype);
  perf.bytes = cost.bytes;
  perf.flops = cost.flops;
  if (!ceilings) return perf;
  const auto stages =
      subject.path->stages ? subject.path->stages(which.dims, which.dtype) : std::vector<Stage>{};
  perf.floor_parts = floor_parts(*ceilings, cost, stages, recipe, device.cache_bytes);
  perf.floor_ns = 0;
  for (const FloorPart& part : perf.floor_parts) *perf.floor_ns += part.ns;
  perf.fraction_of_floor = *perf.floor_ns / perf.median_ns;
  perf.implausible = why_implausible(perf, recipe, device, *ceilings);
  return perf;
}

std::optional<std::string> why_implausible(const Perf& perf, const Recipe& recipe, const DeviceInfo& device,
                                           const Ceilings& ceilings) {
  const double longest = perf.ci95_ns[1];
  const bool is_from_memory = perf.cache == Cache::kCold || perf.bytes > 2 * device.cache_bytes;
  const double fastest = std::max(ceilings.copy_bytes_per_s, ceilings.read_bytes_per_s);
  const double read_ns = static_cast<double>(perf.bytes) / fastest * 1e9;
  if (is_from_memory && longest < read_ns) {
    return fmt::format("{} is less than reading as many bytes takes, {}", microseconds(longest),
                       microseconds(read_ns));
  }
  const double products_ns = products_seconds(ceilings, perf.flops, recipe) * 1e9 / kFasterProducts;
  if (longest < products_ns) {
    return fmt::format("{} is less than as many products take at {} times the measured rate, {}",
                       microseconds(longest), kFasterProducts, microseconds(products_ns));
  }
  return std::nullopt;
}

std::optional<Verdict> find_wrong_answer(const Subject& subject, const Case& which, const Recipe& recipe,
                                         uint64_t draws, std::vector<TimedAnswer> answers,
                                         std::optional<Problem> held) {
  if (answers.empty()) return std::nullopt;
  const auto cpu = open_cpu();
  std::optional<Problem> inputs = std::move(held);
  if (!inputs) {
    inputs.emplace(*subject.op, *subject.path, which, *cpu);
    inputs->only_hold_inputs();
    inputs->draw_inputs(which.seed);
  }
  std::ranges::sort(answers, {}, &TimedAnswer::draw);  // other data last
  const auto own =
      std::ranges::count_if(answers, [](const auto& answer) { return answer.draw != kOtherData; });
  const size_t asked = CounterRandom(draws, kTotalsStream).bits(0) % static_cast<size_t>(std::max(own, 1L));
  size_t draw = 0;
  for (TimedAnswer& answer : answers) {
    change_draw(*inputs, draws, std::exchange(draw, answer.draw), answer.draw);
    const auto totals = &answer == &answers[asked]  ? Brief::Totals::kJudged
                        : answer.draw == kOtherData ? Brief::Totals::kWithinBounds
                                                    : Brief::Totals::kLeftOut;
    const Brief brief{.seed = sample_seed(draws, draw), .totals = totals};
    Verdict verdict = judge_outputs(subject, *inputs, recipe, std::move(answer.outputs), {.brief = brief});
    if (!is_failure(verdict.kind)) continue;
    const std::string on = answer.draw == kOtherData
                               ? fmt::format("data={} from another seed", other_data(draws).to_string())
                               : fmt::format("draw {} of its inputs", answer.draw);
    verdict.reason = fmt::format("a timed call on {}: {}", on, verdict.reason);
    return verdict;
  }
  return std::nullopt;
}

std::optional<Verdict> find_wrong_answer(const Subject& subject, const NearSamples& near, uint64_t draws) {
  const auto cpu = open_cpu();
  Problem inputs(*subject.op, *subject.path, near.which, *cpu);
  inputs.only_hold_inputs();
  inputs.draw_inputs(near.which.seed);
  change_draw(inputs, draws, 0, near_answer(draws));
  const Brief brief{.seed = draws, .totals = Brief::Totals::kWithinBounds};
  Verdict verdict = judge_outputs(subject, inputs, near.recipe, near.outputs, {.brief = brief});
  if (!is_failure(verdict.kind)) return std::nullopt;
  verdict.reason = fmt::format("a timed call of {}: {}", near.which.to_string(), verdict.reason);
  return verdict;
}

}  // namespace assay
