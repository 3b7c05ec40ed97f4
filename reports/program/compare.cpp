// SPDX-License-Identifier: Apache-2.0
// compare and gate.
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

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

namespace assay {
namespace {

namespace fs = std::filesystem;

// The records of a side: a file, that of the folder of a run, or those of all folders in it.
std::vector<Record> read_side(const fs::path& side) {
  std::vector<fs::path> files;
  std::error_code error;
  if (!fs::is_directory(side, error)) {
    files.push_back(side);
  } else if (is_run_folder(side)) {
    require_no_run(side);
    files.push_back(record_file(side));
  } else {
    for (const fs::directory_entry& entry : fs::directory_iterator(side, error)) {
      if (!entry.is_directory(error)) continue;
      // A missing run.json is an error, not one run less.
      require_no_run(entry.path());
      files.push_back(record_file(entry.path()));
    }
    if (error || files.empty())
      throw usage_error("{} holds no run.json, and no folders of runs", excerpt(side.string()));
    std::ranges::sort(files);
  }
  std::vector<Record> runs;
  for (const fs::path& file : files) runs.push_back(read_record(file));
  return runs;
}

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

int exit_code(const Changes& changes, const Options& options) {
  const bool is_empty = changes.times.empty() && changes.shared == 0;
  if (options.command == Command::kCompare) return is_empty ? kExitNothingSelected : kExitPassed;
  if (new_failures(changes) > 0 || count(changes.errors, Change::kWorse) > 0) return kExitNumericalFailure;
  if (count(changes.times, Change::kWorse) > 0) return kExitGateFailed;
  if (is_empty || !changes.gone.empty()) return kExitNothingSelected;
  if (options.certain && count(changes.times, Change::kUnclear) > 0) return kExitInconclusive;
  return kExitPassed;
}

}  // namespace

int run_compare(const Options& options) {
  if (const auto study = read_study(options.subject)) {
    const auto other = read_study(options.after);
    if (!other)
      throw usage_error("{} holds a study, but {} none", excerpt(options.subject), excerpt(options.after));
    return compare_studies(*study, *other, options);
  }
  std::vector<Record> before = read_side(options.subject), after = read_side(options.after);
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
  fmt::print(stderr, "{}", trees_that_changed(options.subject, options.after));
  const Changes changes = changes_between(before, after, options.limits);
  fmt::print("{}", options.json ? changes_json(changes)
                                : render_changes(changes, options.all, wants_colour(), text_width()));
  return exit_code(changes, options);
}

}  // namespace assay
