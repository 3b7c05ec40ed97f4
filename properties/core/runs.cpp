// SPDX-License-Identifier: Apache-2.0
#include "properties/core/runs.h"

#include <algorithm>
#include <new>

#include "kernels/core/printable.h"
#include "properties/core/history.h"
#include "properties/core/limits.h"
#include "properties/core/precheck.h"
#include "properties/core/random.h"
#include "properties/core/roles.h"
#include "properties/core/specimen.h"
#include "properties/core/thrown.h"
#include "properties/core/untuned_call.h"

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
                                           bool deterministic, std::string_view where,
                                           std::span<const std::byte> first,
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
        "{} differs between two runs on the same inputs{}: {} and {}; the path calls itself deterministic",
        element_name(name, element, shape), where, read_element(first, dtype, element),
        read_element(second, dtype, element));
  }
  return std::nullopt;
}

std::optional<std::string> find_difference(const Problem& problem, const Runs& runs) {
  const Case& which = problem.which();
  const std::string_view where =
      which.state.has(StepKind::kOtherSchedule) ? ", the second on another schedule" : "";
  for (size_t i = 0; i < runs.got.size(); ++i) {
    const TensorInfo& info = problem.op().outputs[i];
    auto difference = find_difference(info.name, shape_of(info, which.dims), info.dtype.value_or(which.dtype),
                                      problem.path().deterministic, where, runs.got[i], runs.again[i]);
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
    problem.finish(problem.device().stream());
  } catch (...) {
    tuner.observe(nullptr);
    throw;
  }
  tuner.observe(nullptr);
  return checker.fault();
}

// A call of the same size on other data, with the same context, for the device's other stream.
// Without memory for it there is none.
std::optional<Problem> problem_beside(const Problem& problem) {
  std::optional<Problem> beside;
  Device& device = problem.device();
  if (device.other_stream() == device.stream()) return beside;
  try {
    beside.emplace(problem.op(), problem.path(), problem.which(), device, problem.context());
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kDevice) throw;
    return beside;
  }
  beside->draw_inputs(~problem.which().seed);
  beside->poison_outputs(Poison::kNan);
  return beside;
}

// Makes the judged call once, or more often on other schedules until a result differs.
std::optional<std::string> run_again(Problem& problem, std::span<const uint64_t> input_hashes, Runs& runs) {
  constexpr int kSchedules = 3;
  const bool is_usual = !problem.which().state.has(StepKind::kOtherSchedule);
  const std::optional<Problem> beside = is_usual ? std::nullopt : problem_beside(problem);
  for (int i = 0; i < (is_usual ? 1 : kSchedules); ++i) {
    problem.poison_outputs(Poison::kFinite);
    problem.begin(is_usual ? "the second run" : "a run on another schedule");
    if (is_usual) {
      problem.run();
    } else {
      problem.run_on_other_schedule(problem.which().seed + static_cast<uint64_t>(i),
                                    beside ? &*beside : nullptr);
    }
    runs.again = problem.outputs();
    if (auto trespass = find_trespass(problem, input_hashes, Poison::kFinite)) return trespass;
    if (runs.again != runs.got) break;
  }
  return std::nullopt;
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
  try {
    if (state.has(StepKind::kOtherSchedule) && !problem.path().deterministic) {
      problem.run_on_other_schedule(problem.which().seed, nullptr);  // nothing sees the second run
    } else {
      problem.run();
    }
  } catch (const Trespass&) {
    if (problem.device().host_can_access()) runs.got = problem.outputs();
    throw;
  }
  runs.got = problem.outputs();
  if (auto trespass = find_trespass(problem, input_hashes, Poison::kNan)) return trespass;
  if (auto trespass = run_again(problem, input_hashes, runs)) return trespass;
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

// Rule 11: a law of the op that is broken on this data.
void find_broken_law(const Law& law, Problem& problem, Runs& runs) {
  problem.begin(fmt::format("the law {}", law.name));
  try {
    const auto violation = law.violation_by(problem);
    if (violation)
      runs.broken_law = fmt::format("the law {} is broken, {}: {}", law.name, law.statement, *violation);
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kUnsupported) throw;  // it may not serve the related problem
  }
}

// Of all tensors together.
int64_t elements_of(const Op& op, const Dims& dims) {
  int64_t elements = 0;
  for (const auto* tensors : {&op.inputs, &op.outputs}) {
    for (const TensorInfo& tensor : *tensors) elements += element_count(shape_of(tensor, dims));
  }
  return elements;
}

std::optional<Verdict> verdict_on(const Subject& subject, Problem& problem, const TensorBytes* inputs,
                                  std::vector<uint64_t>& input_hashes, Runs& runs) {
  try {
    auto broken = run_twice(problem, inputs, input_hashes, runs);
    if (broken) return verdict(VerdictKind::kFail, *std::move(broken));
    for (const Law* law : tried_laws(subject, problem.which(), inputs != nullptr)) {
      if (runs.broken_law.empty()) find_broken_law(*law, problem, runs);
    }
    return std::nullopt;
  } catch (...) {
    return verdict_on_stop(problem);
  }
}

}  // namespace

Verdict verdict_on_stop(const Problem& problem) {
  try {
    throw;
  } catch (const PathThrew& threw) {
    return in_step(threw.verdict, problem.step());
  } catch (const Trespass& error) {
    return verdict(VerdictKind::kFail, error.what());
  } catch (const ForcedIsUnfit& error) {
    const auto forces = [](const Step& step) { return step.kind == StepKind::kForced; };
    if (std::ranges::any_of(problem.which().state.steps, forces))
      return verdict(VerdictKind::kUnsupported, error.what());
    return in_step(verdict_on_thrown(), problem.step());
  } catch (const OutOfMemory& error) {
    return in_step(no_memory(error.what()), problem.step());
  } catch (const std::bad_alloc&) {
    return in_step(no_memory("there is no memory to judge it"), problem.step());
  } catch (...) {
    return in_step(verdict_on_thrown(), problem.step());
  }
}

std::vector<const Law*> laws_on(const Subject& subject, const Case& which, bool is_given) {
  if (!subject.path->deterministic) return {};
  for (const DimInfo& dim : subject.op->dims) {
    const bool says_whether = dim.max == 1;  // whether a tensor is present
    if (which.dims.at(dim.key) == 0 && !says_whether) return {};
  }
  if (elements_of(*subject.op, which.dims) > kMostOfLaw) return {};
  std::vector<const Law*> laws = subject.laws;
  const bool is_ordinary = !is_given && which.data.is_ordinary();
  std::erase_if(laws, [&](const Law* law) { return !law->is_universal && !is_ordinary; });
  return laws;
}

std::vector<const Law*> tried_laws(const Subject& subject, const Case& which, bool is_given) {
  std::vector<const Law*> laws = laws_on(subject, which, is_given);
  if (laws.empty() || elements_of(*subject.op, which.dims) <= kMostOfAllLaws) return laws;
  constexpr uint64_t kLawStream = 4000;
  return {laws[CounterRandom(which.seed, kLawStream).bits(0) % laws.size()]};
}

Runs run_path(const Subject& subject, Problem& problem, Recipe recipe, const TensorBytes* inputs) {
  Runs runs;
  runs.recipe = std::move(recipe);
  std::vector<uint64_t> input_hashes;  // before the first run; empty if a step of the state threw
  runs.verdict = verdict_on(subject, problem, inputs, input_hashes, runs);
  if (runs.verdict) runs.verdict->reason = excerpt(runs.verdict->reason, kLongestReason);
  runs.broken_law = excerpt(runs.broken_law, kLongestReason);
  problem.set_judged(runs.verdict || !problem.path().deterministic ? std::nullopt
                                                                   : std::optional(hash_of(runs.got)));
  if (runs.again == runs.got) runs.again.clear();
  const bool has_changed = !input_hashes.empty() && !std::ranges::equal(problem.input_tensors(), input_hashes,
                                                                        {}, &GuardedTensor::hash);
  if (has_changed) runs.changed_inputs = problem.inputs();
  return runs;
}

}  // namespace assay
