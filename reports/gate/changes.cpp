// SPDX-License-Identifier: Apache-2.0
#include "reports/gate/changes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "reports/render/summary.h"
#include "reports/render/text.h"

namespace assay {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Runs = std::span<const Record>;

// "dynamic_conv/cpu f32 on cpu"
std::string path_text(const CaseRecord& item) {
  return fmt::format("{}/{} {} on {}", item.which.op, item.which.path, name_of(item.which.dtype),
                     item.device);
}

// What the runs of a side say of one time.
struct Times {
  const CaseRecord* item = nullptr;  // of the last run
  std::vector<double> medians;
  double low = kInfinity, high = 0;
  std::string implausible;

  double median() const { return median_interval(medians).median; }
};

// A problem is the same under another seed.
using TimeKey = std::tuple<std::string, std::string, Cache>;

std::map<TimeKey, Times> times_of(Runs runs) {
  std::map<TimeKey, Times> times;
  for (const Record& run : runs) {
    for (const CaseRecord& item : run.cases) {
      Case problem = item.which;
      problem.seed = 0;
      for (const std::optional<Perf>& perf : {item.perf, item.perf_warm}) {
        if (!perf) continue;
        Times& time = times[{item.device, problem.to_string(), perf->cache}];
        time.item = &item;
        time.medians.push_back(perf->median_ns);
        time.low = std::min(time.low, perf->ci95_ns[0]);
        time.high = std::max(time.high, perf->ci95_ns[1]);
        if (perf->implausible) time.implausible = *perf->implausible;
      }
    }
  }
  return times;
}

// Of several runs, a case's failure, or else its last judgement.
using CaseKey = std::tuple<std::string, std::string>;

std::map<CaseKey, const CaseRecord*> cases_of(Runs runs) {
  std::map<CaseKey, const CaseRecord*> cases;
  for (const Record& run : runs) {
    for (const CaseRecord& item : run.cases) {
      const CaseRecord*& known = cases[{item.device, item.which.to_string()}];
      if (known == nullptr || !is_failure(known->verdict.kind)) known = &item;
    }
  }
  return cases;
}

bool is_judged(VerdictKind kind) {
  return kind == VerdictKind::kPass || is_failure(kind);
}

const DeviceInfo* device_of(Runs runs, const std::string& name) {
  for (const Record& run : runs) {
    for (const DeviceRecord& device : run.machine.devices) {
      if (device.info.name() == name) return &device.info;
    }
  }
  return nullptr;
}

// Devices whose times say nothing of each other.
std::map<std::string, std::string> other_devices(Runs before, Runs after) {
  std::map<std::string, std::string> others;
  for (const Record& run : after) {
    for (const DeviceRecord& device : run.machine.devices) {
      const std::string name = device.info.name();
      const DeviceInfo* known = device_of(before, name);
      if (known == nullptr || (known->model == device.info.model && known->units == device.info.units))
        continue;
      others[name] = fmt::format("{} of {} units before, {} of {} after", known->model, known->units,
                                 device.info.model, device.info.units);
    }
  }
  return others;
}

std::string values_of(Runs runs, const auto& value) {
  std::set<std::string> values;
  for (const Record& run : runs) values.insert(value(run));
  std::string text;
  for (const std::string& one : values) text += (text.empty() ? "" : ", ") + one;
  return text;
}

std::vector<std::string> differences_of(Runs before, Runs after) {
  std::vector<std::string> differences;
  const auto add = [&](std::string_view what, const auto& value) {
    const std::string then = values_of(before, value), now = values_of(after, value);
    if (then != now) differences.push_back(fmt::format("{}: {} -> {}", what, then, now));
  };
  add("commit", [](const Record& run) {
    return fmt::format("{}{}", run.tool.git.substr(0, 10), run.tool.dirty ? " with changes" : "");
  });
  add("version", [](const Record& run) { return run.tool.version; });
  add("compiler", [](const Record& run) { return run.tool.compiler; });
  add("build", [](const Record& run) { return run.tool.build; });
  add("host", [](const Record& run) { return run.machine.host_name; });
  add("system", [](const Record& run) { return run.machine.host_os; });
  add("driver", [](const Record& run) {
    std::string drivers;
    for (const DeviceRecord& device : run.machine.devices) {
      if (device.info.driver.empty()) continue;
      drivers += fmt::format("{}{} {}", drivers.empty() ? "" : ", ", device.info.name(), device.info.driver);
    }
    return drivers.empty() ? std::string("none") : drivers;
  });
  const auto incomplete = [&](std::string_view side, Runs runs) {
    const auto broken = std::ranges::count(runs, false, &Record::complete);
    if (broken > 0)
      differences.push_back(fmt::format("{}: {} of {} runs not complete", side, broken, runs.size()));
  };
  incomplete("before", before);
  incomplete("after", after);
  return differences;
}

// Why a problem that was timed before is not in the record.
std::string reason_not_run(Runs runs, const CaseRecord& item) {
  for (const Record& run : runs) {
    for (const NotRun& path : run.not_run) {
      if (path.op == item.which.op && path.path == item.which.path) return path.reason;
    }
  }
  return "not run";
}

TimeChange time_change(const Times& earlier, const Times& later, const std::string& device, Cache cache,
                       const Limits& limits) {
  TimeChange change{.which = later.item->which,
                    .device = device,
                    .cache = cache,
                    .before_ns = earlier.median(),
                    .after_ns = later.median(),
                    .ratio = 1,
                    .low = 0,
                    .high = kInfinity,
                    .change = Change::kUnclear,
                    .reason = later.implausible.empty() ? earlier.implausible : later.implausible};
  if (!(earlier.low > 0) || !(later.low > 0)) {
    change.reason = "a time of 0 ns";
    return change;
  }
  change.ratio = change.after_ns / change.before_ns;
  change.low = later.low / earlier.high;
  change.high = later.high / earlier.low;
  const double most = 1 + limits.slower, least = 1 / most;
  if (!change.reason.empty()) return change;
  if (change.low > most) change.change = Change::kWorse;
  if (change.high < least) change.change = Change::kBetter;
  if (change.low >= least && change.high <= most) change.change = Change::kSame;
  return change;
}

void compare_times(Runs before, Runs after, const Limits& limits, Changes& changes) {
  const auto then = times_of(before), now = times_of(after);
  const auto others = other_devices(before, after);
  for (const auto& [device, why] : others)
    changes.gone.push_back({fmt::format("the times on {}", device), why});
  const auto judged_now = cases_of(after);
  std::map<std::pair<std::string, std::string>, std::set<std::string>>
      missing;  // by path and reason: problems
  for (const auto& [key, earlier] : then) {
    const auto& [device, problem, cache] = key;
    if (others.contains(device)) continue;
    const auto found = now.find(key);
    if (found == now.end()) {
      const auto untimed = judged_now.find({device, earlier.item->which.to_string()});
      const std::string why =
          untimed != judged_now.end() ? untimed->second->no_perf : reason_not_run(after, *earlier.item);
      missing[{path_text(*earlier.item), why}].insert(format_dims(earlier.item->which.dims));
      continue;
    }
    const Times& later = found->second;
    changes.times.push_back(time_change(earlier, later, device, cache, limits));
  }
  for (const auto& [where, problems] : missing) {
    const auto& [path, why] = where;
    changes.gone.push_back({fmt::format("the times of {} at {}", path, join_some(problems)), why});
  }
  for (const auto& [key, later] : now) changes.added += then.contains(key) ? 0 : 1;
  std::ranges::stable_sort(changes.times, std::ranges::greater(), &TimeChange::ratio);
}

// Sums over the cases of a path.
struct Errors {
  bool had = false, has = false;  // a judged case
  int64_t outputs = 0;
  double squares_before = 0, squares_after = 0;
  double worst_before = 0, worst_after = 0;
  double growth = 0;
  const CaseRecord* grown = nullptr;
  int64_t cases = 0;

  void add(const CaseRecord& then, const CaseRecord& now);
};

void Errors::add(const CaseRecord& then, const CaseRecord& now) {
  ++cases;
  double more = 0;
  for (const OutputNumerics& before : then.verdict.outputs) {
    const auto after = std::ranges::find(now.verdict.outputs, before.name, &OutputNumerics::name);
    if (after == now.verdict.outputs.end()) continue;
    worst_before = std::max(worst_before, before.comparison.max_error_over_bound);
    worst_after = std::max(worst_after, after->comparison.max_error_over_bound);
    if (before.allowed_rms.value_or(0) == 0) continue;  // the law does not apply, or nothing is rounded
    const auto square = [&](const Comparison& seen) { return std::pow(seen.rms() / *before.allowed_rms, 2); };
    const double was = square(before.comparison), is = square(after->comparison);
    ++outputs;
    squares_before += was;
    squares_after += is;
    more += is - was;
  }
  if (more > growth) {
    growth = more;
    grown = &now;
  }
}

void compare_errors(Runs before, Runs after, const Limits& limits, Changes& changes) {
  const auto then = cases_of(before), now = cases_of(after);
  std::map<std::string, std::pair<Errors, const CaseRecord*>> paths;
  const auto path_of = [&](const CaseRecord& item) -> Errors& {
    auto& [errors, any] = paths[path_text(item)];
    any = &item;
    return errors;
  };
  for (const auto& [key, item] : now) {
    if (is_judged(item->verdict.kind)) path_of(*item).has = true;
    const auto found = then.find(key);
    const CaseRecord* earlier = found == then.end() ? nullptr : found->second;
    if (is_failure(item->verdict.kind)) {
      changes.failures.push_back({.which = item->which,
                                  .device = item->device,
                                  .after = item->verdict.kind,
                                  .reason = item->verdict.reason,
                                  .before = {}});
      if (earlier != nullptr) changes.failures.back().before = earlier->verdict.kind;
    }
    if (earlier == nullptr) continue;
    if (is_judged(earlier->verdict.kind) && is_judged(item->verdict.kind)) ++changes.shared;
    if (earlier->verdict.kind != VerdictKind::kPass) continue;
    if (item->verdict.kind == VerdictKind::kPass) path_of(*item).add(*earlier, *item);
    if (!is_judged(item->verdict.kind)) {
      changes.gone.push_back({item->which.to_string(),
                              fmt::format("{}: {}", name_of(item->verdict.kind), item->verdict.reason)});
    }
  }
  for (const auto& [key, item] : then) {
    if (is_judged(item->verdict.kind)) path_of(*item).had = true;
  }
  for (const auto& [name, sums] : paths) {
    const auto& [errors, any] = sums;
    if (errors.had && !errors.has) {
      changes.gone.push_back({"all cases of " + name, "none was judged"});
    } else if (errors.had && errors.cases == 0 &&
               std::ranges::none_of(changes.failures, [&](const FailureChange& failure) {
                 return failure.which.op == any->which.op && failure.which.path == any->which.path;
               })) {
      changes.gone.push_back({"the errors of " + name, "no case is in both: other seeds, or other cases"});
    }
    if (errors.outputs == 0) continue;
    const double was = std::sqrt(errors.squares_before / static_cast<double>(errors.outputs));
    const double is = std::sqrt(errors.squares_after / static_cast<double>(errors.outputs));
    ErrorChange change{.op = any->which.op,
                       .path = any->which.path,
                       .dtype = any->which.dtype,
                       .device = any->device,
                       .cases = errors.cases,
                       .before = was,
                       .after = is,
                       .ratio = is == was ? 1 : is / was,
                       .worst_before = errors.worst_before,
                       .worst_after = errors.worst_after,
                       .change = Change::kSame,
                       .grown = {}};
    if (errors.grown != nullptr) change.grown = errors.grown->which;
    if (change.ratio > 1 + limits.more_wrong) change.change = Change::kWorse;
    if (change.ratio < 1 / (1 + limits.more_wrong)) change.change = Change::kBetter;
    changes.errors.push_back(std::move(change));
  }
  std::ranges::stable_sort(changes.errors, std::ranges::greater(), &ErrorChange::ratio);
  std::ranges::stable_partition(changes.failures, &FailureChange::is_new);
}

}  // namespace

std::string_view name_of(Change change) {
  switch (change) {
    case Change::kWorse:
      return "worse";
    case Change::kBetter:
      return "better";
    case Change::kSame:
      return "same";
    case Change::kUnclear:
      return "unclear";
  }
  throw Error("Change({}) is not a change", static_cast<int>(change));
}

Changes changes_between(std::span<const Record> before, std::span<const Record> after, const Limits& limits) {
  if (before.empty() || after.empty())
    throw Error("a side without a record: {} and {}", before.size(), after.size());
  Changes changes;
  changes.runs_before = static_cast<int64_t>(before.size());
  changes.runs_after = static_cast<int64_t>(after.size());
  changes.differences = differences_of(before, after);
  compare_times(before, after, limits, changes);
  compare_errors(before, after, limits, changes);
  return changes;
}

int64_t count(const std::vector<TimeChange>& times, Change change) {
  return std::ranges::count(times, change, &TimeChange::change);
}

int64_t count(const std::vector<ErrorChange>& errors, Change change) {
  return std::ranges::count(errors, change, &ErrorChange::change);
}

int64_t new_failures(const Changes& changes) {
  return std::ranges::count_if(changes.failures, &FailureChange::is_new);
}

double chance_of_slower(const Changes& changes) {
  double orders = 1;
  for (int64_t i = 1; i <= changes.runs_after; ++i) {
    orders *= static_cast<double>(changes.runs_before + i) / static_cast<double>(i);
  }
  return 1 / orders;
}

}  // namespace assay
