// SPDX-License-Identifier: Apache-2.0
#include "reports/program/study_folder.h"

#include <algorithm>
#include <set>

#include "kernels/core/printable.h"
#include "kernels/core/read_file.h"
#include "reports/program/program.h"
#include "reports/program/shard.h"
#include "reports/program/terminal.h"
#include "reports/render/columns.h"
#include "reports/render/study.h"
#include "reports/render/text.h"
#include "reports/store/files.h"
#include "study/paired.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "study.json";

StudyRecord read_one(const fs::path& file) {
  return parse_study(read_file(file), file.string());
}

// What shards have in common.
std::string plan_of(const study::Study& study) {
  std::string plan = fmt::format("{} {} {} {}", study.op, study.seed, study.draws, study.shards);
  for (const study::Point& point : study.points) plan += "; " + text_of(study.axes, point);
  for (size_t i = 0; i < study.contenders.size(); ++i) plan += "; " + study.label(i) + " " + study.recipes[i];
  return plan;
}

StudyRecord merged(std::vector<StudyRecord> shards, const fs::path& folder,
                   std::vector<std::string>* missing = nullptr) {
  StudyRecord all = std::move(shards.front());
  std::set<int64_t> numbers{all.study.shard + 1};
  for (size_t i = 1; i < shards.size(); ++i) {
    study::Study& study = shards[i].study;
    if (plan_of(study) != plan_of(all.study) || !numbers.insert(study.shard + 1).second)
      throw usage_error("{} holds studies that are not the shards of one", excerpt(folder.string()));
    std::ranges::move(study.cells, std::back_inserter(all.study.cells));
    std::ranges::move(study.times, std::back_inserter(all.study.times));
    all.study.complete &= study.complete;
    all.origin.seconds += shards[i].origin.seconds;
  }
  const std::vector<std::string> absent = missing_shards(numbers, all.study.shards);
  all.study.complete &= absent.empty();
  if (missing != nullptr) *missing = absent;
  all.study.shard = 0;
  all.study.shards = 1;
  return all;
}

// The files of the studies in a folder, or in the folders that it holds.
std::vector<fs::path> study_files(const fs::path& path) {
  std::error_code error;
  if (fs::exists(path / kFile, error)) return {path / kFile};
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
    if (fs::exists(entry.path() / kFile, error)) files.push_back(entry.path() / kFile);
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace

bool has_studies(const std::vector<std::string>& paths) {
  return std::ranges::any_of(paths, [](const std::string& path) { return !study_files(path).empty(); });
}

StudyRecord merged_studies(const std::vector<std::string>& paths, std::vector<std::string>& missing) {
  std::vector<StudyRecord> shards;
  for (const std::string& path : paths) {
    const std::vector<fs::path> files = study_files(path);
    if (files.empty()) throw usage_error("{} holds no {}", excerpt(path), kFile);
    for (const fs::path& file : files) shards.push_back(read_one(file));
  }
  return merged(std::move(shards), paths.front(), &missing);
}

std::optional<StudyRecord> read_study(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error))
    return path.filename() == kFile ? std::optional(read_one(path)) : std::nullopt;
  if (fs::exists(path / kFile, error)) return read_one(path / kFile);
  const std::vector<fs::path> files = study_files(path);
  if (files.empty()) return std::nullopt;
  std::vector<StudyRecord> shards;
  for (const fs::path& file : files) shards.push_back(read_one(file));
  return merged(std::move(shards), path);
}

void write_study(const StudyRecord& record, const fs::path& folder) {
  write_files_atomically(std::vector<NamedContent>{{folder / kFile, study_text(record)},
                                                   {folder / "study.md", render_study_markdown(record)},
                                                   {folder / "study.html", render_study_html(record)}});
}

int report_study(const StudyRecord& record, const Options& options) {
  const fs::path subject = options.subject;
  const fs::path out = !options.out.empty()          ? fs::path(options.out)
                       : subject.filename() == kFile ? subject.parent_path()
                                                     : subject;
  make_output_directory(out.empty() ? "." : out);
  write_study(record, out.empty() ? "." : out);
  fmt::print("{}\n", (out / "study.html").string());
  return kExitPassed;
}

int compare_studies(const StudyRecord& before, const StudyRecord& after, const Options& options) {
  const std::vector<study::Paired> all = study::compare(before.study, after.study);
  if (options.json) {
    Json json = Json::array();
    for (const study::Paired& one : all) {
      json.push_back({{"contender", one.contender},
                      {"reading", one.reading},
                      {"better", one.better},
                      {"worse", one.worse},
                      {"equal", one.equal},
                      {"ratio", one.ratio},
                      {"probability", one.probability}});
    }
    fmt::print("{}\n", json.dump(2));
  } else {
    std::vector<Column> columns{{"contender", false, 9, {}, {}}, {"errors are", false, 8, {}, {}},
                                {"better", true, 5, {}, {}},     {"worse", true, 6, {}, {}},
                                {"equal", true, 4, {}, {}},      {"after/before", true, 7, {}, {}},
                                {"sign test", true, 3, {}, {}}};
    for (const study::Paired& one : all) {
      const std::string cells[] = {printable(one.contender),      one.reading,
                                   format_count(one.better),      format_count(one.worse),
                                   format_count(one.equal),       format_number(one.ratio),
                                   format_number(one.probability)};
      for (size_t i = 0; i < columns.size(); ++i) columns[i].cells.push_back(cells[i]);
    }
    fmt::print("{}", align_columns(std::move(columns), false, text_width()));
  }
  const bool is_worse = std::ranges::any_of(all, [](const auto& one) { return one.reading == "worse"; });
  return is_worse && options.command == Command::kGate ? kExitNumericalFailure : kExitPassed;
}

}  // namespace assay
