// SPDX-License-Identifier: Apache-2.0
#include "bench/core/near_shape.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "bench/core/process_watch.h"
#include "properties/core/compare_outputs.h"
#include "properties/core/precheck.h"
#include "properties/core/random.h"
#include "properties/core/runs.h"

namespace assay {
namespace {

constexpr uint64_t kNearStream = 5300;
constexpr double kLeastOnCpu = 1e-3;  // [s]

int64_t outermost(const Case& which) {
  return which.dims.values().front().second;
}

std::string outermost_as_text(const Case& which) {
  return fmt::format("{}={}", which.dims.values().front().first, outermost(which));
}

[[noreturn]] void blame(const Case& which, Verdict verdict) {
  verdict.reason = fmt::format("with {}: {}", outermost_as_text(which), verdict.reason);
  throw PathThrew(std::move(verdict));
}

}  // namespace

std::optional<Case> near_case(const Op& op, const Case& which, uint64_t seed) {
  const DimInfo& info = op.dims.front();
  const int64_t size = outermost(which);
  const auto less = static_cast<int64_t>(CounterRandom(seed, kNearStream).bits(0) %
                                         static_cast<uint64_t>(std::max<int64_t>(1, size / 8)));
  const int64_t near = size == 1 ? 2 : size - 1 - less;
  if (near < std::max<int64_t>(1, info.min) || near > info.max) return std::nullopt;
  Case other = which;
  other.dims.set(info.key, near);
  return other;
}

std::string slower_than(const MedianInterval& timed, const Problem& problem, const NearSamples& near) {
  const Case& which = problem.which();
  const double growth =
      std::max(1.0, static_cast<double>(outermost(near.which)) / static_cast<double>(outermost(which)));
  const double allowed = growth * timed.high;
  const double least = problem.device().host_can_access() ? kLeastOnCpu : kLeastSlower;
  const MedianInterval other = median_interval(near.ns);
  if (other.low <= std::max(kSlower * allowed, allowed + 1e9 * least)) return "";
  return fmt::format("a call takes {:.4g} us with {}, and {:.4g} us with {}", other.median / 1e3,
                     outermost_as_text(near.which), timed.median / 1e3, outermost_as_text(which));
}

size_t near_answer(uint64_t seed) {
  return 1 + CounterRandom(seed, kNearStream).bits(1) % kNearCalls;
}

std::unique_ptr<NearShape> NearShape::make(const Subject& subject, Problem& timed, uint64_t seed) {
  const std::optional<Case> which = near_case(*subject.op, timed.which(), seed);
  if (!which) return nullptr;
  std::optional<Verdict> verdict;
  try {
    Said said = precheck(subject, *which);
    verdict = std::move(said.verdict);
    if (!verdict) {
      Problem problem(*subject.op, *subject.path, *which, timed.device());
      problem.set_observer([&](std::string_view step) {
        timed.begin(fmt::format("{} with {}", step, outermost_as_text(*which)));
      });
      verdict = run_path(subject, problem, *said.recipe).verdict;
      problem.set_observer({});
      if (!verdict) {
        return std::unique_ptr<NearShape>(
            new NearShape(subject, std::move(problem), *std::move(said.recipe), seed));
      }
    }
  } catch (const OutOfMemory&) {
    return nullptr;
  }
  if (is_failure(verdict->kind)) blame(*which, *std::move(verdict));
  return nullptr;
}

NearShape::NearShape(const Subject& subject, Problem problem, Recipe recipe, uint64_t seed)
    : subject_(&subject),
      seed_(seed),
      samples_{.which = problem.which(), .recipe = std::move(recipe), .ns = {}, .outputs = {}},
      problem_(std::move(problem)),
      draws_(problem_, seed) {}

void NearShape::call_and_flip() {
  problem_.enqueue();
  for (GuardedTensor& tensor : problem_.output_tensors()) problem_.device().flip(tensor.device_span());
}

void NearShape::change_inputs() {
  draws_.use(samples_.ns.size() + 1);
}

void NearShape::add(double ns) {
  samples_.ns.push_back(ns);
  if (samples_.ns.size() != near_answer(seed_)) return;
  for (size_t i = 0; i < problem_.output_tensors().size(); ++i) {
    GuardedTensor& tensor = problem_.output_tensors()[i];
    tensor.download();
    samples_.outputs.push_back(tensor.gather(brief_sample(*subject_, samples_.which, i, seed_)));
  }
}

NearSamples NearShape::take() {
  try {
    problem_.finish(problem_.device().stream());
  } catch (...) {
    blame(samples_.which, verdict_on_stop(problem_));
  }
  return std::move(samples_);
}

}  // namespace assay
