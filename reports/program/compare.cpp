// SPDX-License-Identifier: Apache-2.0
// compare, gate and calibrate.
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "kernels/core/printable.h"
#include "kernels/core/read_file.h"
#include "reports/program/commands.h"
#include "reports/program/program.h"
#include "reports/program/run_folder.h"
#include "reports/program/selection.h"
#include "reports/program/study_folder.h"
#include "reports/program/terminal.h"
#include "reports/record/probe_record.h"
#include "reports/render/changes.h"
#include "reports/render/text.h"
#include "reports/store/files.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

// Of the records of probe beside both runs, if they are there.
std::string trees_that_changed(const fs::path& before, const fs::path& after) {
  const auto beside = [](const fs::path& side) {
    std::error_code error;
    return (fs::is_directory(side, error) ? side : side.parent_path()) / "probe.json";
  };
  const fs::path first = beside(before), second = beside(after);
  std::error_code error;
  if (!fs::exists(first, error) || !fs::exists(second, error)) return "";
  return tree_changes(parse_probe(read_file(first), first.string()),
                      parse_probe(read_file(second), second.string()));
}

// The filters that match no case of the runs.
std::vector<std::string> unmatched(const std::vector<std::string>& filters, std::span<const Record> runs) {
  std::vector<std::string> found;
  for (const std::string& filter : filters) {
    const auto has_match = [&](const Record& run) {
      return std::ranges::any_of(run.cases, [&](const CaseRecord& item) {
        return matches({filter}, item.which.op, item.which.path);
      });
    };
    if (std::ranges::none_of(runs, has_match)) found.push_back(filter);
  }
  return found;
}

// A trade fails as the half of it that got worse.
int exit_code(const Changes& changes, const Options& options) {
  const bool is_empty = changes.times.empty() && changes.shared == 0;
  if (options.command == Command::kCompare) return is_empty ? kExitNothingSelected : kExitPassed;
  const auto [faster, slower] = trades(changes);
  const bool is_more_wrong = faster > 0 && !options.allow_traded,
             is_slower = slower > 0 && !options.allow_traded;
  if (new_failures(changes) > 0 || count(changes.errors, Change::kWorse) > 0 || is_more_wrong)
    return kExitNumericalFailure;
  if (count(changes.times, Change::kWorse) > 0 || is_slower) return kExitGateFailed;
  if (is_empty || !changes.gone.empty()) return kExitNothingSelected;
  const bool has_to_be_certain = options.certain || options.bisect;
  if (has_to_be_certain && count(changes.times, Change::kUnclear) > 0) return kExitInconclusive;
  return kExitPassed;
}

// What stands on a pull request's page, where GitHub runs the program.
void tell_github(const Changes& changes, const std::string& markdown, int code) {
  const auto is_set = [](const char* name) {
    return std::getenv(name) != nullptr && *std::getenv(name) != '\0';
  };
  if (!is_set("GITHUB_ACTIONS")) return;
  fmt::print(stderr, "{}", github_annotations(changes, code != kExitPassed));
  if (!is_set("GITHUB_STEP_SUMMARY")) return;
  const char* const file = std::getenv("GITHUB_STEP_SUMMARY");
  std::ofstream summary(file, std::ios::app);
  summary << markdown << std::flush;
  if (!summary) throw usage_error("GITHUB_STEP_SUMMARY: cannot write to {}", excerpt(file));
}

}  // namespace

int run_compare(const Options& options) {
  const auto study = read_study(options.subject), other = read_study(options.after);
  if (study.has_value() != other.has_value()) {
    const auto& [of_study, of_runs] =
        study ? std::pair(options.subject, options.after) : std::pair(options.after, options.subject);
    throw usage_error("{} holds a study, but {} none", excerpt(of_study), excerpt(of_runs));
  }
  if (study) return compare_studies(*study, *other, options);
  std::vector<Record> before = read_runs(options.subject), after = read_runs(options.after);
  if (const auto missing = unmatched(options.filters, before); !missing.empty()) {
    fmt::print(stderr, "assay: nothing in {} matches {}\n", excerpt(options.subject),
               excerpt(fmt::format("{}", fmt::join(missing, " "))));
    return kExitNothingSelected;
  }
  for (std::vector<Record>* side : {&before, &after}) {
    for (Record& run : *side) {
      std::erase_if(run.cases, [&](const CaseRecord& item) {
        return !matches(options.filters, item.which.op, item.which.path);
      });
    }
  }
  Limits limits = options.limits;
  if (!options.noise.empty()) {
    limits.noise = read_noise(read_file(options.noise), options.noise);
    require_calibrated(limits.noise, before);
    require_calibrated(limits.noise, after);
  }
  fmt::print(stderr, "{}", trees_that_changed(options.subject, options.after));
  const Changes changes = changes_between(before, after, limits);
  const int code = exit_code(changes, options);
  const std::string markdown = render_changes_markdown(changes);
  if (options.command != Command::kCompare) tell_github(changes, markdown, code);
  fmt::print("{}", options.json       ? changes_json(changes)
                   : options.markdown ? markdown
                                      : render_changes(changes, options.all, wants_colour(), text_width()));
  return code;
}

int run_calibrate(const Options& options) {
  std::vector<Record> runs;
  for (const std::string& record : options.records)
    std::ranges::move(read_runs(record), std::back_inserter(runs));
  const Noise noise = noise_of(runs);
  const auto is_loaded = [](const Record& run) {
    return run.conditions && std::ranges::count(run.conditions->disturbances, "load", &Disturbance::kind) > 0;
  };
  if (const auto loaded = std::ranges::count_if(runs, is_loaded); loaded > 0) {
    fmt::print(stderr, "assay: {} of {} runs were taken beside other work: their scatter hides changes\n",
               loaded, runs.size());
  }
  write_file_atomically(options.out, noise_text(noise));
  const auto most = std::ranges::max_element(noise.times, {}, [](const auto& one) { return one.second; });
  fmt::print("{} of {} scatter; most of all, by {}: {}\n", plural(std::ssize(noise.times), "time"),
             plural(noise.runs, "run"), format_percent(most->second), printable(most->first));
  return kExitPassed;
}

}  // namespace assay
