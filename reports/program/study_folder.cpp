// SPDX-License-Identifier: Apache-2.0
#include "reports/program/study_folder.h"

#include <algorithm>
#include <set>

#include "kernels/core/printable.h"
#include "kernels/core/read_file.h"
#include "reports/program/program.h"
#include "reports/program/shard.h"
#include "reports/program/terminal.h"
#include "reports/record/journal.h"
#include "reports/record/study_journal.h"
#include "reports/render/columns.h"
#include "reports/render/study.h"
#include "reports/render/text.h"
#include "reports/store/files.h"
#include "study/paired.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "study.json";
constexpr const char* kJournal = "study.jsonl";

Error in_use(const fs::path& folder) {
  return usage_error("{}: another process writes a study there", excerpt(folder.string()));
}

// The study's file in a folder; empty if there is none.
fs::path file_in(const fs::path& folder) {
  std::error_code error;
  const auto size = fs::file_size(folder / kJournal, error);
  if (!error && size > 0) return folder / kJournal;
  return fs::exists(folder / kFile, error) ? folder / kFile : fs::path();
}

template <class Value>
void require_same(const std::string& what, std::string_view names, const Value& a, const Value& b) {
  const auto text_of = [](const Value& value) {
    const std::string text = fmt::format("{}", value);
    return text.empty() ? "none" : excerpt(text);
  };
  if (a != b) throw usage_error("{}: their {} are {} and {}", what, names, text_of(a), text_of(b));
}

std::string target_text(const study::Target& target) {
  return fmt::format("normwise={}{}", target.normwise,
                     target.worst ? fmt::format(" worst={}", *target.worst) : std::string());
}

std::string axes_text(const study::Study& study) {
  std::string text;
  for (const study::Axis& axis : study.axes) {
    text += fmt::format("{}{}=", text.empty() ? "" : " ", axis.name);
    for (size_t i = 0; i < axis.values.size(); ++i) text += (i == 0 ? "" : ",") + axis.values[i].text;
  }
  return text;
}

// Refuses two studies whose cells are not of the same draws on the same devices.
void require_alike(const StudyRecord& a, const StudyRecord& b, const std::string& what) {
  const auto same = [&](std::string_view names, const auto& x, const auto& y) {
    require_same(what, names, x, y);
  };
  same("ops", a.study.op, b.study.op);
  same("seeds", a.study.seed, b.study.seed);
  same("numbers of draws", a.study.draws, b.study.draws);
  same("lists of dimensions", format_dims(a.study.dims), format_dims(b.study.dims));
  same("lists of sweeps", axes_text(a.study), axes_text(b.study));
  same("targets", target_text(a.study.target), target_text(b.study.target));
  same("hashes of inputs", a.study.inputs, b.study.inputs);
  for (const DeviceRecord& device : a.origin.machine.devices) {
    for (const DeviceRecord& other : b.origin.machine.devices) {
      if (device.info.name() == other.info.name())
        same(device.info.name() + " models", device.info.model, other.info.model);
    }
  }
}

// Nothing that a user asks for is left out silently.
void refuse_options_of_runs(const Options& options) {
  for (const std::string_view name :
       {"FILTER", "--slower", "--more-wrong", "--noise", "--markdown", "--all", "--allow-traded"}) {
    if (std::ranges::count(options.given, name) > 0)
      throw usage_error("{} is for records of runs: {} of two studies takes none", name,
                        options.command == Command::kGate ? "gate" : "compare");
  }
}

StudyRecord read_one(const fs::path& file) {
  const std::string text = read_file(file);
  if (file.extension() != ".jsonl") return parse_study(text, file.string());
  if (LockedFile::is_held(file)) throw in_use(file.parent_path());
  return read_study_journal(text, file.string());
}

std::string listed(const study::Study& study) {
  std::string text;
  for (size_t i = 0; i < study.contenders.size(); ++i)
    text += fmt::format("{}{}: {}", i == 0 ? "" : "; ", study.label(i), study.recipes[i]);
  return text;
}

StudyRecord merged(std::vector<StudyRecord> shards, const fs::path& folder,
                   std::vector<std::string>* missing = nullptr) {
  StudyRecord all = std::move(shards.front());
  std::set<int64_t> numbers{all.study.shard + 1};
  const std::string what = excerpt(folder.string()) + " holds studies that are not the shards of one";
  for (size_t i = 1; i < shards.size(); ++i) {
    study::Study& study = shards[i].study;
    require_alike(all, shards[i], what);
    require_same(what, "numbers of shards", all.study.shards, study.shards);
    require_same(what, "lists of contenders", listed(all.study), listed(study));
    if (!numbers.insert(study.shard + 1).second)
      throw usage_error("{}: shard {} is there twice", what, study.shard + 1);
    std::ranges::move(study.cells, std::back_inserter(all.study.cells));
    std::ranges::move(study.times, std::back_inserter(all.study.times));
    std::ranges::move(study.sites, std::back_inserter(all.study.sites));
    std::ranges::move(study.distances, std::back_inserter(all.study.distances));
    if (shards[i].origin.conditions) add_conditions(all.origin.conditions, *shards[i].origin.conditions);
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
  if (const fs::path own = file_in(path); !own.empty()) return {own};
  std::error_code error;
  std::vector<fs::path> files;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error)) {
    if (const fs::path file = file_in(entry->path()); !file.empty()) files.push_back(file);
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
  if (!fs::is_directory(path, error)) {
    const bool is_study = path.filename() == kFile || path.filename() == kJournal;
    return is_study ? std::optional(read_one(path)) : std::nullopt;
  }
  if (const fs::path own = file_in(path); !own.empty()) return read_one(own);
  const std::vector<fs::path> files = study_files(path);
  if (files.empty()) return std::nullopt;
  std::vector<StudyRecord> shards;
  for (const fs::path& file : files) shards.push_back(read_one(file));
  return merged(std::move(shards), path);
}

LockedFile open_study_journal(const fs::path& folder) {
  auto file = LockedFile::open(folder / kJournal);
  if (!file) throw in_use(folder);
  file->cut(0);
  return *std::move(file);
}

void write_study(const StudyRecord& record, const fs::path& folder) {
  write_files_atomically(std::vector<NamedContent>{{folder / kFile, study_text(record)},
                                                   {folder / "study.md", render_study_markdown(record)},
                                                   {folder / "study.html", render_study_html(record)}});
}

int report_study(const StudyRecord& record, const Options& options) {
  const fs::path subject = options.subject;
  const fs::path out = !options.out.empty()        ? fs::path(options.out)
                       : fs::is_directory(subject) ? subject
                                                   : subject.parent_path();
  make_output_directory(out.empty() ? "." : out);
  write_study(record, out.empty() ? "." : out);
  fmt::print("{}\n", (out / "study.html").string());
  return kExitPassed;
}

int compare_studies(const StudyRecord& before, const StudyRecord& after, const Options& options) {
  refuse_options_of_runs(options);
  require_alike(before, after, "the studies cannot be compared");
  const std::vector<study::Paired> all = study::compare(before.study, after.study);
  if (options.json) {
    Json json = Json::array();
    for (const study::Paired& one : all) {
      json.push_back({{"contender", one.contender},
                      {"output", one.output},
                      {"reading", one.reading},
                      {"better", one.better},
                      {"worse", one.worse},
                      {"equal", one.equal},
                      {"ratio", one.ratio},
                      {"probability", one.probability}});
    }
    fmt::print("{}\n", json.dump(2));
  } else {
    std::vector<Column> columns{{"contender", false, 9, {}, {}},   {"output", false, 9, {}, {}},
                                {"errors are", false, 8, {}, {}},  {"better", true, 5, {}, {}},
                                {"worse", true, 6, {}, {}},        {"equal", true, 4, {}, {}},
                                {"after/before", true, 7, {}, {}}, {"sign test", true, 3, {}, {}}};
    for (const study::Paired& one : all) {
      const std::string cells[] = {
          printable(one.contender), printable(one.output),         one.reading,
          format_count(one.better), format_count(one.worse),       format_count(one.equal),
          format_number(one.ratio), format_number(one.probability)};
      for (size_t i = 0; i < columns.size(); ++i) columns[i].cells.push_back(cells[i]);
    }
    fmt::print("{}", align_columns(std::move(columns), false, text_width()));
  }
  if (options.command == Command::kCompare) return kExitPassed;
  const auto has = [&](std::string_view reading) {
    return std::ranges::count(all, reading, &study::Paired::reading) > 0;
  };
  if (has("worse")) return kExitNumericalFailure;
  if (has("gone")) return kExitNothingSelected;
  return has("unclear") && (options.certain || options.bisect) ? kExitInconclusive : kExitPassed;
}

}  // namespace assay
