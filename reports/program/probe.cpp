// SPDX-License-Identifier: Apache-2.0
// probe: how paths add up, found from outside.
#include "probe/probe.h"

#include <algorithm>

#include "properties/core/problem.h"
#include "reports/program/commands.h"
#include "reports/program/interrupt.h"
#include "reports/program/machine.h"
#include "reports/program/program.h"
#include "reports/program/selection.h"
#include "reports/program/terminal.h"
#include "reports/render/probe.h"

namespace assay {
namespace {

// All of its sums that the path computes, for each dtype that is wanted. A call that throws ends
// the sum, and counts against the path unless the device lacks memory.
struct PathOutcome {
  ProbedPath path;
  bool has_failed = false;
};

PathOutcome probe_path(const SelectedPath& selected, const std::vector<const ProbedSum*>& sums,
                       const Options& options) {
  const Subject& subject = selected.subject;
  const DeviceInfo& info = selected.device->info();
  PathOutcome outcome{
      .path = {std::string(subject.op->name), std::string(subject.path->name), info.name(), info.model, {}}};
  const ProbeOptions how{.terms = options.terms, .seed = options.seed};
  for (DType dtype : subject.path->dtypes) {
    if (options.dtype && *options.dtype != dtype) continue;
    for (const ProbedSum* sum : sums) {
      if (is_interrupted()) return outcome;
      if (!options.quiet)
        show_progress(
            fmt::format("{}/{}: {}, {}", subject.op->name, subject.path->name, sum->what, name_of(dtype)));
      try {
        outcome.path.sums.push_back(probe(subject, *selected.device, *sum, dtype, how));
        outcome.has_failed = outcome.has_failed || !is_consistent(outcome.path.sums.back());
      } catch (const Error& error) {
        outcome.path.sums.push_back({.sum = sum, .dtype = dtype, .why_not = error.what()});
        if (error.kind() != Error::Kind::kDevice) outcome.has_failed = true;
      }
    }
  }
  return outcome;
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
      fmt::print(stderr, "assay: {} declares no sum to probe\n", selected.subject.op->name);
      continue;
    }
    if (selected.device == nullptr) {
      fmt::print(stderr, "assay: {}/{} has no device here\n", selected.subject.op->name,
                 selected.subject.path->name);
      is_absent = true;
      continue;
    }
    PathOutcome outcome = probe_path(selected, sums, options);
    has_failed = has_failed || outcome.has_failed;
    if (!outcome.path.sums.empty()) paths.push_back(std::move(outcome.path));
    if (is_interrupted()) break;
  }
  clear_progress();
  if (paths.empty() && !is_interrupted()) return is_absent ? kExitDeviceAbsent : kExitNothingSelected;
  if (!options.out.empty()) {
    make_output_directory(options.out);
    write_files_atomically(probe_files(paths, tool_record(), options.seed, options.out));
  }
  if (options.json) fmt::print("{}", probe_json(paths, tool_record(), options.seed));
  for (const ProbedPath& path : paths) {
    if (!options.json) fmt::print("{}", render_probed(path, text_width()));
  }
  if (is_interrupted()) return kExitInterrupted;
  return has_failed ? kExitNumericalFailure : kExitPassed;
}

}  // namespace assay
