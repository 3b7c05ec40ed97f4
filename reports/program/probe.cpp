// SPDX-License-Identifier: Apache-2.0
// probe: how paths add up, found from outside.
#include "probe/probe.h"

#include <algorithm>
#include <cstdio>

#include "properties/core/problem.h"
#include "reports/program/commands.h"
#include "reports/program/interrupt.h"
#include "reports/program/judging.h"
#include "reports/program/machine.h"
#include "reports/program/program.h"
#include "reports/program/selection.h"
#include "reports/program/terminal.h"
#include "reports/render/probe.h"

namespace assay {
namespace {

struct Interrupted : Error {
  Interrupted() : Error("interrupted") {}
};

// Calls in a worker, or here with --no-isolate.
PathCalls calls_by(PathJudge& judge) {
  const auto given = [](auto answer) {
    if (!answer) throw Interrupted();
    return *std::move(answer);
  };
  return {.recipe = [&judge, given](const Case& which) { return given(judge.recipe(which)); },
          .outputs = [&judge, given](const Case& which,
                                     const TensorBytes& inputs) { return given(judge.call(which, inputs)); }};
}

bool has_ended(const Verdict& verdict) {
  return verdict.kind == VerdictKind::kCrashed || verdict.kind == VerdictKind::kTimeout;
}

// All of its sums that the path computes, for each dtype that is wanted. What a call does ends the
// sum, and counts against the path unless the device lacks memory. A crash or a timeout ends the
// path.
struct PathOutcome {
  ProbedPath path;
  bool has_failed = false, has_ended = false;
};

void probe_sum(PathOutcome& outcome, const Subject& subject, const PathCalls& calls, const ProbedSum& sum,
               DType dtype, const ProbeOptions& how) {
  const auto fail = [&](std::string why) {
    outcome.path.sums.push_back({.sum = &sum, .dtype = dtype, .why_not = std::move(why)});
    outcome.has_failed = true;
  };
  try {
    outcome.path.sums.push_back(probe(subject, calls, sum, dtype, how));
    outcome.has_failed = outcome.has_failed || !is_consistent(outcome.path.sums.back());
  } catch (const Interrupted&) {
  } catch (const PathThrew& threw) {
    fail(fmt::format("{}: {}", name_of(threw.verdict.kind), threw.verdict.reason));
    outcome.has_ended = has_ended(threw.verdict);
  } catch (const Error& error) {
    const bool failed_before = outcome.has_failed;
    fail(error.what());
    if (error.kind() == Error::Kind::kDevice) outcome.has_failed = failed_before;
  }
}

PathOutcome probe_path(const SelectedPath& selected, const std::vector<const ProbedSum*>& sums,
                       const Options& options) {
  const Subject& subject = selected.subject;
  const DeviceInfo& info = selected.device->info();
  PathOutcome outcome{
      .path = {std::string(subject.op->name), std::string(subject.path->name), info.name(), info.model, {}}};
  PathJudge judge(subject, *selected.device, options);
  const PathCalls calls = calls_by(judge);
  for (DType dtype : subject.path->dtypes) {
    if (options.dtype && *options.dtype != dtype) continue;
    for (const ProbedSum* sum : sums) {
      if (is_interrupted() || outcome.has_ended) return outcome;
      if (!options.quiet)
        show_progress(
            fmt::format("{}/{}: {}, {}", subject.op->name, subject.path->name, sum->what, name_of(dtype)));
      probe_sum(outcome, subject, calls, *sum, dtype, {.terms = options.terms, .seed = options.seed});
    }
  }
  return outcome;
}

// Writes what there is, and prints the last path.
void report(const std::vector<ProbedPath>& paths, const Options& options) {
  clear_progress();
  if (!options.out.empty()) {
    make_output_directory(options.out);
    write_files_atomically(probe_files(paths, tool_record(), options.seed, options.out));
  }
  if (options.json) return;
  fmt::print("{}", render_probed(paths.back(), text_width()));
  std::fflush(stdout);
}

}  // namespace

int run_probe(const Registry& registry, const Options& options) {
  const auto devices = open_devices(options.device);
  std::vector<ProbedPath> paths;
  bool has_failed = false, is_absent = false;
  for (const SelectedPath& selected : options.specimens ? select_specimens(registry, options, devices)
                                                        : select_paths(registry, options, devices)) {
    const auto sums = registry.probed_sums(selected.subject.op->name);
    if (sums.empty()) {
      fmt::print(stderr, "assay: {} declares no sum to probe (properties/core/probed_sum.h)\n",
                 selected.subject.op->name);
      continue;
    }
    if (selected.device == nullptr) {
      fmt::print(stderr, "assay: {}/{} has no device here\n", selected.subject.op->name,
                 selected.subject.path->name);
      is_absent = true;
      continue;
    }
    if (options.dtype && std::ranges::count(selected.subject.path->dtypes, *options.dtype) == 0) {
      fmt::print(stderr, "assay: {}/{} was not probed: does not serve {}\n", selected.subject.op->name,
                 selected.subject.path->name, name_of(*options.dtype));
      continue;
    }
    PathOutcome outcome = probe_path(selected, sums, options);
    has_failed = has_failed || outcome.has_failed;
    if (!outcome.path.sums.empty()) {
      paths.push_back(std::move(outcome.path));
      report(paths, options);
    }
    if (is_interrupted()) break;
  }
  clear_progress();
  if (paths.empty() && !is_interrupted()) return is_absent ? kExitDeviceAbsent : kExitNothingSelected;
  if (options.json) fmt::print("{}", probe_json(paths, tool_record(), options.seed));
  if (is_interrupted()) return kExitInterrupted;
  return has_failed ? kExitNumericalFailure : kExitPassed;
}

}  // namespace assay
