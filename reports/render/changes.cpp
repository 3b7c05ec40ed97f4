// SPDX-License-Identifier: Apache-2.0
#include "reports/render/changes.h"

#include <fmt/ranges.h>

#include <cmath>
#include <map>

#include "reports/render/changed_rows.h"
#include "reports/render/columns.h"
#include "reports/render/text.h"

namespace assay {
namespace {

std::string_view colour_of(Change change) {
  return change == Change::kWorse || change == Change::kTraded ? kRed
         : change == Change::kBetter                           ? kGreen
                                                               : "";
}

std::string render_times(const Changes& changes, bool all, bool colour, int width) {
  Column change{"time", false, 10, {}, {}}, name{"path", false, 9, {}, {}}, dtype{"dtype", false, 8, {}, {}};
  Column device{"device", false, 1, {}, {}}, problem{"problem", false, 7, {}, {}},
      cache{"cache", false, 6, {}, {}};
  Column before{"before", true, 3, {}, {}}, after{"after", true, 4, {}, {}}, ratio{"ratio", true, 10, {}, {}};
  Column interval{"between", false, 5, {}, {}};
  for (const TimeChange& time : changes.times) {
    if (!all && !is_shown(time)) continue;
    change.cells.emplace_back(word_for(time));
    change.colours.push_back(colour_of(time.change));
    name.cells.push_back(printable(time.which.op + "/" + time.which.path));
    dtype.cells.emplace_back(name_of(time.which.dtype));
    device.cells.push_back(printable(time.device));
    problem.cells.push_back(printable(format_dims(time.which.dims)));
    cache.cells.emplace_back(name_of(time.cache));
    before.cells.push_back(format_time(time.before_ns));
    after.cells.push_back(format_time(time.after_ns));
    ratio.cells.push_back(format_change(time.ratio));
    interval.cells.push_back(std::isfinite(time.high)
                                 ? fmt::format("{} and {}", format_change(time.low), format_change(time.high))
                                 : "implausible");
  }
  return align_columns({change, name, dtype, device, problem, cache, before, after, ratio, interval}, colour,
                       width);
}

std::string render_errors(const std::vector<ErrorChange>& errors, bool all, bool colour, int width) {
  Column change{"errors", false, 10, {}, {}}, name{"path", false, 9, {}, {}},
      dtype{"dtype", false, 8, {}, {}};
  Column device{"device", false, 1, {}, {}}, cases{"cases", true, 4, {}, {}};
  Column before{"rms/allowed", true, 5, {}, {}}, after{"after", true, 6, {}, {}},
      ratio{"ratio", true, 10, {}, {}};
  Column accuracy{"accuracy", true, 8, {}, {}}, growth{"most grown", true, 7, {}, {}};
  Column worst_before{"error/bound", true, 2, {}, {}}, worst_after{"after", true, 3, {}, {}};
  for (const ErrorChange& error : errors) {
    if (!all && error.change == Change::kSame) continue;
    change.cells.emplace_back(word_for(error));
    change.colours.push_back(colour_of(error.change));
    name.cells.push_back(printable(error.op + "/" + error.path));
    dtype.cells.emplace_back(name_of(error.dtype));
    device.cells.push_back(printable(error.device));
    cases.cells.push_back(format_count(error.cases));
    before.cells.push_back(format_number(error.before));
    after.cells.push_back(format_number(error.after));
    ratio.cells.push_back(format_change(error.ratio));
    accuracy.cells.push_back(format_number(error.accuracy));
    growth.cells.push_back(format_number(error.growth));
    worst_before.cells.push_back(format_ratio(error.worst_before));
    worst_after.cells.push_back(format_ratio(error.worst_after));
  }
  return align_columns(
      {change, name, dtype, device, cases, before, after, ratio, accuracy, growth, worst_before, worst_after},
      colour, width);
}

// A line for each of the first items, and one for the number of others.
std::string some_lines(const auto& items, bool all, const auto& line_of) {
  constexpr size_t kMost = 20;
  std::string text;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i == kMost && !all) return text + fmt::format("and {} more: --all\n", items.size() - kMost);
    text += line_of(items[i]) + "\n";
  }
  return text;
}

// "2 slower, 31 the same"
std::string describe(const std::vector<std::pair<int64_t, std::string_view>>& counts) {
  std::string text;
  for (const auto& [number, what] : counts) {
    if (number > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", format_count(number), what);
  }
  return text;
}

}  // namespace

std::map<std::string, int64_t> unclear_reasons(const Changes& changes) {
  std::map<std::string, int64_t> reasons;
  for (const TimeChange& time : changes.times) {
    if (!time.reason.empty()) ++reasons[fmt::format("on {}: {}", time.device, time.reason)];
  }
  return reasons;
}

std::string_view word_for(const TimeChange& time) {
  return time.change == Change::kWorse    ? "slower"
         : time.change == Change::kBetter ? "faster"
                                          : name_of(time.change);
}

std::string_view word_for(const ErrorChange& error) {
  return error.change == Change::kWorse    ? "larger"
         : error.change == Change::kBetter ? "smaller"
                                           : name_of(error.change);
}

std::string format_change(double ratio) {
  return std::isfinite(ratio) && ratio < 100 ? fmt::format("{:.3f}", ratio) : format_number(ratio);
}

bool is_shown(const TimeChange& time) {
  const double most = 1 + time.limit;
  const bool is_near =
      time.ratio <= most && time.ratio >= 1 / most && std::isfinite(time.before_ns + time.after_ns);
  if (time.change == Change::kUnclear) return !is_near;
  return time.change != Change::kSame;
}

std::string render_headline(const Changes& changes) {
  std::vector<std::string> parts;
  if (!changes.times.empty()) {
    const auto times = [&](Change change) { return count(changes.times, change); };
    parts.push_back(fmt::format("Of {}, {}", plural(static_cast<int64_t>(changes.times.size()), "time"),
                                describe({{times(Change::kWorse), "slower"},
                                          {times(Change::kBetter), "faster"},
                                          {times(Change::kTraded), "traded for errors"},
                                          {times(Change::kSame), "the same"},
                                          {times(Change::kUnclear), "unclear"}})));
  }
  if (!changes.errors.empty()) {
    const auto errors = [&](Change change) { return count(changes.errors, change); };
    parts.push_back(fmt::format("{} the errors of {}, {}", parts.empty() ? "Of" : "of",
                                plural(static_cast<int64_t>(changes.errors.size()), "path"),
                                describe({{errors(Change::kWorse), "larger"},
                                          {errors(Change::kBetter), "smaller"},
                                          {errors(Change::kTraded), "traded for times"},
                                          {errors(Change::kSame), "the same"}})));
  }
  const int64_t failing = new_failures(changes),
                as_before = static_cast<int64_t>(changes.failures.size()) - failing;
  if (failing > 0) parts.push_back(plural(failing, "new failure"));
  if (as_before > 0) parts.push_back(plural(as_before, "failure") + " as before");
  if (!changes.gone.empty())
    parts.push_back(fmt::format("{} gone", format_count(static_cast<int64_t>(changes.gone.size()))));
  if (parts.empty() && changes.shared > 0) return "Nothing got better or worse.";
  return parts.empty() ? "Nothing is in both." : fmt::format("{}.", fmt::join(parts, "; "));
}

std::string render_changes(const Changes& changes, bool all, bool colour, int width) {
  std::string text = fmt::format("{} before, {} after, {} in both\n", plural(changes.runs_before, "run"),
                                 plural(changes.runs_after, "run"), plural(changes.shared, "case"));
  if (!changes.times.empty()) {
    text += fmt::format("a time that did not change looks slower with a chance of at most 1 in {:.0f}\n",
                        1 / chance_of_slower(changes));
  }
  for (const std::string& difference : changes.differences) text += printable(difference) + "\n";
  const auto add = [&](const std::string& part) {
    if (!part.empty()) text += "\n" + part;
  };
  add(some_lines(changes.failures, all, [](const FailureChange& failure) {
    const std::string then =
        failure.before ? fmt::format("{} before", name_of(*failure.before)) : "not judged before";
    return fmt::format("{}  {} ({}): {}", name_of(failure.after), printable(failure.which.to_string()), then,
                       printable(failure.reason));
  }));
  std::string errors = render_errors(changes.errors, all, colour, width);
  for (const ErrorChange& error : changes.errors) {
    if ((error.change == Change::kWorse || error.change == Change::kTraded) && error.growth > 0 &&
        error.grown)
      errors += printable(replay_command(changes.program, *error.grown)) + "\n";
  }
  add(errors);
  add(render_times(changes, all, colour, width));
  const auto unclear = unclear_reasons(changes);
  add(some_lines(std::vector(unclear.begin(), unclear.end()), all, [](const auto& one) {
    return fmt::format("{} unclear {}", plural(one.second, "time"), printable(one.first));
  }));
  add(some_lines(changes.gone, all, [](const Gone& one) {
    return fmt::format("gone  {}: {}", printable(one.what), printable(one.reason));
  }));
  add(render_headline(changes) + "\n");
  return text;
}

}  // namespace assay
