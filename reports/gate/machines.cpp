// SPDX-License-Identifier: Apache-2.0
#include "reports/gate/machines.h"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

#include "reports/render/text.h"

namespace assay {
namespace {

std::string joined(const std::string& some, const std::string& more) {
  return some.empty() || more.empty() ? some + more : some + "; " + more;
}

// The texts that a device has in the runs.
std::string texts_of(Records runs, const std::string& device, const auto& text_of) {
  std::set<std::string> texts;
  for (const Record& run : runs) {
    for (const DeviceRecord& one : run.machine.devices) {
      if (one.info.name() == device) texts.insert(text_of(one.info));
    }
  }
  return join_some(texts);
}

// The least and the largest of each rate of a device in the runs.
struct RateRange {
  double least, most;
};
std::map<std::string, RateRange> ranges_of(Records runs, const std::string& device) {
  std::map<std::string, RateRange> ranges;
  for (const Record& run : runs) {
    for (const DeviceRecord& one : run.machine.devices) {
      if (one.info.name() != device || !one.ceilings) continue;
      for (const auto& [name, rate] : rates_of(*one.ceilings)) {
        RateRange& range = ranges.emplace(name, RateRange{rate, rate}).first->second;
        range = {std::min(range.least, rate), std::max(range.most, rate)};
      }
    }
  }
  return ranges;
}

// Also true of what is no number.
bool is_apart(double slower, double faster, double limit) {
  return !(faster <= slower * (1 + limit));
}

std::string unlike_rates(Records before, Records after, const std::string& device, const Limits& limits) {
  std::string reason;
  const auto then = ranges_of(before, device), now = ranges_of(after, device);
  for (const auto& [name, was] : then) {
    const auto found = now.find(name);
    if (found == now.end()) continue;
    const RateRange& is = found->second;
    const double limit = limits.of_rate(device, name);
    const bool is_slower = is_apart(is.most, was.least, limit);
    if (!is_slower && !is_apart(was.most, is.least, limit)) continue;
    reason = joined(reason, fmt::format("{}: {} before, {} after", name,
                                        format_rate_of(name, is_slower ? was.least : was.most),
                                        format_rate_of(name, is_slower ? is.most : is.least)));
  }
  return reason;
}

// The disturbances of a run, by kind.
using Disturbances = std::map<std::string, std::string>;
Disturbances disturbances_of(const Record& run) {
  Disturbances found;
  for (const Disturbance& one : run.conditions->disturbances) found[one.kind] = one.text;
  return found;
}

// Those that all runs of one side have and no run of the other.
Disturbances disturbances_of_one(Records side, Records other) {
  Disturbances found = disturbances_of(side.back());
  std::erase_if(found, [&](const auto& one) {
    const auto has = [&](const Record& run) { return disturbances_of(run).contains(one.first); };
    return !std::ranges::all_of(side, has) || std::ranges::any_of(other, has);
  });
  return found;
}

// [MHz] The least and the largest clock. Zeros if a state does not tell it.
std::pair<double, double> range_of_clocks(const States& states, const auto& clock_of) {
  std::pair range(std::numeric_limits<double>::infinity(), 0.0);
  for (const Telemetry* state : states) {
    const std::optional<double> clock = clock_of(*state);
    if (!clock) return {0, 0};
    range = {std::min(range.first, *clock), std::max(range.second, *clock)};
  }
  return range;
}

bool has_conditions(Records runs) {
  return std::ranges::all_of(runs, [](const Record& run) { return run.conditions.has_value(); });
}

std::string threads_of(Records runs) {
  std::set<std::string> threads;
  for (const Record& run : runs) threads.insert(std::to_string(run.conditions->threads));
  return join_some(threads);
}

std::string unlike_conditions(Records before, Records after) {
  if (!has_conditions(before) || !has_conditions(after)) return "";
  std::string reason;
  for (const auto& [kind, text] : disturbances_of_one(before, after))
    reason = joined(reason, fmt::format("{} (before, not after)", text));
  for (const auto& [kind, text] : disturbances_of_one(after, before))
    reason = joined(reason, fmt::format("{} (after, not before)", text));
  if (const auto was = threads_of(before), is = threads_of(after); was != is)
    reason = joined(reason, fmt::format("hardware threads: {} before, {} after", was, is));
  return reason;
}

}  // namespace

std::map<std::string, double> rates_of(const Ceilings& ceilings) {
  std::map<std::string, double> rates{{"copy", ceilings.copy_bytes_per_s}};
  for (const auto& [factor, rate] : ceilings.product_flops_per_s) {
    rates[factor == Format::kStored ? "products of f32" : fmt::format("products of {}", name_of(factor))] =
        rate;
  }
  return rates;
}

std::string format_rate_of(const std::string& name, double rate) {
  return name == "copy" ? format_rate(rate) : format_flops(rate);
}

std::string models_of(Records runs, const std::string& device) {
  const std::string models = texts_of(runs, device, [](const DeviceInfo& info) {
    return fmt::format("{} with {} units", info.model, info.units);
  });
  return models.empty() ? "a device that is not named" : models;
}

std::string unlike_machines(Records before, Records after, const std::string& device, const Limits& limits) {
  std::string reason;
  const auto compare = [&](std::string_view what, const std::string& then, const std::string& now) {
    if (then != now) reason = joined(reason, fmt::format("{}{} before, {} after", what, then, now));
  };
  const auto driver_of = [](const DeviceInfo& info) { return info.driver; };
  compare("", models_of(before, device), models_of(after, device));
  compare("driver: ", texts_of(before, device, driver_of), texts_of(after, device, driver_of));
  reason = joined(reason, unlike_conditions(before, after));
  return joined(reason, unlike_rates(before, after, device, limits));
}

std::string unlike_states(const States& before, const States& after, double limit) {
  if (before.empty() || after.empty() || std::ranges::count(before, nullptr) > 0 ||
      std::ranges::count(after, nullptr) > 0)
    return "";
  std::string reason;
  const auto compare = [&](std::string_view name, const auto& clock_of) {
    const auto [was_least, was_most] = range_of_clocks(before, clock_of);
    const auto [is_least, is_most] = range_of_clocks(after, clock_of);
    if (was_least == 0 || is_least == 0) return;  // not all tell it
    const bool is_slower = is_apart(is_most, was_least, limit);
    if (!is_slower && !is_apart(was_most, is_least, limit)) return;
    reason = joined(reason, fmt::format("{}: {:.0f} MHz before, {:.0f} MHz after", name,
                                        is_slower ? was_least : was_most, is_slower ? is_most : is_least));
  };
  compare("clock", [](const Telemetry& state) {
    return state.clock_mhz ? std::optional(state.clock_mhz->median) : std::nullopt;
  });
  compare("clock of the memory", [](const Telemetry& state) { return state.memory_clock_mhz; });
  for (const auto& [side, other, where] :
       {std::tuple(&before, &after, "before, not after"), std::tuple(&after, &before, "after, not before")}) {
    for (const std::string& cause : side->back()->throttle_reasons.value_or(std::vector<std::string>{})) {
      const auto has = [&](const Telemetry* state) {
        return state->throttle_reasons && std::ranges::count(*state->throttle_reasons, cause) > 0;
      };
      const auto lacks = [&](const Telemetry* state) { return state->throttle_reasons && !has(state); };
      if (slows(cause) && std::ranges::all_of(*side, has) && std::ranges::all_of(*other, lacks))
        reason = joined(reason, fmt::format("the clock is held down by {} ({})", cause, where));
    }
  }
  return reason;
}

std::string change_around(const Record& run, const Sentinel& sentinel, const Limits& limits) {
  const auto first = ranges_of({&run, 1}, sentinel.device);
  for (const Ceilings* ceilings : {&sentinel.before, &sentinel.after}) {
    for (const auto& [name, rate] : rates_of(*ceilings)) {
      const auto found = first.find(name);
      if (found == first.end()) continue;
      const double was = found->second.least, limit = limits.of_rate(sentinel.device, name);
      if (!is_apart(rate, was, limit) && !is_apart(was, rate, limit)) continue;
      return fmt::format("the machine changed in the run of {}: {}: {} at first, {} {} the times of {}/{}",
                         run.started, name, format_rate_of(name, was), format_rate_of(name, rate),
                         ceilings == &sentinel.before ? "before" : "after", sentinel.op, sentinel.path);
    }
  }
  return "";
}

std::string unsteady_machine(Records runs, const CaseRecord& timed, const Limits& limits) {
  std::string reason;
  for (const Record& run : runs) {
    std::string change;
    for (const Sentinel& sentinel : run.sentinels) {
      const bool is_around = sentinel.device == timed.device && sentinel.op == timed.which.op &&
                             sentinel.path == timed.which.path;
      if (is_around && change.empty()) change = change_around(run, sentinel, limits);
    }
    if (change.empty()) return "";
    reason = change;
  }
  return reason;
}

}  // namespace assay
