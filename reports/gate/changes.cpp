// SPDX-License-Identifier: Apache-2.0
#include "reports/gate/changes.h"

#include <algorithm>
#include <set>

#include "kernels/core/printable.h"
#include "reports/gate/compared.h"
#include "reports/gate/machines.h"
#include "reports/render/render.h"
#include "reports/render/text.h"

namespace assay {
namespace {

std::string values_of(Records runs, const auto& value) {
  std::set<std::string> values;
  for (const Record& run : runs) values.insert(value(run));
  return join_some(values);
}

std::vector<std::string> differences_of(Records before, Records after) {
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
    std::set<std::string> drivers;
    for (const DeviceRecord& device : run.machine.devices) {
      if (!device.info.driver.empty()) drivers.insert(device.info.name() + " " + device.info.driver);
    }
    return drivers.empty() ? std::string("none") : join_some(drivers);
  });
  return differences;
}

bool is_of(const TimeChange& time, const ErrorChange& error) {
  return time.which.op == error.op && time.which.path == error.path && time.which.dtype == error.dtype &&
         time.device == error.device;
}

// A path that got faster and more wrong, or slower and less wrong, has traded one for the other. A
// path that also got worse where nothing was gained is worse.
void find_trades(Changes& changes) {
  for (ErrorChange& error : changes.errors) {
    if (error.change != Change::kWorse && error.change != Change::kBetter) continue;
    const Change opposite = error.change == Change::kWorse ? Change::kBetter : Change::kWorse;
    bool is_traded = false, is_as_bad = false;
    for (TimeChange& time : changes.times) {
      if (!is_of(time, error)) continue;
      is_as_bad |= time.change == Change::kWorse && error.change == Change::kWorse;
      if (time.change != opposite) continue;
      time.change = Change::kTraded;
      is_traded = true;
    }
    if (is_traded && !is_as_bad) error.change = Change::kTraded;
  }
}

}  // namespace

double Limits::of_time(const Case& which, const std::string& device, Cache cache) const {
  const auto found = noise.times.find(time_key(which, device, cache));
  return found == noise.times.end() ? slower : std::max(slower, found->second);
}

double Limits::of_rate(const std::string& device, const std::string& name) const {
  const auto found = noise.rates.find(rate_key(device, name));
  return found == noise.rates.end() ? slower : std::max(slower, found->second);
}

void require_calibrated(const Noise& noise, std::span<const Record> runs) {
  for (const auto& [device, model] : noise.models) {
    for (const Record& run : runs) {
      const auto has_device = [&](const DeviceRecord& one) { return one.info.name() == device; };
      if (std::ranges::none_of(run.machine.devices, has_device)) continue;
      if (const std::string other = models_of({&run, 1}, device); other != model)
        throw usage_error("the scatter is that of {} as {}, and the run of {} has {}", excerpt(device),
                          excerpt(model), excerpt(run.started), excerpt(other));
    }
  }
}

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
    case Change::kTraded:
      return "traded";
  }
  throw Error("Change({}) is not a change", static_cast<int>(change));
}

std::string path_text(const CaseRecord& item) {
  return fmt::format("{}/{} {} on {}", item.which.op, item.which.path, name_of(item.which.dtype),
                     item.device);
}

std::string reason_not_run(std::span<const Record> runs, const CaseRecord& item) {
  for (const Record& run : runs) {
    for (const NotRun& path : run.not_run) {
      if (path.op == item.which.op && path.path == item.which.path) return path.reason;
    }
  }
  return "not run";
}

bool FailureChange::is_new() const {
  return before != after;
}

Changes changes_between(std::span<const Record> before, std::span<const Record> after, const Limits& limits) {
  if (before.empty() || after.empty())
    throw Error("a side without a record: {} and {}", before.size(), after.size());
  Changes changes;
  changes.limits = limits;
  changes.runs_before = std::ssize(before);
  changes.runs_after = std::ssize(after);
  if (!after.back().command.empty()) changes.program = after.back().command.front();
  changes.differences = differences_of(before, after);
  for (const Record& run : before) {
    if (!run.complete)
      changes.differences.push_back(
          fmt::format("before: the run of {} is {}", run.started, render_interruption(run)));
  }
  for (const Record& run : after) {
    if (!run.complete)
      changes.gone.push_back(
          {fmt::format("the rest of the run of {}", run.started), render_interruption(run)});
  }
  compare_times(before, after, limits, changes);
  compare_cases(before, after, limits, changes);
  find_trades(changes);
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

Trades trades(const Changes& changes) {
  Trades found;
  for (const TimeChange& time : changes.times) {
    if (time.change != Change::kTraded) continue;
    ++(time.ratio < 1 ? found.faster : found.slower);
  }
  return found;
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
