// SPDX-License-Identifier: Apache-2.0
#include "reports/render/summary.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "reports/gate/machines.h"
#include "reports/record/tally.h"
#include "reports/render/render.h"
#include "reports/render/text.h"

namespace assay {
namespace {

void take_worst(std::optional<Numbers>& worst, const Numbers& numbers) {
  if (!worst) worst.emplace();
  worst->max_error_over_bound = std::max(worst->max_error_over_bound, numbers.max_error_over_bound);
  // Absent is the least.
  worst->rms_over_allowed = std::max(worst->rms_over_allowed, numbers.rms_over_allowed);
  worst->rms_over_predicted = std::max(worst->rms_over_predicted, numbers.rms_over_predicted);
  worst->equal += numbers.equal;
  worst->compared += numbers.compared;
  worst->largest_error = std::max(worst->largest_error, numbers.largest_error);
  worst->rel_l2 = std::max(worst->rel_l2, numbers.rel_l2);
}

// "Nothing was judged: too large." or "Nothing was judged. 11 of 12 cases: needs sm_90a." There is
// a case.
std::string most_frequent_reason(const std::vector<CaseRecord>& cases) {
  std::map<std::string, int64_t> reasons;
  for (const CaseRecord& item : cases) ++reasons[item.verdict.reason];
  const auto& [reason, count] =
      *std::ranges::max_element(reasons, {}, [](const auto& counted) { return counted.second; });
  const bool is_only = count == std::ssize(cases);
  const std::string of =
      is_only ? ": "
              : fmt::format(". {} of {} cases: ", format_count(count), format_count(std::ssize(cases)));
  const std::string text = excerpt(reason);
  return fmt::format("Nothing was judged{}{}{}", of, text, text.ends_with('.') ? "" : ".");
}

// "All 24 specimens are caught, after 1 to 18 cases."
std::string specimens_headline(const Record& record) {
  std::set<std::string> survivors;
  std::vector<int64_t> needed;
  const std::vector<SpecimenSummary> specimens = summarize_specimens(record);
  for (const auto& [specimen, cases, caught, seconds] : specimens) {
    if (caught != nullptr) {
      needed.push_back(cases);
    } else if (cases > 0) {
      survivors.insert(printable(specimen->op + "/" + specimen->path));
    }
  }
  const int64_t all = std::ssize(specimens);
  const auto [least, most] = std::ranges::minmax_element(needed);
  const std::string range = needed.empty() || *least == *most ? "" : fmt::format("{} to ", *least);
  const std::string after = needed.empty() ? "" : fmt::format(", after {}{}", range, plural(*most, "case"));
  if (std::ssize(needed) == all)
    return all == 1 ? fmt::format("The only specimen is caught{}.", after)
                    : fmt::format("All {} specimens are caught{}.", format_count(all), after);
  return fmt::format("{} of {} caught{}{}.", format_count(std::ssize(needed)), plural(all, "specimen"), after,
                     survivors.empty() ? "" : fmt::format("; {} survived", join_some(survivors)));
}

}  // namespace

std::optional<double> rms_over_allowed(const OutputNumerics& output) {
  if (!output.obeys_rms_law || !output.conformity) return std::nullopt;
  const double rms = output.conformity->rms;
  return rms == 0 ? 0 : rms / output.conformity->allowed;  // 0 is allowed if nothing is rounded
}

std::optional<double> rms_over_predicted(const Conformity& seen) {
  if (seen.rms == 0) return 0;
  return seen.predicted == 0 ? std::nullopt : std::optional(seen.rms / seen.predicted);
}

std::optional<double> Numbers::share_of_equal() const {
  if (compared == 0) return std::nullopt;
  return static_cast<double>(equal) / static_cast<double>(compared);
}

Numbers numbers_of(const OutputNumerics& output) {
  const Comparison& seen = output.comparison;
  return {.max_error_over_bound = seen.max_error_over_bound,
          .rms_over_allowed = rms_over_allowed(output),
          .rms_over_predicted = output.obeys_rms_law && output.conformity
                                    ? rms_over_predicted(*output.conformity)
                                    : std::nullopt,
          .equal = seen.equal.value_or(0),
          .compared = seen.equal ? seen.count : 0,
          .largest_error = seen.largest_error(),
          .rel_l2 = seen.rel_l2()};
}

std::optional<Numbers> numbers_of(const CaseRecord& item) {
  std::optional<Numbers> worst;
  for (const OutputNumerics& output : item.verdict.outputs) {
    if (output.comparison.count == 0) continue;
    take_worst(worst, numbers_of(output));
  }
  return worst;
}

std::vector<double> parts_of_bound(const std::vector<Share>& shares) {
  double all = 0;
  for (const Share& share : shares) all += share.bound;
  std::vector<double> parts;
  for (const Share& share : shares) parts.push_back(all > 0 && std::isfinite(all) ? share.bound / all : 0);
  return parts;
}

std::vector<PathSummary> summarize(const Record& record) {
  std::map<std::tuple<std::string, std::string, std::string, DType>, PathSummary> sorted;
  for (const CaseRecord& item : record.cases) {
    const auto key = std::tuple(item.which.op, item.which.path, item.device, item.which.dtype);
    PathSummary& path = sorted[key];
    std::tie(path.op, path.path, path.device, path.dtype) = key;
    path.cases.push_back(&item);
    ++path.tally[item.verdict.kind];
    if (const std::optional<Numbers> numbers = numbers_of(item)) {
      take_worst(path.worst, *numbers);
      if (item.which.data == Regime::kNormal) take_worst(path.on_normal_data, *numbers);
    }
    if (!item.perf) continue;
    if (item.perf->implausible) {
      ++path.implausible;
    } else if (item.perf->fraction_of_floor) {
      path.best_fraction = std::max(path.best_fraction.value_or(0), *item.perf->fraction_of_floor);
    }
    if (path.largest_timed == nullptr || item.perf->bytes > path.largest_timed->perf->bytes)
      path.largest_timed = &item;
  }
  std::vector<PathSummary> paths;
  for (auto& [key, path] : sorted) paths.push_back(std::move(path));
  return paths;
}

std::vector<const CaseRecord*> timed_cases(const Record& record) {
  std::vector<const CaseRecord*> found;
  for (const CaseRecord& item : record.cases) {
    if (item.perf || item.perf_warm) found.push_back(&item);
  }
  return found;
}

std::string ceilings_missing(const DeviceRecord& device) {
  return device.no_ceilings.empty() ? "not measured" : "not measured: " + device.no_ceilings;
}

std::vector<std::string> disturbed_times(const Record& record) {
  std::vector<std::string> lines;
  if (record.conditions) {
    for (const Disturbance& one : record.conditions->disturbances)
      lines.push_back("Times are disturbed: " + one.text);
  }
  std::string first;
  std::set<std::string> others;
  for (const Sentinel& sentinel : record.sentinels) {
    std::string change = change_around(record, sentinel, Limits{});
    if (change.empty()) continue;
    if (first.empty()) {
      first = std::move(change);
    } else {
      others.insert(sentinel.op + "/" + sentinel.path);
    }
  }
  if (!others.empty()) first += fmt::format("; it also changed around those of {}", join_some(others));
  if (!first.empty()) lines.push_back("Times are disturbed: " + first);
  return lines;
}

std::string describe(const Tally& tally) {
  std::string text;
  const auto add = [&](int64_t count, std::string_view verdict) {
    if (count != 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", format_count(count), verdict);
  };
  add(tally.pass, "pass");
  add(tally.fail, "fail");
  add(tally.mistrusted, "mistrusted");
  add(tally.crashed, "crashed");
  add(tally.timeout, "timeout");
  add(tally.uninformative, "uninformative");
  add(tally.unsupported, "unsupported");
  add(tally.skipped, "skipped");
  return text.empty() ? "no cases" : text;
}

std::optional<double> bytes_per_second(const Perf& perf) {
  if (!(perf.median_ns > 0) || perf.bytes == 0) return std::nullopt;
  return static_cast<double>(perf.bytes) / (perf.median_ns * 1e-9);
}

std::string render_rates(const Perf& perf, std::string_view between) {
  const std::optional<double> rate = bytes_per_second(perf);
  if (!rate) return "–";
  const double flops = static_cast<double>(perf.flops) / (perf.median_ns * 1e-9);
  return fmt::format("{}{}{}", format_rate(*rate), between, format_flops(flops));
}

std::string render_floor_parts(const Perf& perf) {
  std::string text;
  for (const FloorPart& part : perf.floor_parts) {
    text += fmt::format("{}{} {}", text.empty() ? "" : " + ", printable(part.name), format_time(part.ns));
    if (part.limit != FloorPart::Limit::kLaunch) text += fmt::format(" by {}", name_of(part.limit));
  }
  return text;
}

std::string render_drift(const Perf& perf) {
  const std::optional<Drift> drift = drift_of(perf.samples_ns);
  return drift ? fmt::format("the first {} calls took {}, the last half {}", drift->count,
                             format_time(drift->first), format_time(drift->last))
               : "";
}

std::string render_interruption(const Record& record) {
  if (record.complete) return "";
  if (record.cases.empty() && !record.planned && !record.running) return "not complete";
  const std::string of = record.planned ? fmt::format(" of {}", format_count(*record.planned)) : "";
  const int64_t known = record.planned.value_or(std::ssize(record.cases));
  const std::string in = record.running ? fmt::format(", in {}", printable(record.running->to_string())) : "";
  return fmt::format("interrupted after {}{} {}{}", format_count(std::ssize(record.cases)), of,
                     known == 1 ? "case" : "cases", in);
}

std::string render_headline(const Record& record) {
  std::string interrupted = render_interruption(record);
  if (!interrupted.empty()) {
    interrupted.front() = interrupted.front() == 'i' ? 'I' : 'N';
    interrupted += ". ";
  }
  if (!record.specimens.empty()) return interrupted + specimens_headline(record);
  const Tally counts = tally(record.cases);
  const int64_t judged = counts.pass + counts.failures();
  if (judged == 0) {
    if (counts.uninformative > 0) return interrupted + "On this data the comparison can tell nothing.";
    if (record.cases.empty()) return interrupted + "Nothing was judged.";
    return interrupted + most_frequent_reason(record.cases);
  }

  std::set<std::string> paths;
  std::set<std::string> wrong;
  double worst = 0;
  for (const PathSummary& summary : summarize(record)) {
    const std::string name =
        record.given ? fmt::format("outputs of {} in {}", printable(summary.op), printable(record.given->got))
                     : printable(summary.op + "/" + summary.path);
    if (summary.tally.pass + summary.tally.failures() > 0) paths.insert(name);
    if (summary.tally.failures() > 0) wrong.insert(name);
    if (summary.worst) worst = std::max(worst, summary.worst->max_error_over_bound);
  }
  const auto path_count = static_cast<int64_t>(paths.size());
  if (wrong.empty()) {
    const std::string passed = judged == 1 ? "The only judged case passes"
                                           : fmt::format("All {} judged cases on {} pass",
                                                         format_count(judged), plural(path_count, "path"));
    std::string in_vain;
    if (counts.uninformative == 1) in_vain = "; 1 more case was uninformative";
    if (counts.uninformative > 1)
      in_vain = fmt::format("; {} more cases were uninformative", format_count(counts.uninformative));
    return fmt::format("{}{}; the largest error is {} of its bound{}.", interrupted, passed,
                       format_ratio(worst), in_vain);
  }
  Tally failed = counts;
  failed.pass = failed.uninformative = failed.unsupported = failed.skipped = 0;
  const std::string cases = judged == 1 ? "The only judged case"
                                        : fmt::format("{} of {} judged cases",
                                                      format_count(counts.failures()), format_count(judged));
  const std::string of_paths =
      path_count == 1 ? "" : fmt::format("{} of {} paths: ", wrong.size(), path_count);
  return fmt::format("{}{} did not pass ({}), {} {}{}.", interrupted, cases, describe(failed),
                     record.given ? "with the" : "on", of_paths, join_some(wrong));
}

}  // namespace assay
