// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "reports/gate/compared.h"
#include "reports/gate/machines.h"
#include "reports/render/text.h"

namespace assay {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// What the runs of a side say about one time.
struct Times {
  const CaseRecord* item = nullptr;  // of the last run
  std::vector<double> medians;
  States states;  // of the device, one of each run
  double low = kInfinity, high = 0;
  std::string wrong;  // why one of them cannot be right

  double median() const { return median_interval(medians).median; }
};

// A problem is the same under another seed.
using TimeKey = std::tuple<std::string, std::string, Cache>;

std::string problem_of(const CaseRecord& item) {
  Case problem = item.which;
  problem.seed = 0;
  return problem.to_string();
}

std::map<TimeKey, Times> times_of(Records runs) {
  std::map<TimeKey, Times> times;
  for (const Record& run : runs) {
    for (const CaseRecord& item : run.cases) {
      for (const std::optional<Perf>* const taken : {&item.perf, &item.perf_warm}) {
        const std::optional<Perf>& perf = *taken;
        if (!perf) continue;
        const auto [low, high] = perf->ci95_ns;
        Times& time = times[{item.device, problem_of(item), perf->cache}];
        time.item = &item;
        time.medians.push_back(perf->median_ns);
        time.states.push_back(perf->telemetry ? &*perf->telemetry : nullptr);
        time.low = std::min(time.low, low);
        time.high = std::max(time.high, high);
        if (perf->implausible) time.wrong = *perf->implausible;
        if (!(0 < low && low <= perf->median_ns && perf->median_ns <= high && high < kInfinity)) {
          time.wrong = fmt::format("a median of {} ns between {} and {} ns", perf->median_ns, low, high);
        }
      }
    }
  }
  return times;
}

TimeChange time_change(const Times& earlier, const Times& later, const std::string& device, Cache cache,
                       const Limits& limits, const std::string& unlike) {
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
                    .limit = limits.of_time(later.item->which, device, cache),
                    .change = Change::kUnclear,
                    .reason = later.wrong.empty() ? earlier.wrong : later.wrong};
  const double ratio = change.after_ns / change.before_ns;
  if (std::isfinite(ratio) && ratio > 0) change.ratio = ratio;
  if (!change.reason.empty()) {
    if (!unlike.empty()) change.reason += "; " + unlike;
    return change;
  }
  change.low = later.low / earlier.high;
  change.high = later.high / earlier.low;
  change.reason = unlike;
  if (unlike.empty()) change.reason = unlike_states(earlier.states, later.states, change.limit);
  if (!change.reason.empty()) return change;
  const double most = 1 + change.limit, least = 1 / most;
  if (change.low > most) change.change = Change::kWorse;
  if (change.high < least) change.change = Change::kBetter;
  if (change.low >= least && change.high <= most) change.change = Change::kSame;
  return change;
}

// Why the later side lacks a time.
std::string reason_untimed(Records after, const CaseRecord& item) {
  for (const Record& run : after) {
    for (const CaseRecord& one : run.cases) {
      if (one.device == item.device && problem_of(one) == problem_of(item) && !one.no_perf.empty())
        return one.no_perf;
    }
  }
  return reason_not_run(after, item);
}

}  // namespace

void compare_times(Records before, Records after, const Limits& limits, Changes& changes) {
  const auto then = times_of(before), now = times_of(after);
  std::map<std::string, std::string> unlike;  // why times on a device cannot be compared
  // Problems by times and reason.
  std::map<std::pair<std::string, std::string>, std::set<std::string>> missing;
  for (const auto& [key, earlier] : then) {
    const auto& [device, problem, cache] = key;
    const auto found = now.find(key);
    const auto lose = [&](const std::string& reason) {
      missing[{fmt::format("the {} times of {}", name_of(cache), path_text(*earlier.item)), reason}].insert(
          format_dims(earlier.item->which.dims));
    };
    if (found == now.end()) {
      lose(reason_untimed(after, *earlier.item));
    } else {
      if (unlike.count(device) == 0) {
        unlike[device] = unlike_machines(before, after, device, limits);
        const std::string was = models_of(before, device), is = models_of(after, device);
        if (was != is)
          changes.gone.push_back(
              {fmt::format("the times on {}", device), fmt::format("{} before, {} after", was, is)});
      }
      std::string reason = unlike[device];
      for (const Records side : {before, after}) {
        if (reason.empty()) reason = unsteady_machine(side, *found->second.item, limits);
      }
      changes.times.push_back(time_change(earlier, found->second, device, cache, limits, reason));
      const TimeChange& change = changes.times.back();
      if (change.runs_after < changes.runs_after && change.runs_before == changes.runs_before) {
        lose(fmt::format("in {} of {} runs", change.runs_after, changes.runs_after));
      }
    }
  }
  for (const auto& [where, problems] : missing) {
    changes.gone.push_back({fmt::format("{} at {}", where.first, join_some(problems)), where.second});
  }
  for (const auto& [key, later] : now) changes.added += then.contains(key) ? 0 : 1;
  std::ranges::stable_sort(changes.times, std::ranges::greater(), &TimeChange::ratio);
}

}  // namespace assay
