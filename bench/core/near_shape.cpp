// SPDX-License-Identifier: Apache-2.0
#include "bench/core/near_shape.h"

#include <algorithm>
#include <new>
#include <utility>

#include "bench/core/process_watch.h"
#include "properties/core/compare_outputs.h"
#include "properties/core/precheck.h"
#include "properties/core/random.h"
#include "properties/core/runs.h"

namespace assay {
namespace {

constexpr uint64_t kNearStream = 5300;
constexpr int64_t kLeastSize = 16, kMostAligned = 64;
constexpr double kLeastOnCpu = 1e-3;  // [s]
constexpr double kMuchSlower = 2;

std::string step_of(const Case& which) {
  return "a call of " + which.to_string();
}

// The largest power of two that divides the size, but no more than leaves two sizes to choose from.
int64_t alignment(int64_t size) {
  int64_t aligned = 1;
  while (2 * aligned <= std::min(kMostAligned, size / 16) && size % (2 * aligned) == 0) aligned *= 2;
  return aligned;
}

}  // namespace

std::optional<Case> near_case(const Op& op, const Case& which, uint64_t seed) {
  for (size_t i = 0; i < std::min<size_t>(2, op.dims.size()); ++i) {
    const int64_t size = which.dims.at(op.dims[i].key);
    if (size < kLeastSize) continue;
    const int64_t aligned = alignment(size);
    const auto choices = static_cast<uint64_t>(size / 8 / aligned);
    const auto steps = static_cast<int64_t>(1 + CounterRandom(seed, kNearStream).bits(0) % choices);
    Case near = which;
    near.dims.set(op.dims[i].key, size - steps * aligned);
    if (near.dims.at(op.dims[i].key) < op.dims[i].min) return std::nullopt;
    return near;
  }
  return std::nullopt;
}

size_t near_answer(uint64_t seed) {
  return 1 + CounterRandom(seed, kNearStream).bits(1) % kNearCalls;
}

double shortest(std::vector<double> times, double known) {
  std::ranges::sort(times);
  return times.at(1) > kMuchSlower * known ? times[1] : times[0];
}

std::string why_slower(const MedianInterval& timed, const Device& device, const NearSamples& near) {
  const double least = device.host_can_access() ? kLeastOnCpu : kLeastSlower;
  const double allowed = std::max(kSlower * timed.high, timed.high + 1e9 * least);
  if (shortest(near.ns, allowed) <= allowed) return "";
  return fmt::format("a call of {} takes {:.4g} µs, and one of the timed problem {:.4g} µs",
                     near.which.to_string(), median_interval(near.ns).median / 1e3, timed.median / 1e3);
}

std::unique_ptr<NearShape> NearShape::make(const Subject& subject, Problem& timed, uint64_t seed) {
  const std::optional<Case> which = near_case(*subject.op, timed.which(), seed);
  if (!which) return nullptr;
  timed.begin(step_of(*which));
  Said said = precheck(subject, *which);
  std::optional<Verdict> verdict = std::move(said.verdict);
  std::optional<Problem> problem;
  try {
    if (!verdict) {
      problem.emplace(*subject.op, *subject.path, *which, timed.device());
      problem->draw_inputs(which->seed);
      problem->begin(step_of(*which));
      problem->run();
      return std::unique_ptr<NearShape>(
          new NearShape(subject, *std::move(problem), *std::move(said.recipe), seed));
    }
  } catch (const OutOfMemory&) {
    return nullptr;
  } catch (const std::bad_alloc&) {
    return nullptr;
  } catch (...) {
    if (!problem) throw;
    verdict = verdict_on_stop(*problem);
  }
  if (is_failure(verdict->kind)) throw PathThrew(*std::move(verdict));
  return nullptr;
}

NearShape::NearShape(const Subject& subject, Problem problem, Recipe recipe, uint64_t seed)
    : subject_(&subject),
      seed_(seed),
      samples_{.which = problem.which(), .recipe = std::move(recipe), .ns = {}, .outputs = {}},
      problem_(std::move(problem)),
      draws_(problem_, seed) {}

std::string NearShape::step() const {
  return step_of(samples_.which);
}

uint64_t NearShape::hash_and_flip() {
  uint64_t all = 0;
  for (GuardedTensor& tensor : problem_.output_tensors())
    all = CounterRandom(all, problem_.device().hash_and_flip(tensor.device_span())).bits(0);
  return all;
}

bool NearShape::call_and_flip() {
  problem_.enqueue();
  const uint64_t answer = hash_and_flip();
  return !answer_ || !problem_.path().deterministic || *answer_ == answer;
}

void NearShape::change_inputs() {
  draws_.use(samples_.ns.size() + 1);
}

void NearShape::add(double ns) {
  samples_.ns.push_back(ns);
  const bool is_asked = samples_.ns.size() == near_answer(seed_);
  for (size_t i = 0; is_asked && i < problem_.output_tensors().size(); ++i) {
    GuardedTensor& tensor = problem_.output_tensors()[i];
    tensor.download();
    samples_.outputs.push_back(tensor.gather(brief_sample(*subject_, samples_.which, i, seed_)));
  }
  answer_ = hash_and_flip();
}

NearSamples NearShape::take() {
  try {
    problem_.finish(problem_.device().stream());
  } catch (const Trespass& trespass) {
    throw PathThrew({.kind = VerdictKind::kFail, .reason = trespass.what(), .outputs = {}});
  }
  return std::move(samples_);
}

}  // namespace assay
