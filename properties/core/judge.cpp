// SPDX-License-Identifier: Apache-2.0
#include "properties/core/judge.h"

#include <algorithm>

#include "properties/core/compare_outputs.h"
#include "properties/core/history.h"
#include "properties/core/precheck.h"
#include "properties/core/roles.h"

namespace assay {
namespace {

Verdict verdict(VerdictKind kind, std::string reason) {
  return {.kind = kind, .reason = std::move(reason), .outputs = {}};
}

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

}  // namespace

Verdict judge(const Subject& subject, const Case& which, Device& device, const JudgeOptions& options) {
  if (auto refused = precheck(subject, which)) return *std::move(refused);
  std::optional<Problem> problem;
  try {
    problem.emplace(*subject.op, *subject.path, which, device);
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kDevice) throw;
    return verdict(VerdictKind::kSkipped, error.what());
  }
  return judge(subject, *problem, options);
}

namespace {

// What the path did in two runs of the judged call, on outputs with different poison.
struct Runs {
  std::vector<uint64_t> input_hashes;  // before the first run; empty if a step of the state threw
  TensorBytes previous;                // what the outputs held before the first run; empty if poison
  TensorBytes got;
  TensorBytes again;
  TensorBytes untuned;                // the outputs of an untuned call in a new context, if they differ
  Evidence of_step;                   // if a step of the state went wrong
  std::optional<std::string> broken;  // rules 3 to 7
  int64_t trials_after_loading = 0;   // if the last step loads choices
};

// Rule 6: the state must not show.
std::optional<std::string> find_history(Problem& problem, Runs& runs) {
  const Path& path = problem.path();
  const State& state = problem.which().state;
  if (runs.trials_after_loading > 0) {
    return fmt::format("{} configurations were tried again although their choice was loaded",
                       runs.trials_after_loading);
  }
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
    problem.path().run(problem.call());
    problem.device().synchronize();
  } catch (...) {
    tuner.observe(nullptr);
    throw;
  }
  tuner.observe(nullptr);
  return checker.fault();
}

void run_twice(Problem& problem, const TensorBytes* inputs, Runs& runs) {
  auto wrong_step = prepare(problem, inputs);
  for (const GuardedTensor& input : problem.input_tensors()) runs.input_hashes.push_back(input.hash());
  if (wrong_step) {
    runs.broken = std::move(wrong_step->reason);
    runs.of_step = std::move(wrong_step->evidence);
    return;
  }
  const State& state = problem.which().state;
  const Tuner& tuner = problem.context()->tuner();
  const bool has_loaded = state.ends_with(StepKind::kCacheLoaded) && tuner.choices() > 0;
  if (state.ends_with(StepKind::kSecondCall)) runs.previous = problem.outputs();
  problem.run();
  runs.got = problem.outputs();
  runs.broken = find_trespass(problem, runs.input_hashes, Poison::kNan);
  if (runs.broken) return;
  problem.poison_outputs(Poison::kFinite);
  problem.run();
  runs.again = problem.outputs();
  runs.broken = find_trespass(problem, runs.input_hashes, Poison::kFinite);
  if (has_loaded) runs.trials_after_loading = tuner.trials();
  if (!runs.broken) runs.broken = find_wrong_role(problem);
  if (!runs.broken) runs.broken = find_history(problem, runs);
  if (!runs.broken) runs.broken = find_difference(problem, runs);
}

// An exception of a path costs it one verdict.
Verdict verdict_of(const Error& error) {
  switch (error.kind()) {
    case Error::Kind::kUnsupported:
      return verdict(VerdictKind::kUnsupported, error.what());
    case Error::Kind::kUsage:
      return verdict(VerdictKind::kFail, fmt::format("the path refused a legal call: {}", error.what()));
    case Error::Kind::kDevice:
    case Error::Kind::kInternal:
      return verdict(VerdictKind::kCrashed, error.what());
  }
  throw Error("Error::Kind({}) is not a kind of error", static_cast<int>(error.kind()));
}

Verdict verdict_on(const Subject& subject, Problem& problem, const JudgeOptions& options, Runs& runs) {
  try {
    run_twice(problem, options.inputs, runs);
  } catch (const StepIsImpossible& error) {
    return verdict(VerdictKind::kSkipped, error.what());
  } catch (const Error& error) {
    return verdict_of(error);
  } catch (const std::exception& error) {
    return verdict(VerdictKind::kCrashed, fmt::format("the path threw: {}", error.what()));
  }
  if (runs.broken) return verdict(VerdictKind::kFail, *runs.broken);
  return compare_outputs(subject, problem, {.got = runs.got, .previous = runs.previous}, options.shares);
}

// The inputs of the judged call. They are in memory, unless a step threw before that call or the
// path changed them. Then they are the given ones, or are drawn again. They are drawn on the CPU,
// since a fault may have left the path's device unusable.
TensorBytes judged_inputs(const Problem& problem, bool are_in_memory, const TensorBytes* given) {
  if (are_in_memory) return problem.inputs();
  if (given != nullptr) return *given;
  const auto cpu = open_cpu();
  Problem again(problem.op(), problem.path(), problem.which(), *cpu);
  again.draw_inputs(problem.which().seed);
  return again.inputs();
}

Evidence evidence_of(Problem& problem, Runs&& runs, const TensorBytes* given) {
  Evidence evidence = evidence_for(problem);
  if (!evidence.left_out.empty()) return evidence;
  const Op& op = problem.op();
  const Case& which = problem.which();
  const bool are_in_memory =
      std::ranges::equal(problem.input_tensors(), runs.input_hashes, {}, &GuardedTensor::hash);
  evidence.add(named(op.inputs, which, judged_inputs(problem, are_in_memory, given)));
  if (!are_in_memory && !runs.input_hashes.empty())
    evidence.add_differing(named(op.inputs, which, problem.inputs(), kAfterCall));
  if (!runs.got.empty()) evidence.add(named(op.outputs, which, std::move(runs.got)));
  if (!runs.again.empty())
    evidence.add_differing(named(op.outputs, which, std::move(runs.again), kSecondRun));
  if (!runs.untuned.empty())
    evidence.add_differing(named(op.outputs, which, std::move(runs.untuned), kUntunedCall));
  evidence.add(std::move(runs.of_step));
  return evidence;
}

// A failure that leaves no evidence, for want of memory or of a device, is a failure still.
void keep_evidence(Verdict& verdict, Problem& problem, Runs&& runs, const TensorBytes* given) {
  if (!is_failure(verdict.kind)) return;
  auto evidence = std::make_shared<Evidence>();
  try {
    *evidence = evidence_of(problem, std::move(runs), given);
  } catch (const std::exception& error) {
    evidence->left_out = error.what();
  }
  verdict.evidence = std::move(evidence);
}

}  // namespace

Verdict judge(const Subject& subject, Problem& problem, const JudgeOptions& options) {
  Runs runs;
  Verdict result = verdict_on(subject, problem, options, runs);
  keep_evidence(result, problem, std::move(runs), options.inputs);
  return result;
}

Verdict judge_outputs(const Subject& subject, Problem& problem, TensorBytes outputs, bool shares) {
  Runs runs;
  for (const GuardedTensor& input : problem.input_tensors()) runs.input_hashes.push_back(input.hash());
  runs.got = std::move(outputs);
  Verdict result = compare_outputs(subject, problem, {.got = runs.got, .previous = runs.previous}, shares);
  keep_evidence(result, problem, std::move(runs), nullptr);
  return result;
}

}  // namespace assay
