// SPDX-License-Identifier: Apache-2.0
// verify, bench, run and demo.
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "bench/core/measure.h"
#include "reports/program/commands.h"
#include "reports/program/judging.h"
#include "reports/program/machine.h"
#include "reports/program/problems.h"
#include "reports/program/program.h"
#include "reports/program/selection.h"
#include "reports/program/session.h"
#include "reports/program/terminal.h"
#include "reports/render/render.h"
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
          .max_elements = options.max_elements,
          .shard = options.shard,
          .shards = options.shards,
          .stop_at_first_failure = false,
          .max_shrinks = options.no_shrink ? 0 : FuzzOptions().max_shrinks,
          .max_failures = options.max_failures};
}

// How many of `all` the shard has.
int64_t part_of(int64_t all, const Options& options) {
  return (all - options.shard + options.shards - 1) / options.shards;
}

// The cases of a path, unless time decides it.
std::optional<int64_t> planned_cases(const Options& options) {
  return options.budget ? std::nullopt : std::optional(part_of(options.cases, options));
}

// Tells each timeout at once: the search for a simpler case may take as long again and again.
Judging telling_timeouts(PathJudge& judge, Session& session) {
  return [&](const Case& which) {
    std::optional<Verdict> verdict = judge.judge(which);
    if (verdict && verdict->kind == VerdictKind::kTimeout)
      session.progress(fmt::format("timeout: {}", printable(which.to_string())));
    return verdict;
  };
}

void verify_path(const SelectedPath& selected, const Options& options, Session& session, Pace& pace) {
  const std::string name = path_name(selected.subject);
  const int64_t done_before = pace.done;
  session.progress(fmt::format("verifying {}", name));
  PathJudge judge(selected.subject, *selected.device, options);
  const Judging judging = telling_timeouts(judge, session);
  FuzzOptions fuzzing = fuzz_options(options);
  fuzzing.shrinks_crashes = options.isolate;
  if (options.isolate) {
    fuzzing.refuses = [&](const Case& which) { return judge.refuses(which); };
    if (!options.no_shrink) fuzzing.alone = [&](const Case& which) { return judge.judge_alone(which); };
    fuzzing.expects = [&](const Case& following) { judge.expect(following); };
  }
  fuzzing.timeouts = session.timeouts(selected.subject, *selected.device);
  if (fuzzing.budget) *fuzzing.budget -= Seconds(session.spent(selected.subject, *selected.device));
  std::optional<Case> recalled;  // last
  fuzzing.recall = [&](const Case& drawn) {
    auto known = session.recall(drawn, *selected.device);
    if (known && recalled != drawn) ++pace.done;
    if (known) recalled = drawn;
    return known;
  };
  Stopwatch watch;
  fuzzing.starts = [&](const Case& drawn) {
    session.starts(drawn, *selected.device);
    watch = {};
  };
  fuzz(selected.subject, judging, fuzzing, [&](const Judged& judged) {
    session.add(*selected.device, judged);
    pace.add(watch.seconds());
    session.progress(fmt::format("verifying {}: {}", describe(pace), name), Session::Progress::kStep);
    return !is_interrupted();
  });
  // A path that times out again and again, or has failed often enough, is left early.
  if (pace.planned) *pace.planned += pace.done - done_before - *planned_cases(options);
}

// Returns whether something was timed.
bool bench_path(const SelectedPath& selected, const std::vector<Sweep>& sweeps, const Options& options,
                const std::optional<Ceilings>& ceilings, Session& session, Pace& pace) {
  const Subject& subject = selected.subject;
  PathJudge judge(subject, *selected.device, options);
  bool is_timed = false;
  int64_t problem = -1;
  for (const Sweep& sweep : sweeps) {
    if (!times(subject, sweep, options) || is_interrupted()) continue;
    if (++problem % options.shards != options.shard) continue;
    const Case which{.op = std::string(subject.op->name),
                     .path = std::string(subject.path->name),
                     .dtype = sweep.dtype,
                     .dims = sweep.dims,
                     .data = Regime::kNormal,
                     .layout = Layout::kDense,
                     .state = {},
                     .seed = options.seed};
    if (session.recall(which, *selected.device)) {
      ++pace.done;
      continue;
    }
    session.progress(fmt::format("timing {}: {}", describe(pace), which.to_string()));
    session.starts(which, *selected.device);
    const Stopwatch watch;
    if (auto record = judge.bench(which, ceilings)) {
      is_timed |= record->perf.has_value();
      record->problem = problem;
      session.add(*std::move(record));
    }
    pace.add(watch.seconds());
  }
  return is_timed;
}

// Measures the ceilings again after a path was timed. A machine that slowed meanwhile shows.
void watch_machine(const SelectedPath& timed, std::optional<Ceilings>& last, Session& session) {
  if (!last || is_interrupted()) return;
  const std::optional<Ceilings> now = measured_device(*timed.device).ceilings;
  if (!now) return;
  session.add_sentinel({.op = std::string(timed.subject.op->name),
                        .path = std::string(timed.subject.path->name),
                        .device = timed.device->info().name(),
                        .before = *last,
                        .after = *now});
  last = now;
}

// What a run is going to do.
struct Plan {
  Pace verifying, timing;

  Plan(const std::vector<SelectedPath>& paths, const std::vector<Sweep>& sweeps, const Options& options) {
    const auto count = static_cast<int64_t>(paths.size());
    if (options.budget) {
      verifying.budget = static_cast<double>(count) * options.budget->count();
    } else {
      verifying.planned = count * *planned_cases(options);
    }
    timing.planned = 0;
    for (const SelectedPath& path : paths) {
      const int64_t problems = std::ranges::count_if(
          sweeps, [&](const Sweep& sweep) { return times(path.subject, sweep, options); });
      *timing.planned += part_of(problems, options);
    }
  }

  // The number of cases, unless time decides it.
  std::optional<int64_t> cases(Command command) const {
    if (command == Command::kBench) return timing.planned;
    if (command == Command::kVerify || !verifying.planned) return verifying.planned;
    return *verifying.planned + *timing.planned;
  }
};

// The devices that are asked for, or none and the reason.
std::pair<std::vector<std::unique_ptr<Device>>, std::string> devices_for(const Options& options) {
  try {
    return {open_devices(options.device), ""};
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kDevice) throw;
    return {std::vector<std::unique_ptr<Device>>(), error.what()};
  }
}

// The paths that this machine can run now. The others are recorded with the reason.
std::vector<SelectedPath> runnable(const std::vector<SelectedPath>& selected, const Options& options,
                                   const std::string& absent, Session& session) {
  std::vector<SelectedPath> result;
  for (const SelectedPath& path : selected) {
    const Subject& subject = path.subject;
    if (path.device == nullptr) {
      session.add_not_run(
          *subject.op, *subject.path,
          absent.empty() ? fmt::format("no {} device", name_of(subject.path->device)) : absent);
    } else if (!serves(*subject.path, options.dtype)) {
      session.add_not_run(*subject.op, *subject.path,
                          fmt::format("does not serve {}", name_of(*options.dtype)));
    } else {
      result.push_back(path);
    }
  }
  return result;
}

// Ends a run that none of the selected paths can make. Returns the exit code.
int finish_without_paths(const std::vector<SelectedPath>& selected, const Options& options,
                         Session& session) {
  for (const std::string& line : render_not_run(session.not_run())) fmt::print(stderr, "assay: {}\n", line);
  // No reports of an earlier run stay.
  if (options.json || !options.out.empty()) session.finish();
  const bool lacks_device =
      std::ranges::all_of(selected, [](const auto& path) { return path.device == nullptr; });
  return lacks_device ? kExitDeviceAbsent : kExitNothingSelected;
}

const Specimen& specimen_of(const Registry& registry, const Subject& subject, const Options& options) {
  for (const Specimen* specimen : specimens_of(registry, *subject.op, options)) {
    if (subject.path == &specimen->path) return *specimen;
  }
  throw Error("{} is no specimen", path_name(subject));
}

std::vector<SpecimenRecord> records_of(const Registry& registry, const std::vector<SelectedPath>& selected,
                                       const Options& options) {
  std::vector<SpecimenRecord> records;
  for (const SelectedPath& one : selected) {
    const Specimen& specimen = specimen_of(registry, one.subject, options);
    records.push_back(
        {std::string(specimen.op), std::string(specimen.path.name), std::string(specimen.fault)});
  }
  return records;
}

// Times a hostile specimen on one problem. One that is right there is judged on many next, even if
// its time is impossible: ceilings that were measured beside other work are too low.
bool is_caught_when_timed(PathJudge& judge, const Subject& subject, const Dims& dims, const Device& device,
                          const std::optional<Ceilings>& ceilings, const Options& options, Session& session) {
  const Case which{.op = std::string(subject.op->name),
                   .path = std::string(subject.path->name),
                   .dtype = subject.path->dtypes.front(),
                   .dims = dims,
                   .data = Regime::kNormal,
                   .layout = Layout::kDense,
                   .state = {},
                   .seed = options.seed};
  if (const auto known = session.recall(which, device)) return is_failure(known->verdict.kind);
  session.starts(which, device);
  auto record = judge.bench(which, ceilings);
  if (!record) return false;
  const bool is_caught = is_failure(record->verdict.kind);
  session.add(*std::move(record));
  return is_caught;
}

}  // namespace

int run_paths(const Registry& registry, const std::vector<Sweep>& production, const Options& given) {
  Options options = given;
  if (options.command == Command::kRun && options.out.empty()) options.out = "assay-out";
  const bool verifies = options.command != Command::kBench;
  const bool is_timed = options.command == Command::kBench || options.command == Command::kRun;

  const auto [devices, absent] = devices_for(options);
  const std::vector<SelectedPath> selected = select_paths(registry, options, devices);
  const std::vector<Sweep> sweeps = options.sizes.empty() ? production : swept(selected, production, options);
  const std::optional<Conditions> conditions =
      is_timed ? std::optional(timing_conditions(devices)) : std::nullopt;
  std::vector<std::string> disturbances;
  for (const auto& [kind, text] : conditions ? conditions->disturbances : std::vector<Disturbance>{}) {
    fmt::print(stderr, "assay: timings are disturbed: {}\n", text);
    disturbances.push_back(text);
  }

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
  const std::vector<SelectedPath> paths = runnable(selected, options, absent, session);
  if (paths.empty()) return finish_without_paths(selected, options, session);
  Plan plan(paths, sweeps, options);
  session.begin(plan.cases(options.command));
  if (conditions) session.set_conditions(*conditions);
  for (const auto& device : devices) {
    const auto uses = [&](const SelectedPath& path) { return path.device == device.get(); };
    if (std::ranges::none_of(paths, uses) || is_interrupted()) continue;
    if (verifies) {
      for (const SelectedPath& path : paths) {
        if (uses(path) && !is_interrupted()) verify_path(path, options, session, plan.verifying);
      }
    }
    if (!is_timed || is_interrupted()) continue;
    session.progress(fmt::format("measuring what {} copies and multiplies", device->info().name()));
    const DeviceRecord measured = measured_device(*device);
    session.set_ceilings(measured);
    std::optional<Ceilings> last = measured.ceilings;
    for (const SelectedPath& path : paths) {
      if (uses(path) && bench_path(path, sweeps, options, measured.ceilings, session, plan.timing))
        watch_machine(path, last, session);
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
  const auto [devices, absent] = devices_for(options);
  std::vector<SelectedPath> known = select_specimens(registry, options, devices);
  std::erase_if(known, [&](const SelectedPath& one) { return !serves(*one.subject.path, options.dtype); });
  if (known.empty()) {
    fmt::print(stderr, "assay: no specimen matches\n");
    return kExitNothingSelected;
  }
  Session session(options);
  for (const auto& device : devices) session.add_device(*device);
  const std::vector<SelectedPath> selected = runnable(known, options, absent, session);
  if (selected.empty()) return finish_without_paths(known, options, session);
  session.set_specimens(records_of(registry, selected, options));
  session.begin(std::nullopt);
  session.progress(fmt::format("judging {}", plural(std::ssize(selected), "specimen")));
  std::map<const Device*, std::optional<Ceilings>> ceilings;  // where specimens are timed
  for (const auto& [subject, device] : selected) {
    if (!specimen_of(registry, subject, options).timed_on || ceilings.contains(device)) continue;
    const DeviceRecord measured = measured_device(*device);
    session.set_ceilings(measured);
    ceilings[device] = measured.ceilings;
  }
  Pace pace;
  pace.planned = std::ssize(selected);
  FuzzOptions fuzzing = fuzz_options(options);
  fuzzing.stop_at_first_failure = true;
  fuzzing.shrinks_crashes = options.isolate;
  for (const auto& [subject, device] : selected) {
    if (is_interrupted()) break;
    session.progress(fmt::format("judging specimens {}: {}", describe(pace), path_name(subject)),
                     Session::Progress::kStep);
    const Stopwatch watch;
    bool is_known = true;  // to a resumed run
    fuzzing.recall = [&, on = device](const Case& drawn) { return session.recall(drawn, *on); };
    fuzzing.starts = [&, on = device](const Case& drawn) {
      session.starts(drawn, *on);
      is_known = false;
    };
    fuzzing.timeouts = session.timeouts(subject, *device);
    PathJudge judge(subject, *device, options);
    const Specimen& specimen = specimen_of(registry, subject, options);
    if (specimen.timed_on && is_caught_when_timed(judge, subject, *specimen.timed_on, *device,
                                                  ceilings[device], options, session)) {
      pace.add(watch.seconds());
      continue;
    }
    if (options.isolate) fuzzing.refuses = [&](const Case& which) { return judge.refuses(which); };
    const Judging judging = telling_timeouts(judge, session);
    fuzz(subject, judging, fuzzing, [&, of = subject, on = device](const Judged& judged) {
      session.add(*on, judged);
      return !is_interrupted();
    });
    if (is_known) {
      ++pace.done;
    } else {
      pace.add(watch.seconds());
    }
  }
  return session.finish();
}

int run_demo(const Registry& registry, const Options& given) {
  Options options = given;
  if (options.out.empty()) options.out = "assay-demo";
  options.cases = 20;
  // A specimen may hang, and the cases are small.
  if (!options.timeout) {
    options.timeout = Seconds(3);
    options.typed["--timeout"] = "3s";
  }
  const auto has_none = [&](const Op* op) { return registry.specimens(*op).empty(); };
  if (std::ranges::all_of(registry.ops(), has_none)) {
    fmt::print(stderr, "assay: this program has no specimens to show\n");
    return kExitNothingSelected;
  }
  const int code = run_paths(registry, {}, options);
  return code == kExitNumericalFailure ? kExitPassed : code;  // the report fails, as it should
}

}  // namespace assay
