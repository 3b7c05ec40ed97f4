// SPDX-License-Identifier: Apache-2.0
// merge: the parts that --shard cut a run into become one record.
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "kernels/core/printable.h"
#include "kernels/core/read_file.h"
#include "reports/program/commands.h"
#include "reports/program/merged.h"
#include "reports/program/program.h"
#include "reports/program/run_folder.h"
#include "reports/program/session.h"
#include "reports/program/study_folder.h"
#include "reports/program/terminal.h"
#include "reports/render/render.h"
#include "reports/render/text.h"
#include "reports/store/files.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

// The folders of runs among the paths: each itself, or all that it holds.
std::vector<fs::path> run_folders(const std::vector<std::string>& paths) {
  std::vector<fs::path> folders;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) throw usage_error("{} is no folder of a run", excerpt(path));
    if (is_run_folder(path)) {
      folders.emplace_back(path);
      continue;
    }
    std::vector<fs::path> inside;
    for (const fs::directory_entry& entry : fs::directory_iterator(path, error))
      if (is_run_folder(entry.path())) inside.push_back(entry.path());
    if (inside.empty()) throw usage_error("{} holds no run.json, and no folders of runs", excerpt(path));
    std::ranges::sort(inside);
    std::ranges::move(inside, std::back_inserter(folders));
  }
  return folders;
}

// Names the capsules as one run would have named them, and returns their files, old and new.
std::vector<std::pair<fs::path, std::string>> renumber_capsules(Record& merged) {
  std::vector<std::pair<fs::path, std::string>> files;
  for (size_t i = 0; i < merged.cases.size(); ++i) {
    std::string& capsule = merged.cases[i].capsule;
    if (capsule.empty()) continue;
    const fs::path old = capsule;
    const std::string name = old.filename().string();
    capsule = fmt::format("{}/{:03}{}", kCapsules, i + 1, name.substr(std::min(name.find('-'), name.size())));
    files.emplace_back(old, capsule);
  }
  return files;
}

int report_missing(const std::vector<std::string>& shards) {
  fmt::print(stderr, "assay: missing: {} {}\n", shards.size() == 1 ? "shard" : "shards",
             fmt::join(shards, ", "));
  return kExitNothingSelected;
}

int merge_studies(const Options& options) {
  std::vector<std::string> missing;
  const StudyRecord study = merged_studies(options.records, missing);
  if (!missing.empty()) return report_missing(missing);
  make_output_directory(options.out);
  write_study(study, options.out);
  fmt::print("{}\n", (fs::path(options.out) / "study.html").string());
  return study.study.complete ? kExitPassed : kExitInterrupted;
}

int merge_runs(const std::vector<fs::path>& folders, const Options& options) {
  std::vector<Record> shards;
  for (const fs::path& folder : folders) {
    require_no_run(folder);
    shards.push_back(read_record(record_file(folder)));
    for (CaseRecord& item : shards.back().cases) {
      if (!item.capsule.empty()) item.capsule = (folder / item.capsule).string();
    }
  }
  const fs::path out = options.out;
  if (is_run_folder(out)) throw usage_error("{} holds a run already", excerpt(out.string()));
  Merged merged = merge_shards(std::move(shards));
  if (!merged.missing.empty()) return report_missing(merged.missing);
  make_output_directory(out / kCapsules);
  const auto capsules = renumber_capsules(merged.record);
  for (const auto& [from, to] : capsules) write_file_atomically(out / to, read_file(from.string()));
  std::error_code error;
  if (capsules.empty()) fs::remove(out / kCapsules, error);
  write_reports(merged.record, record_text(merged.record), out);
  fmt::print("{}\n", wrapped(render_headline(merged.record), text_width()));
  return exit_code_of(merged.record);
}

}  // namespace

int run_merge(const Options& options) {
  if (has_studies(options.records)) return merge_studies(options);
  return merge_runs(run_folders(options.records), options);
}

}  // namespace assay
