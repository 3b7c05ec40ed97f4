// SPDX-License-Identifier: Apache-2.0
#include "properties/core/judge.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "kernels/core/parallel.h"
#include "properties/core/certificate.h"
#include "properties/core/history.h"
#include "properties/core/precheck.h"
#include "properties/core/random.h"
#include "properties/core/regime.h"
#include "properties/core/roles.h"

namespace assay {
namespace {

constexpr uint64_t kSampleStream = 2000;

Verdict verdict(VerdictKind kind, std::string reason) {
  return {.kind = kind, .reason = std::move(reason), .outputs = {}};
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

struct Answered {
  std::vector<int64_t> elements;
  std::vector<Expected> expected;
  Comparison comparison;
};

// Calls visit(number of the range, its first element, its length) for ranges of kGrain elements, in
// parallel.
constexpr int64_t kGrain = 2048;
template <class Visit>
void for_ranges(size_t count, const Visit& visit) {
  const auto all = static_cast<int64_t>(count);
  parallel_for(all, kGrain, [&](int64_t begin, int64_t end) {
    for (; begin < end; begin += kGrain) {
      const auto first = static_cast<size_t>(begin);
      visit(static_cast<size_t>(begin / kGrain), first,
            static_cast<size_t>(std::min(end, begin + kGrain)) - first);
    }
  });
}

std::vector<Expected> expected_of(const Solve& solve, const Question& question, size_t output,
                                  std::span<const int64_t> elements) {
  std::vector<Expected> expected(elements.size());
  if (elements.empty()) return expected;
  const Answer answer = solve(question, static_cast<int>(output));
  for_ranges(elements.size(), [&](size_t, size_t first, size_t count) {
    answer(elements.subspan(first, count), std::span(expected).subspan(first, count));
  });
  return expected;
}

Answered compare(const Oracle& oracle, const Question& question, size_t output, std::vector<int64_t> elements,
                 DType dtype, std::span<const std::byte> got) {
  Answered answered{.elements = std::move(elements), .expected = {}, .comparison = {}};
  answered.expected = expected_of(oracle.solve, question, output, answered.elements);
  // Parts are merged in order, so sums do not depend on the number of threads.
  std::vector<Comparison> parts((answered.elements.size() + kGrain - 1) / kGrain);
  for_ranges(answered.elements.size(), [&](size_t range, size_t first, size_t count) {
    for (size_t i = first; i < first + count; ++i) {
      const int64_t element = answered.elements[i];
      parts[range].add(answered.expected[i], read_element(got, dtype, element), element, dtype);
    }
  });
  for (const Comparison& part : parts) answered.comparison.merge(part);
  return answered;
}

std::string pass_reason(const std::vector<OutputNumerics>& outputs) {
  int64_t compared = 0;
  int64_t open = 0;
  int64_t all = 0;
  double worst = 0;
  for (const OutputNumerics& output : outputs) {
    compared += output.comparison.count;
    open += output.comparison.open;
    all += output.elements;
    worst = std::max(worst, output.comparison.max_error_over_bound);
  }
  const std::string left_out = open == 0 ? "" : fmt::format("; {} of them may be anything", open);
  return compared == all
             ? fmt::format("all {} elements within {:.3g} of their bounds{}", all, worst, left_out)
             : fmt::format("{} sampled of {} elements within {:.3g} of their bounds{}", compared, all, worst,
                           left_out);
}

// Rules 8 and 9 for one output.
std::optional<std::string> find_numerical_error(const OutputNumerics& output, const Extents& shape) {
  const Comparison& c = output.comparison;
  if (c.wrong > 0) {
    return fmt::format(
        "{} of {} compared elements of {} are wrong; the worst is {} = {:.9g}, expected {:.9g} +- {:.3g}",
        c.wrong, c.count, output.name, element_name(output.name, c.worst->element, shape), c.worst->got,
        c.worst->want, c.worst->bound);
  }
  if (output.allowed_rms && c.rms() > *output.allowed_rms) {
    return fmt::format("the rms error of {} is {:.3g}; the recipe predicts {:.3g} and allows {:.3g}",
                       output.name, c.rms(), c.predicted_rms(), *output.allowed_rms);
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
  TensorBytes previous;  // what the outputs held before the first run; empty if poison
  TensorBytes got;
  TensorBytes again;
  std::optional<std::string> broken;  // rules 3, 4, 6 and 7
  int64_t trials_after_loading = 0;   // if the last step loads choices
};

// Rule 6: the state must not show.
std::optional<std::string> find_history(Problem& problem, const Runs& runs) {
  const Path& path = problem.path();
  const State& state = problem.which().state;
  if (runs.trials_after_loading > 0) {
    return fmt::format("{} configurations were tried again although their choice was loaded",
                       runs.trials_after_loading);
  }
  const bool has_history = !state.steps.empty() || !path.tunables.empty();
  if (!has_history || !path.deterministic) return std::nullopt;
  return first_difference(problem, runs.got, outputs_of_untuned_call(problem));
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

Runs run_twice(Problem& problem, const TensorBytes* inputs) {
  Runs runs;
  runs.broken = prepare(problem, inputs);
  if (runs.broken) return runs;
  std::vector<uint64_t> input_hashes;
  for (const GuardedTensor& input : problem.input_tensors()) input_hashes.push_back(input.hash());
  const State& state = problem.which().state;
  const Tuner& tuner = problem.context()->tuner();
  const bool has_loaded = state.ends_with(StepKind::kCacheLoaded) && tuner.choices() > 0;
  if (state.ends_with(StepKind::kSecondCall)) runs.previous = problem.outputs();
  problem.run();
  runs.got = problem.outputs();
  runs.broken = find_trespass(problem, input_hashes, Poison::kNan);
  if (runs.broken) return runs;
  problem.poison_outputs(Poison::kFinite);
  problem.run();
  runs.again = problem.outputs();
  runs.broken = find_trespass(problem, input_hashes, Poison::kFinite);
  if (has_loaded) runs.trials_after_loading = tuner.trials();
  if (!runs.broken) runs.broken = find_wrong_role(problem);
  if (!runs.broken) runs.broken = find_history(problem, runs);
  return runs;
}

std::vector<Share> shares_of(const Oracle& oracle, const Question& question, size_t output,
                             const Answered& answered) {
  std::vector<int64_t> finite;
  for (size_t i = 0; i < answered.elements.size(); ++i) {
    const Expected& expected = answered.expected[i];
    if (!expected.is_open && std::isfinite(expected.value)) finite.push_back(answered.elements[i]);
  }
  std::vector<Share> shares;
  if (finite.empty()) return shares;
  const auto count = static_cast<double>(finite.size());
  for (const auto& [stage, solve] : oracle.stages) {
    double bound = 0, variance = 0;
    for (const Expected& alone : expected_of(solve, question, output, finite)) {
      bound += alone.bound;
      variance += alone.variance;
    }
    shares.push_back({std::string(stage), bound / count, std::sqrt(variance / count)});
  }
  return shares;
}

// Rules 5 and 8 to 10 for one output. Adds its numerics to the verdict.
void judge_output(const Subject& subject, Problem& problem, const Runs& runs, size_t output,
                  const JudgeOptions& options, Verdict& verdict) {
  const Case& which = problem.which();
  const TensorView view = problem.output_tensors()[output].host_view();
  const std::string name(subject.op->outputs[output].name);
  const auto fail = [&](std::string reason) {
    if (verdict.kind == VerdictKind::kFail) return;
    verdict.kind = VerdictKind::kFail;
    verdict.reason = std::move(reason);
  };
  if (const auto difference = find_difference(name, view.shape, view.dtype, subject.path->deterministic,
                                              runs.got[output], runs.again[output])) {
    return fail(*difference);
  }
  const Question question = problem.question();
  const Answered answered = compare(*subject.oracle, question, output,
                                    compared_elements(view.shape, which.seed, subject.oracle->shares_rows),
                                    view.dtype, runs.got[output]);
  OutputNumerics numerics{
      .name = name, .comparison = answered.comparison, .allowed_rms = {}, .elements = view.size()};
  if (is_continuous(which.data) && which.layout != Layout::kBroadcast) {
    numerics.allowed_rms = largest_allowed_rms(numerics.comparison);
  }
  if (options.shares) numerics.shares = shares_of(*subject.oracle, question, output, answered);
  verdict.outputs.push_back(numerics);
  if (const auto error = find_numerical_error(numerics, view.shape)) return fail(*error);

  std::vector<double> held;
  if (!runs.previous.empty()) {
    for (int64_t element : answered.elements)
      held.push_back(read_element(runs.previous[output], view.dtype, element));
  }
  const auto accepted = accepted_fault({.oracle = *subject.oracle,
                                        .question = question,
                                        .output = static_cast<int>(output),
                                        .shape = view.shape,
                                        .dtype = view.dtype,
                                        .elements = answered.elements,
                                        .expected = answered.expected,
                                        .previous = held});
  if (accepted && verdict.kind == VerdictKind::kPass) {
    verdict.kind = VerdictKind::kMistrusted;
    verdict.reason = fmt::format("the comparison of {} would also accept: {}", name, *accepted);
  }
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

}  // namespace

Verdict judge(const Subject& subject, Problem& problem, const JudgeOptions& options) {
  Runs runs;
  try {
    runs = run_twice(problem, options.inputs);
  } catch (const StepIsImpossible& error) {
    return verdict(VerdictKind::kSkipped, error.what());
  } catch (const Error& error) {
    return verdict_of(error);
  } catch (const std::exception& error) {
    return verdict(VerdictKind::kCrashed, fmt::format("the path threw: {}", error.what()));
  }
  if (runs.broken) return verdict(VerdictKind::kFail, *runs.broken);
  Verdict result;
  for (size_t i = 0; i < subject.op->outputs.size(); ++i)
    judge_output(subject, problem, runs, i, options, result);
  if (result.kind != VerdictKind::kPass) return result;
  const bool is_empty =
      std::ranges::all_of(result.outputs, [](const auto& output) { return output.elements == 0; });
  if (is_empty)
    return verdict(VerdictKind::kSkipped,
                   "empty: nothing to compare; nothing around the tensors was written");
  const bool is_open = std::ranges::all_of(
      result.outputs, [](const auto& output) { return output.comparison.open == output.comparison.count; });
  if (is_open)
    return verdict(VerdictKind::kSkipped,
                   "open: infinities or NaNs in the inputs let right paths differ everywhere");
  result.reason = pass_reason(result.outputs);
  return result;
}

std::vector<int64_t> compared_elements(const Extents& shape, uint64_t seed, bool whole_rows) {
  const int64_t count = element_count(shape);
  std::vector<int64_t> elements;
  if (count <= kCompareAll) {
    elements.resize(static_cast<size_t>(count));
    for (size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<int64_t>(i);
    return elements;
  }
  // Index lines along each axis. The other indices take every combination of these places.
  const int rank = shape.rank();
  const Extents strides = dense_strides(shape);
  constexpr int64_t kLongestLine = 4096;
  const auto places = [&](int axis) {
    std::vector<int64_t> at{
        0, 1, kTileEdge - 1, kTileEdge, shape[axis] - 1 - kTileEdge, shape[axis] - 2, shape[axis] - 1};
    std::erase_if(at, [&](int64_t i) { return i < 0 || i >= shape[axis]; });
    return at;
  };
  for (int axis = 0; axis < rank; ++axis) {
    std::vector<int64_t> starts{0};
    for (int other = 0; other < rank; ++other) {
      if (other == axis) continue;
      std::vector<int64_t> further;
      for (int64_t start : starts) {
        for (int64_t place : places(other)) further.push_back(start + place * strides[other]);
      }
      starts = std::move(further);
    }
    const int64_t step = std::max<int64_t>(1, shape[axis] / kLongestLine);
    for (int64_t start : starts) {
      for (int64_t i = 0; i < shape[axis]; i += step) elements.push_back(start + i * strides[axis]);
    }
  }
  const CounterRandom random(seed, kSampleStream);
  const int64_t run = whole_rows ? std::min(shape[rank - 1], kRandomSample) : 1;
  for (int64_t i = 0; i < kRandomSample / run; ++i) {
    const auto at = random.bits(static_cast<uint64_t>(i)) % static_cast<uint64_t>(count / run);
    for (int64_t e = 0; e < run; ++e) elements.push_back(static_cast<int64_t>(at) * run + e);
  }
  std::ranges::sort(elements);
  const auto repeated = std::ranges::unique(elements);
  elements.erase(repeated.begin(), repeated.end());
  return elements;
}

}  // namespace assay
