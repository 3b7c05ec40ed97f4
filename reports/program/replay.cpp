// SPDX-License-Identifier: Apache-2.0
// replay, judge, draw and exec: one case.
#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <system_error>

#include "kernels/core/parallel.h"
#include "properties/core/elsewhere.h"
#include "properties/core/history.h"
#include "properties/core/isolation.h"
#include "properties/core/judge.h"
#include "properties/core/limits.h"
#include "properties/core/runs.h"
#include "properties/core/said_json.h"
#include "reports/program/capsule.h"
#include "reports/program/commands.h"
#include "reports/program/judging.h"
#include "reports/program/program.h"
#include "reports/program/run_folder.h"
#include "reports/program/selection.h"
#include "reports/program/session.h"
#include "reports/program/terminal.h"
#include "reports/render/summary.h"
#include "reports/render/text.h"

namespace assay {
namespace {

// "; rms 1.2e-09, 0.6 of that of right paths, allowed 5e-09"
std::string describe_rms(const OutputNumerics& output) {
  if (!output.conformity) return "";
  const Conformity& seen = *output.conformity;
  const std::optional<double> ratio = rms_over_predicted(seen);
  std::string text = fmt::format("; rms {:.3g}, ", seen.rms);
  text += ratio ? format_ratio(*ratio) + " of that of right paths" : "that of right paths 0";
  if (output.obeys_rms_law) text += fmt::format(", allowed {:.3g}", seen.allowed);
  if (seen.rows > 0) text += fmt::format("; farthest in {} of {} rows", seen.farthest, seen.rows);
  return text;
}

std::string describe_accuracy(const Comparison& seen) {
  if (seen.count > 0 && seen.nonfinite == seen.count) return "no element is finite";
  std::string text = fmt::format("normwise error {}, largest error {}", format_number(seen.rel_l2()),
                                 format_number(seen.largest_error()));
  if (seen.nonfinite > 0) text += fmt::format(", of {} finite elements", seen.finite);
  return text;
}

void print_numerics(const Verdict& verdict) {
  for (const OutputNumerics& output : verdict.outputs) {
    const Comparison& c = output.comparison;
    fmt::print("  {:<8} {} of {} elements compared, {} wrong\n", output.name, c.count, output.elements,
               c.wrong);
    fmt::print("    accuracy         {}\n", describe_accuracy(c));
    fmt::print("    conformity       error/bound {:.3g}, {} equal to the bit{}\n", c.max_error_over_bound,
               format_percent(numbers_of(output).share_of_equal()), describe_rms(output));
    const std::vector<double> parts = parts_of_bound(output.shares);
    for (size_t i = 0; i < parts.size(); ++i) {
      const auto& [stage, bound, rms] = output.shares[i];
      fmt::print("    {:<16} alone: mean bound {:.3g} ({} of all stages' bounds), rms {:.3g}\n", stage, bound,
                 format_percent(parts[i]), rms);
    }
  }
}

// The reason why --shares shows nothing, if there is one.
std::optional<std::string> without_shares(const Subject& subject, const Verdict& verdict) {
  if (subject.oracle->stages.empty()) return fmt::format("the oracle of {} has no stages", subject.op->name);
  const bool has_shares =
      verdict.outputs.empty() || std::ranges::any_of(verdict.outputs, [](const OutputNumerics& output) {
        return !output.shares.empty();
      });
  return has_shares ? std::nullopt
                    : std::optional<std::string>("no element is finite, so no stage has a bound");
}

// The device for a path. A variable that names another kind is meant for other commands.
std::unique_ptr<Device> device_for(const Path& path, const Options& options) {
  const bool fits = options.device_is_typed || options.device.starts_with(name_of(path.device));
  return open_device_for(path, fits ? options.device : "all");
}

// What a command says on one case.
struct Selected {
  Subject subject;
  Case which;
};

Selected select(const Registry& registry, const Case& given) {
  const Subject subject = registry.subject(given.op, given.path);
  return {.subject = subject, .which = in_order(*subject.op, given)};
}

// What the path of a command that starts no worker says of the case.
Said said_by_path(const Selected& selected, const Options& options) {
  return precheck_elsewhere(selected.subject, selected.which, options.timeout.value_or(kTimeToSay));
}

int exit_code_of(VerdictKind kind) {
  if (is_failure(kind)) return kExitNumericalFailure;
  return kind == VerdictKind::kPass ? kExitPassed : kExitNothingSelected;
}

// For a command that writes tensors: why there are none. Returns the exit code.
int conclude_without_tensors(const Case& which, const Verdict& verdict) {
  fmt::print(stderr, "assay: {}/{} {}: {}\n", which.op, which.path, name_of(verdict.kind),
             excerpt(verdict.reason, kReasonOnTerminal));
  return exit_code_of(verdict.kind);
}

// Of commands that call no path.
void require_no_state(const State& state) {
  if (state.steps.empty()) return;
  throw usage_error("state={}: draw and judge call no path, so nothing comes before; leave the state out",
                    excerpt(state.to_string()));
}

// The session in which a verdict is recorded, if one is asked for.
std::unique_ptr<Session> session_for(const Options& options) {
  if (!options.out.empty()) require_no_run(options.out);
  return options.json || !options.out.empty() ? std::make_unique<Session>(options) : nullptr;
}

// Prints and records a verdict. Returns the exit code.
int conclude(const Selected& selected, const Device& device, Verdict verdict, const Options& options,
             Session* session) {
  const auto& [subject, which] = selected;
  if (options.shares && !options.quiet) {
    if (const auto why = without_shares(subject, verdict)) fmt::print(stderr, "assay: {}\n", *why);
  }
  const VerdictKind kind = verdict.kind;
  if (session == nullptr || !(options.json || options.quiet)) {
    const std::string_view name = name_of(kind);
    fmt::print("{}: {}\n", name,
               in_lines(excerpt(verdict.reason, kReasonOnTerminal), text_width(),
                        static_cast<int>(name.size()) + 2));
    print_numerics(verdict);
    fmt::print("  {}\n", which.to_string());
  }
  if (session != nullptr) {
    session->add_device(device);
    session->add(device, {.which = which, .verdict = std::move(verdict), .shrunk_from = {}});
    return session->finish();
  }
  return exit_code_of(kind);
}

// Does something in the memory of this machine. Returns a verdict if there is not enough of it.
std::optional<Verdict> unless_no_memory(const std::function<void()>& act) {
  try {
    act();
    return std::nullopt;
  } catch (const std::bad_alloc&) {
    return no_memory("there is no memory for its tensors");
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kDevice) throw;
    return no_memory(error.what());
  }
}

Verdict judge_given(const Selected& selected, Device& cpu, const std::optional<TensorFile>& in,
                    const TensorFile& got, const Options& options) {
  const auto& [subject, which] = selected;
  Said said = said_by_path(selected, options);
  if (said.verdict) return *std::move(said.verdict);
  Verdict verdict;
  const auto judge_them = [&] {
    TensorBytes outputs = outputs_from(got, options.got, *subject.op, which);
    if (in) require_inputs_of(which, *in, options.in);
    Problem problem(*subject.op, *subject.path, which, cpu);
    if (in) {
      problem.set_inputs(inputs_from(*in, options.in, *subject.op, which));
    } else {
      problem.draw_inputs(which.seed);
    }
    verdict = judge_outputs(subject, problem, *std::move(said.recipe), std::move(outputs),
                            {.shares = options.shares});
  };
  auto skipped = unless_no_memory(judge_them);
  return skipped ? *std::move(skipped) : std::move(verdict);
}

// Judges the files, unless there is a verdict already, and says so. Returns the exit code.
int judge_files(const Selected& selected, const std::optional<TensorFile>& in, const TensorFile& got,
                std::optional<Verdict> skipped, const Options& options) {
  auto session = session_for(options);
  const auto cpu = open_cpu();
  Verdict verdict = skipped ? *std::move(skipped) : judge_given(selected, *cpu, in, got, options);
  return conclude(selected, *cpu, std::move(verdict), options, session.get());
}

using Json = nlohmann::ordered_json;

// What comes of running a path: its outputs, or the verdict on what it did instead.
struct Executed {
  TensorBytes outputs = {};
  std::optional<Verdict> verdict = {};
};

Executed run_once(Problem& problem, const TensorBytes& inputs) {
  const auto limit = limit_on(problem.path().device);
  try {
    if (auto wrong = prepare(problem, &inputs))
      return {.verdict =
                  Verdict{.kind = VerdictKind::kFail, .reason = std::move(wrong->reason), .outputs = {}}};
    problem.begin("the run");
    problem.run();
    return {.outputs = problem.outputs()};
  } catch (...) {
    return {.verdict = verdict_on_stop(problem)};
  }
}

// Throws Error where neither the path nor a lack of memory is to blame.
Executed execute(const Subject& subject, const Case& which, const TensorBytes& inputs, const Options& options,
                 const OnStep& step) {
  const auto device = device_for(*subject.path, options);
  std::optional<FoundMemory> memory;
  std::optional<Problem> problem;
  const auto make = [&] {
    if (step) step(kStartOfThreads);
    start_threads();
    if (step) step("the preparation of the tensors");
    memory.emplace(subject, which);
    problem.emplace(*subject.op, *subject.path, which, *device);
    problem->set_observer(step);
    problem->set_inputs(inputs);  // throws if they do not suit the layout
  };
  if (auto skipped = unless_no_memory(make)) return {.verdict = std::move(skipped)};
  Executed executed = run_once(*problem, inputs);
  if (executed.verdict && executed.verdict->kind == VerdictKind::kSkipped) {
    problem.reset();
    executed.verdict =
        memory->blame(*std::move(executed.verdict), device->host_can_access() ? nullptr : device.get());
  }
  return executed;
}

// The same in a copy of this process, which the path may end or damage.
Executed execute_elsewhere(const Subject& subject, const Case& which, const TensorBytes& inputs,
                           const Options& options) {
  const auto run_there = [&](const OnStep& step) -> Message {
    try {
      Executed executed = execute(subject, which, inputs, options, step);
      return {.fields = to_json(Said{.verdict = std::move(executed.verdict)}),
              .tensors = std::move(executed.outputs)};
    } catch (const Error& error) {
      return {.fields = {{"error", error.what()}, {"kind", static_cast<int>(error.kind())}}, .tensors = {}};
    } catch (const std::exception& error) {
      return {.fields = {{"error", error.what()}, {"kind", static_cast<int>(Error::Kind::kInternal)}},
              .tensors = {}};
    }
  };
  std::optional<Error> error;
  Executed executed;
  const auto take = [&](Message&& message) {
    executed.outputs = std::move(message.tensors);
    if (message.fields.contains("error")) {
      const int kind = message.fields.at("kind").get<int>();
      if (kind < 0 || kind > static_cast<int>(Error::Kind::kInternal)) throw Nonsense("an unknown error");
      error = Error(static_cast<Error::Kind>(kind), "{}",
                    excerpt(message.fields["error"].get<std::string>(), kLongestReason));
    } else if (!have_sizes_of(executed.outputs, subject.op->outputs, which)) {
      throw Nonsense("outputs of other sizes");
    }
  };
  const Seconds timeout = options.timeout.value_or(usual_timeout(*subject.op, which));
  const int64_t most_bytes = tensor_bytes(*subject.op, which.dims, which.dtype);
  executed.verdict = elsewhere(run_there, take, timeout, most_bytes);
  if (error) throw *error;
  return executed;
}

}  // namespace

int run_replay(const Registry& registry, const Options& options) {
  const std::optional<Capsule> capsule =
      is_capsule(options.subject) ? std::optional(read_capsule(options.subject)) : std::nullopt;
  const Selected selected = select(registry, capsule ? capsule->which : parse_case(options.subject));
  const auto& [subject, which] = selected;
  if (capsule && capsule->is_given) {
    Options judge = options;
    judge.in = judge.got = options.subject;
    return judge_files(selected, capsule->file, capsule->file, std::nullopt, judge);
  }
  const auto device = device_for(*subject.path, options);
  std::optional<TensorBytes> inputs;
  if (capsule && !precheck_case(subject, which))
    inputs = inputs_from(capsule->file, options.subject, *subject.op, which);
  auto session = session_for(options);
  std::optional<Verdict> verdict =
      PathJudge(subject, *device, options)
          .judge(which, {.inputs = inputs ? &*inputs : nullptr, .shares = options.shares});
  if (!verdict) return session ? session->finish(false) : kExitInterrupted;
  return conclude(selected, *device, *std::move(verdict), options, session.get());
}

int run_judge(const Registry& registry, const Options& options) {
  const Selected selected = select(registry, parse_case(options.subject));
  require_no_state(selected.which.state);
  TensorFile got;
  std::optional<TensorFile> in;
  auto skipped = unless_no_memory([&] {
    got = read_safetensors(options.got);
    if (!options.in.empty()) in = read_safetensors(options.in);
  });
  return judge_files(selected, in, got, std::move(skipped), options);
}

int run_draw(const Registry& registry, const Options& options) {
  const Selected selected = select(registry, parse_case(options.subject));
  const auto& [subject, which] = selected;
  require_no_state(which.state);
  if (const auto refused = said_by_path(selected, options).verdict)
    return conclude_without_tensors(which, *refused);
  const auto write = [&] {
    const auto cpu = open_cpu();
    Problem problem(*subject.op, *subject.path, which, *cpu);
    problem.draw_inputs(which.seed);
    write_safetensors(options.out, file_of(which, named(subject.op->inputs, which, problem.inputs())));
  };
  const auto skipped = unless_no_memory(write);
  return skipped ? conclude_without_tensors(which, *skipped) : kExitPassed;
}

int run_exec(const Registry& registry, const Options& options) {
  const Selected selected = select(registry, parse_case(options.subject));
  const auto& [subject, which] = selected;
  std::error_code ignored;
  if (std::filesystem::equivalent(options.in, options.out, ignored))
    throw usage_error("--out {}: the outputs would replace the inputs there", excerpt(options.out));
  if (const auto refused = said_by_path(selected, options).verdict)
    return conclude_without_tensors(which, *refused);
  try {
    const TensorBytes inputs = inputs_from(read_safetensors(options.in), options.in, *subject.op, which);
    const auto [outputs, verdict] = options.isolate ? execute_elsewhere(subject, which, inputs, options)
                                                    : execute(subject, which, inputs, options, {});
    if (verdict) return conclude_without_tensors(which, *verdict);
    write_safetensors(options.out, file_of(which, named(subject.op->outputs, which, outputs)));
    return kExitPassed;
  } catch (const std::bad_alloc&) {
    return conclude_without_tensors(which, no_memory("there is no memory for its tensors"));
  }
}

}  // namespace assay
