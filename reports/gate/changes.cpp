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
                    .runs_before = std::ssize(earlier.medians),
                    .runs_after = std::ssize(later.medians),
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

// Over the cases of a path.
struct Errors {
  const CaseRecord* any = nullptr;
  bool was_judged = false, is_judged = false;
  int64_t shared = 0;              // judged by both sides
  int64_t cases = 0, outputs = 0;  // passed by both
  double squares_before = 0, squares_after = 0;
  double worst_before = 0, worst_after = 0;
  double growth = 0;
  const CaseRecord* grown = nullptr;

  void add(const CaseRecord& then, const CaseRecord& now);
  ErrorChange change(const Limits& limits) const;
};

void Errors::add(const CaseRecord& then, const CaseRecord& now) {
  ++cases;
  for (const OutputNumerics& before : then.verdict.outputs) {
    const auto after = std::ranges::find(now.verdict.outputs, before.name, &OutputNumerics::name);
    if (after == now.verdict.outputs.end()) continue;
    worst_before = std::max(worst_before, before.comparison.max_error_over_bound);
    worst_after = std::max(worst_after, after->comparison.max_error_over_bound);
    if (before.allowed_rms.value_or(0) == 0) continue;  // the law does not apply, or nothing is rounded
    const double was = before.comparison.rms() / *before.allowed_rms;
    const double is = after->comparison.rms() / *before.allowed_rms;
    ++outputs;
    squares_before += was * was;
    squares_after += is * is;
    if (is - was > growth) {
      growth = is - was;
      grown = &now;
    }
  }
}

ErrorChange Errors::change(const Limits& limits) const {
  const double was = std::sqrt(squares_before / static_cast<double>(outputs));
  const double is = std::sqrt(squares_after / static_cast<double>(outputs));
  ErrorChange change{.op = any->which.op,
                     .path = any->which.path,
                     .dtype = any->which.dtype,
                     .device = any->device,
                     .cases = cases,
                     .before = was,
                     .after = is,
                     .ratio = is == was ? 1 : is / was,
                     .growth = growth,
                     .grown = {},
                     .worst_before = worst_before,
                     .worst_after = worst_after,
                     .change = Change::kSame};
  if (grown != nullptr) change.grown = grown->which;
  if (change.ratio < 1 / (1 + limits.more_wrong)) change.change = Change::kBetter;
  if (change.ratio > 1 + limits.more_wrong || growth > limits.more_wrong) change.change = Change::kWorse;
  return change;
}

// A case of the later side, and what the earlier one said of it, if it did.
void compare_case(const CaseRecord& now, const CaseRecord* then, Errors& errors, Changes& changes) {
  const VerdictKind kind = now.verdict.kind;
  errors.is_judged |= is_judged(kind);
  if (is_failure(kind)) {
    changes.failures.push_back({.which = now.which,
                                .device = now.device,
                                .after = kind,
                                .reason = now.verdict.reason,
                                .before = {}});
    if (then != nullptr) changes.failures.back().before = then->verdict.kind;
  }
  if (then == nullptr || !is_judged(then->verdict.kind)) return;
  if (!is_judged(kind)) {
    changes.gone.push_back({now.which.to_string(), fmt::format("{}: {}", name_of(kind), now.verdict.reason)});
    return;
  }
  ++changes.shared;
  ++errors.shared;
  if (kind == VerdictKind::kPass && then->verdict.kind == VerdictKind::kPass) errors.add(*then, now);
}

void compare_cases(Runs before, Runs after, const Limits& limits, Changes& changes) {
  const auto then = cases_of(before), now = cases_of(after);
  std::map<std::string, Errors> paths;
  const auto path_of = [&](const CaseRecord& item) -> Errors& {
    Errors& errors = paths[path_text(item)];
    errors.any = &item;
    return errors;
  };
  for (const auto& [key, item] : then) path_of(*item).was_judged |= is_judged(item->verdict.kind);
  for (const auto& [key, item] : now) {
    const auto known = then.find(key);
    compare_case(*item, known == then.end() ? nullptr : known->second, path_of(*item), changes);
  }
  for (const auto& [name, errors] : paths) {
    if (errors.was_judged && !errors.is_judged) {
      changes.gone.push_back({"all cases of " + name, "none was judged"});
    } else if (errors.was_judged && errors.shared == 0) {
      changes.gone.push_back({"the cases of " + name, "none is in both: other seeds, or other cases"});
    }
    if (errors.outputs > 0) changes.errors.push_back(errors.change(limits));
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
  compare_cases(before, after, limits, changes);
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
  double chance = changes.times.empty() ? 1 : 0;
  for (const TimeChange& time : changes.times) {
    double orders = 1;
    for (int64_t i = 1; i <= time.runs_after; ++i) {
      orders *= static_cast<double>(time.runs_before + i) / static_cast<double>(i);
    }
    chance = std::max(chance, 1 / orders);
  }
  return chance;
}

}  // namespace assay
