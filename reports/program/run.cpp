// SPDX-License-Identifier: Apache-2.0
// verify, bench, run and demo.
#include <fmt/ranges.h>

#include <algorithm>

#include "bench/core/measure.h"
#include "reports/program/commands.h"
#include "reports/program/judging.h"
#include "reports/program/machine.h"
#include "reports/program/program.h"
#include "reports/program/selection.h"
#include "reports/program/session.h"
#include "reports/render/text.h"

namespace assay {
namespace {

std::string path_name(const Subject& subject) {
  return fmt::format("{}/{}", subject.op->name, subject.path->name);
}

bool serves(const Path& path, const std::optional<DType>& dtype) {
  return !dtype || std::ranges::count(path.dtypes, *dtype) > 0;
}

FuzzOptions fuzz_options(const Options& options) {
  return {.cases = options.cases,
          .budget = options.budget,
          .seed = options.seed,
          .dtype = options.dtype,
          .max_elements = options.max_elements.value_or(kFuzzElements),
          .shard = options.shard,
          .shards = options.shards,
          .stop_at_first_failure = false,
          .max_failures = options.max_failures};
}

void verify_path(const SelectedPath& selected, const Options& options, Session& session) {
  const std::string name = path_name(selected.subject);
  int64_t done = 0;
  session.progress(fmt::format("verifying {}", name));
  PathJudge judge(selected.subject, *selected.device, options);
  const Judging judging = [&](const Case& which) { return judge.judge(which); };
  FuzzOptions fuzzing = fuzz_options(options);
  fuzzing.shrinks_crashes = options.isolate;
  if (options.isolate) fuzzing.alone = [&](const Case& which) { return judge.judge_alone(which); };
  if (fuzzing.budget) *fuzzing.budget -= Seconds(session.spent(selected.subject, *selected.device));
  fuzzing.recall = [&](const Case& drawn) { return session.recall(drawn, *selected.device); };
  fuzzing.starts = [&](const Case& drawn) { session.starts(drawn, *selected.device); };
  fuzz(selected.subject, judging, fuzzing, [&](const Judged& judged) {
    session.add(selected.subject, *selected.device, judged);
    session.progress(fmt::format("verifying {}: {} cases", name, ++done), Session::Progress::kStep);
    return !is_interrupted();
  });
}

bool times(const Subject& subject, const Sweep& sweep, const Options& options) {
  return sweep.op == subject.op->name && sweep.device == subject.path->device &&
         std::ranges::count(subject.path->dtypes, sweep.dtype) != 0 &&
         (!options.dtype || sweep.dtype == *options.dtype);
}

void bench_path(const SelectedPath& selected, const std::vector<Sweep>& sweeps, const Options& options,
                const std::optional<Ceilings>& ceilings, Session& session) {
  const Subject& subject = selected.subject;
  PathJudge judge(subject, *selected.device, options);
  for (const Sweep& sweep : sweeps) {
    if (!times(subject, sweep, options) || is_interrupted()) continue;
    const Case which{.op = std::string(subject.op->name),
                     .path = std::string(subject.path->name),
                     .dtype = sweep.dtype,
                     .dims = sweep.dims,
                     .data = Regime::kNormal,
                     .layout = Layout::kDense,
                     .state = {},
                     .seed = options.seed};
    if (session.recall(which, *selected.device)) continue;
    session.progress(fmt::format("timing {}", which.to_string()));
    session.starts(which, *selected.device);
    if (auto record = judge.bench(which, ceilings)) session.add(*std::move(record));
  }
}

// The number of cases, unless time decides it.
std::optional<int64_t> planned_cases(const std::vector<SelectedPath>& paths, const std::vector<Sweep>& sweeps,
                                     const Options& options) {
  const bool verifies = options.command != Command::kBench;
  if (verifies && options.budget) return std::nullopt;
  int64_t planned = 0;
  for (const SelectedPath& path : paths) {
    if (verifies) planned += (options.cases - options.shard + options.shards - 1) / options.shards;
    if (options.command != Command::kBench && options.command != Command::kRun) continue;
    planned += std::ranges::count_if(sweeps,
                                     [&](const Sweep& sweep) { return times(path.subject, sweep, options); });
  }
  return planned;
}

// The paths that this machine can run now. The others are recorded with the reason.
std::vector<SelectedPath> runnable(const std::vector<SelectedPath>& selected, const Options& options,
                                   Session& session) {
  std::vector<SelectedPath> result;
  for (const SelectedPath& path : selected) {
    const Subject& subject = path.subject;
    if (path.device == nullptr) {
      session.add_not_run(*subject.op, *subject.path,
                          fmt::format("no {} device", name_of(subject.path->device)));
    } else if (!serves(*subject.path, options.dtype)) {
      session.add_not_run(*subject.op, *subject.path,
                          fmt::format("does not serve {}", name_of(*options.dtype)));
    } else {
      result.push_back(path);
    }
  }
  return result;
}

std::vector<SpecimenRecord> records_of(const Registry& registry, const std::vector<SelectedPath>& selected) {
  std::vector<SpecimenRecord> records;
  for (const Specimen& specimen : registry.specimens()) {
    const auto is_it = [&](const SelectedPath& one) { return one.subject.path == &specimen.path; };
    if (std::ranges::any_of(selected, is_it))
      records.push_back(
          {std::string(specimen.op), std::string(specimen.path.name), std::string(specimen.fault)});
  }
  return records;
}

}  // namespace

int run_paths(const Registry& registry, const std::vector<Sweep>& sweeps, const Options& given) {
  Options options = given;
  if (options.command == Command::kRun && options.out.empty()) options.out = "assay-out";
  const bool verifies = options.command != Command::kBench;
  const bool is_timed = options.command == Command::kBench || options.command == Command::kRun;

  const auto devices = open_devices(options.device);
  const std::vector<SelectedPath> selected = select_paths(registry, options, devices);
  const std::vector<std::string> disturbances = is_timed ? timing_disturbances() : std::vector<std::string>{};
  for (const std::string& disturbance : disturbances)
    fmt::print(stderr, "assay: timings are disturbed: {}\n", disturbance);

  Session session(options);
  for (const auto& device : devices) session.add_device(*device);
  if (options.strict_env && !disturbances.empty()) {
    for (const SelectedPath& path : selected) {
      session.add_not_run(*path.subject.op, *path.subject.path,
                          fmt::format("{}", fmt::join(disturbances, "; ")));
    }
    session.finish(false);
    return kExitEnvironmentUnfit;
  }
  const std::vector<SelectedPath> paths = runnable(selected, options, session);
  if (paths.empty()) {
    const bool lacks_device =
        std::ranges::all_of(selected, [](const auto& path) { return path.device == nullptr; });
    for (const NotRun& path : session.not_run()) {
      fmt::print(stderr, "assay: {}/{}: {}\n", path.op, path.path, path.reason);
    }
    return lacks_device ? kExitDeviceAbsent : kExitNothingSelected;
  }
  session.begin(planned_cases(paths, sweeps, options));
  for (const auto& device : devices) {
    const auto uses = [&](const SelectedPath& path) { return path.device == device.get(); };
    if (std::ranges::none_of(paths, uses) || is_interrupted()) continue;
    if (verifies) {
      for (const SelectedPath& path : paths) {
        if (uses(path) && !is_interrupted()) verify_path(path, options, session);
      }
    }
    if (!is_timed || is_interrupted()) continue;
    session.progress(fmt::format("measuring what {} copies and multiplies", device->info().name()));
    const DeviceRecord measured = measured_device(*device);
    session.set_ceilings(measured);
    for (const SelectedPath& path : paths) {
      if (uses(path)) bench_path(path, sweeps, options, measured.ceilings, session);
    }
  }
  if (session.judged() == 0 && !is_interrupted()) {
    fmt::print(stderr, "assay: no case: {}\n",
               options.shards > 1 ? fmt::format("part {} of {} is empty", options.shard + 1, options.shards)
                                  : "no problem of these paths is timed in this dtype");
  }
  return session.finish();
}

int run_specimens(const Registry& registry, const Options& options) {
  const auto devices = open_devices(options.device);
  std::vector<SelectedPath> selected = select_specimens(registry, options, devices);
  std::erase_if(selected, [&](const SelectedPath& one) { return !serves(*one.subject.path, options.dtype); });
  if (selected.empty()) {
    fmt::print(stderr, "assay: no specimen matches\n");
    return kExitNothingSelected;
  }
  Session session(options);
  for (const auto& device : devices) session.add_device(*device);
  session.set_specimens(records_of(registry, selected));
  session.begin(std::nullopt);
  session.progress(fmt::format("judging {}", plural(std::ssize(selected), "specimen")));
  FuzzOptions fuzzing = fuzz_options(options);
  fuzzing.stop_at_first_failure = true;
  int64_t done = 0;
  for (const auto& [subject, device] : selected) {
    if (is_interrupted()) break;
    session.progress(fmt::format("specimen {} of {}: {}", ++done, selected.size(), path_name(subject)),
                     Session::Progress::kStep);
    fuzzing.recall = [&, on = device](const Case& drawn) { return session.recall(drawn, *on); };
    fuzzing.starts = [&, on = device](const Case& drawn) { session.starts(drawn, *on); };
    fuzz(subject, *device, fuzzing, [&, of = subject, on = device](const Judged& judged) {
      session.add(of, *on, judged);
      return !is_interrupted();
    });
  }
  return session.finish();
}

int run_demo(const Registry& registry, const Options& given) {
  Options options = given;
  if (options.out.empty()) options.out = "assay-demo";
  options.cases = 20;
  if (registry.specimens().empty()) {
    fmt::print(stderr, "assay: this program has no specimens to show\n");
    return kExitNothingSelected;
  }
  const int code = run_paths(registry, {}, options);
  return code == kExitNumericalFailure ? kExitPassed : code;  // the report fails, as it should
}

}  // namespace assay
