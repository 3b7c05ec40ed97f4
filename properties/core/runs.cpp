// SPDX-License-Identifier: Apache-2.0
#include "properties/core/runs.h"

#include <algorithm>

#include "kernels/core/printable.h"
#include "properties/core/history.h"
#include "properties/core/roles.h"
#include "properties/core/thrown.h"

namespace assay {
namespace {

// Rules 3 and 4, after a run on outputs with this poison.
std::optional<std::string> find_trespass(Problem& problem, std::span<const uint64_t> input_hashes,
                                         Poison poison) {
  for (size_t i = 0; i < input_hashes.size(); ++i) {
    GuardedTensor& input = problem.input_tensors()[i];
    input.download();
    if (input.hash() != input_hashes[i]) {
      return fmt::format("the input {}, or the memory around it, was modified", problem.op().inputs[i].name);
    }
  }
  for (size_t i = 0; i < problem.output_tensors().size(); ++i) {
    if (const auto where = problem.output_tensors()[i].find_overwrite(poison)) {
      return fmt::format("memory around {} was written: {}", problem.op().outputs[i].name, *where);
    }
  }
  return std::nullopt;
}

// Rule 6: the state must not show. `trials` were made although the last step loaded choices.
std::optional<std::string> find_history(Problem& problem, Runs& runs, int64_t trials) {
  const Path& path = problem.path();
  const State& state = problem.which().state;
  if (trials > 0)
    return fmt::format("{} configurations were tried again although their choice was loaded", trials);
  const bool has_history = !state.steps.empty() || !path.tunables.empty();
  if (!has_history || !path.deterministic) return std::nullopt;
  TensorBytes untuned = outputs_of_untuned_call(problem);
  auto difference = first_difference(problem, runs.got, untuned);
  if (difference) runs.untuned = std::move(untuned);
  return difference;
}

// Rule 5: the first element that differs between two runs whose outputs had different poison.
std::optional<std::string> find_difference(std::string_view name, const Extents& shape, DType dtype,
                                           bool deterministic, std::span<const std::byte> first,
                                           std::span<const std::byte> second) {
  if (std::ranges::equal(first, second)) return std::nullopt;
  const size_t bytes = size_of(dtype);
  for (size_t at = 0; at < first.size(); at += bytes) {
    const auto a = first.subspan(at, bytes);
    const auto b = second.subspan(at, bytes);
    if (std::ranges::equal(a, b)) continue;
    const auto element = static_cast<int64_t>(at / bytes);
    const bool left_poisoned =
        std::ranges::all_of(b, [](std::byte byte) { return byte == std::byte(Poison::kFinite); });
    if (left_poisoned)
      return fmt::format("{} still holds what was there before the call", element_name(name, element, shape));
    if (!deterministic) continue;
    return fmt::format(
        "{} differs between two runs on the same inputs: {} and {}; the path calls itself deterministic",
        element_name(name, element, shape), read_element(first, dtype, element),
        read_element(second, dtype, element));
  }
  return std::nullopt;
}

std::optional<std::string> find_difference(const Problem& problem, const Runs& runs) {
  const Case& which = problem.which();
  for (size_t i = 0; i < runs.got.size(); ++i) {
    const TensorInfo& info = problem.op().outputs[i];
    auto difference = find_difference(info.name, shape_of(info, which.dims), info.dtype.value_or(which.dtype),
                                      problem.path().deterministic, runs.got[i], runs.again[i]);
    if (difference) return difference;
  }
  return std::nullopt;
}

// Rule 7: what a launch declares wrongly.
std::optional<std::string> find_wrong_role(Problem& problem) {
  Tuner& tuner = problem.context()->tuner();
  if (problem.path().tunables.empty()) {
    if (tuner.choices() == 0) return std::nullopt;
    return "the path has launches that choose among configurations, but lists none";
  }
  if (!problem.path().deterministic) return std::nullopt;
  RoleChecker checker(problem.device());
  tuner.observe(&checker);
  try {
    problem.call_path(problem.call());
    problem.device().synchronize();
  } catch (...) {
    tuner.observe(nullptr);
    throw;
  }
  tuner.observe(nullptr);
  return checker.fault();
}

// Rules 3 to 7: what is broken, if anything is.
std::optional<std::string> run_twice(Problem& problem, const TensorBytes* inputs,
                                     std::vector<uint64_t>& input_hashes, Runs& runs) {
  auto wrong_step = prepare(problem, inputs);
  for (const GuardedTensor& input : problem.input_tensors()) input_hashes.push_back(input.hash());
  if (wrong_step) {
    runs.of_step = std::move(wrong_step->evidence);
    return std::move(wrong_step->reason);
  }
  const State& state = problem.which().state;
  const Tuner& tuner = problem.context()->tuner();
  const bool has_loaded = state.ends_with(StepKind::kCacheLoaded) && tuner.choices() > 0;
  if (state.ends_with(StepKind::kSecondCall)) runs.previous = problem.outputs();
  problem.begin("the first run");
  problem.run();
  runs.got = problem.outputs();
  if (auto trespass = find_trespass(problem, input_hashes, Poison::kNan)) return trespass;
  problem.poison_outputs(Poison::kFinite);
  problem.begin("the second run");
  problem.run();
  runs.again = problem.outputs();
  if (auto trespass = find_trespass(problem, input_hashes, Poison::kFinite)) return trespass;
  const int64_t trials = has_loaded ? tuner.trials() : 0;
  problem.begin("a run that checks what its launches declare");
  if (auto wrong_role = find_wrong_role(problem)) return wrong_role;
  problem.begin("an untuned call in a new context");
  if (auto history = find_history(problem, runs, trials)) return history;
  return find_difference(problem, runs);
}

Verdict verdict(VerdictKind kind, std::string reason) {
  return {.kind = kind, .reason = std::move(reason), .outputs = {}};
}

std::optional<Verdict> verdict_on(Problem& problem, const TensorBytes* inputs,
                                  std::vector<uint64_t>& input_hashes, Runs& runs) {
  try {
    auto broken = run_twice(problem, inputs, input_hashes, runs);
    return broken ? std::optional(verdict(VerdictKind::kFail, *std::move(broken))) : std::nullopt;
  } catch (const StepIsImpossible& error) {
    return verdict(VerdictKind::kSkipped, error.what());
  } catch (const ChangedEnvironment& error) {
    return verdict(VerdictKind::kFail, error.what());
  } catch (...) {
    return verdict_on_thrown();
  }
}

}  // namespace

Runs run_path(Problem& problem, const TensorBytes* inputs) {
  Runs runs;
  std::vector<uint64_t> input_hashes;  // before the first run; empty if a step of the state threw
  runs.verdict = verdict_on(problem, inputs, input_hashes, runs);
  if (runs.verdict) runs.verdict->reason = excerpt(runs.verdict->reason, kLongestReason);
  if (runs.again == runs.got) runs.again.clear();
  const bool has_changed = !input_hashes.empty() && !std::ranges::equal(problem.input_tensors(), input_hashes,
                                                                        {}, &GuardedTensor::hash);
  if (has_changed) runs.changed_inputs = problem.inputs();
  return runs;
}

}  // namespace assay
