// SPDX-License-Identifier: Apache-2.0
#include "properties/core/judge.h"

#include <algorithm>

#include "properties/core/precheck.h"

namespace assay {
namespace {

// The inputs of the judged call. A step may have thrown before that call, or the path may have
// changed them. So they are the given ones, or are drawn again, on the CPU: a fault may have left
// the path's device unusable.
TensorBytes judged_inputs(const Problem& problem, const TensorBytes* given) {
  if (given != nullptr) return *given;
  const auto cpu = open_cpu();
  Problem again(problem.op(), problem.path(), problem.which(), *cpu);
  again.draw_inputs(problem.which().seed);
  return again.inputs();
}

Evidence evidence_of(const Problem& problem, Runs&& runs, TensorBytes inputs) {
  Evidence evidence = evidence_for(problem);
  if (!evidence.left_out.empty()) return evidence;
  const Op& op = problem.op();
  const Case& which = problem.which();
  evidence.add(named(op.inputs, which, std::move(inputs)));
  if (!runs.changed_inputs.empty())
    evidence.add_differing(named(op.inputs, which, std::move(runs.changed_inputs), kAfterCall));
  if (!runs.got.empty()) evidence.add(named(op.outputs, which, std::move(runs.got)));
  if (!runs.again.empty())
    evidence.add_differing(named(op.outputs, which, std::move(runs.again), kSecondRun));
  if (!runs.untuned.empty())
    evidence.add_differing(named(op.outputs, which, std::move(runs.untuned), kUntunedCall));
  evidence.add(std::move(runs.of_step));
  return evidence;
}

// A failure that leaves no evidence, for want of memory or of a device, is a failure still.
template <class Inputs>
void keep_evidence(Verdict& verdict, const Problem& problem, Runs&& runs, const Inputs& inputs) {
  if (!is_failure(verdict.kind)) return;
  auto evidence = std::make_shared<Evidence>();
  try {
    *evidence = evidence_of(problem, std::move(runs), inputs());
  } catch (const std::exception& error) {
    evidence->left_out = error.what();
  }
  verdict.evidence = std::move(evidence);
}

Verdict verdict_on(const Subject& subject, const Problem& problem, const Runs& runs,
                   const JudgeOptions& options) {
  if (runs.verdict) {
    Verdict verdict = *runs.verdict;
    if (verdict.kind == VerdictKind::kFail && runs.recipe) verdict.recipe = runs.recipe->to_string();
    return verdict;
  }
  Verdict verdict = compare_outputs(
      subject, problem,
      {.got = runs.got, .previous = runs.previous, .recipe = *runs.recipe, .brief = options.brief},
      options.shares);
  if (verdict.kind != VerdictKind::kSkipped) verdict.recipe = runs.recipe->to_string();
  if (runs.broken_law.empty() || is_failure(verdict.kind)) return verdict;
  verdict.kind = VerdictKind::kFail;
  verdict.reason = runs.broken_law;
  return verdict;
}

}  // namespace

Verdict judge(const Subject& subject, const Case& which, Device& device, const JudgeOptions& options) {
  Said said = precheck(subject, which);
  if (said.verdict) return *std::move(said.verdict);
  std::optional<Problem> problem;
  try {
    problem.emplace(*subject.op, *subject.path, which, device);
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kDevice) throw;
    return {.kind = VerdictKind::kSkipped, .reason = error.what(), .outputs = {}};
  }
  return judge(subject, *problem, *std::move(said.recipe), options);
}

Verdict judge(const Subject& subject, Problem& problem, const JudgeOptions& options) {
  Said said = ask_recipe(problem.path(), problem.which().dims, problem.which().dtype);
  if (said.verdict) return *std::move(said.verdict);
  return judge(subject, problem, *std::move(said.recipe), options);
}

Verdict judge(const Subject& subject, Problem& problem, Recipe recipe, const JudgeOptions& options) {
  Runs runs = run_path(subject, problem, std::move(recipe), options.inputs);
  Verdict result = verdict_on(subject, problem, runs, options);
  keep_evidence(result, problem, std::move(runs), [&] { return judged_inputs(problem, options.inputs); });
  return result;
}

Verdict judge_runs(const Subject& subject, const Problem& problem, Runs runs, const JudgeOptions& options) {
  Verdict result = verdict_on(subject, problem, runs, options);
  if (options.brief) runs.got.clear();  // evidence is whole tensors
  keep_evidence(result, problem, std::move(runs), [&] { return problem.inputs(); });
  return result;
}

Verdict judge_outputs(const Subject& subject, const Problem& problem, Recipe recipe, TensorBytes outputs,
                      const JudgeOptions& options) {
  Runs runs;
  runs.got = std::move(outputs);
  runs.recipe = std::move(recipe);
  const bool is_zero = std::ranges::all_of(runs.got, [](const std::vector<std::byte>& bytes) {
    return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
  });
  Verdict verdict = judge_runs(subject, problem, std::move(runs), options);
  if (verdict.kind == VerdictKind::kPass && is_zero) {
    verdict.kind = VerdictKind::kUninformative;
    verdict.reason = "all outputs are 0, and so they should be, but so is memory that nobody wrote";
  }
  return verdict;
}

}  // namespace assay
