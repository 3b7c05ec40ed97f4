// SPDX-License-Identifier: Apache-2.0
#include "reports/program/run_folder.h"

#include <algorithm>
#include <set>

#include "kernels/core/read_file.h"
#include "properties/core/host_memory.h"
#include "reports/program/capsule.h"
#include "reports/render/render.h"
#include "reports/store/files.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

constexpr const char* kJournal = "journal.jsonl";
constexpr const char* kRecord = "run.json";

// The head of a journal follows its creation at once. Before that it says nothing.
bool has_journal(const fs::path& folder) {
  std::error_code error;
  const auto size = fs::file_size(folder / kJournal, error);
  return !error && size > 0;
}

// [bytes] Of a run's own files. A journal is parsed line by line, and a record as one document.
int64_t most_bytes(const fs::path& file) {
  const double part = file.extension() == ".jsonl" ? 4 : 16;
  return std::max(kMostText, static_cast<int64_t>(std::min(available_host_memory() / part, 0x1p62)));
}

Error in_use(const fs::path& folder) {
  const Writer writer = unfinished_run(folder).writer;
  return usage_error("{}: process {} has been writing a run there since {}", excerpt(folder.string()),
                     writer.pid, excerpt(writer.started));
}

}  // namespace

bool is_run_folder(const fs::path& path) {
  std::error_code error;
  return has_journal(path) || fs::exists(path / kRecord, error);
}

fs::path record_file(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return path;
  return path / (has_journal(path) ? kJournal : kRecord);
}

Journal unfinished_run(const fs::path& folder) {
  const fs::path file = folder / kJournal;
  if (!has_journal(folder))
    throw usage_error("{} holds no unfinished run: no {}", excerpt(folder.string()), kJournal);
  return read_journal(read_file(file, most_bytes(file)), file.string());
}

Record read_record(const fs::path& file) {
  const std::string text = read_file(file, most_bytes(file));
  return file.extension() == ".jsonl" ? read_journal(text, file.string()).record
                                      : parse_record(text, file.string());
}

std::vector<Record> read_runs(const fs::path& path) {
  std::vector<fs::path> files;
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    files.push_back(path);
  } else if (is_run_folder(path)) {
    require_no_run(path);
    files.push_back(record_file(path));
  } else {
    for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
      if (!entry.is_directory(error)) continue;
      // A missing run.json is an error, not one run less.
      require_no_run(entry.path());
      files.push_back(record_file(entry.path()));
    }
    if (error || files.empty())
      throw usage_error("{} holds no run.json, and no folders of runs", excerpt(path.string()));
    std::ranges::sort(files);
  }
  std::vector<Record> runs;
  for (const fs::path& file : files) {
    runs.push_back(read_record(file));
    if (runs.back().given)
      throw usage_error("{}: it judges the outputs in {}, and says nothing of a path", excerpt(file.string()),
                        excerpt(runs.back().given->got));
  }
  return runs;
}

void require_no_run(const fs::path& folder) {
  if (LockedFile::is_held(folder / kJournal)) throw in_use(folder);
}

LockedFile open_journal(const fs::path& folder) {
  if (auto file = LockedFile::open(folder / kJournal)) return *std::move(file);
  throw in_use(folder);
}

void remove_reports(const fs::path& folder) {
  for (const char* name : {kRecord, "report.html", "report.md", "junit.xml", "benchmark.json"}) {
    std::error_code error;
    if (fs::is_regular_file(fs::symlink_status(folder / name, error))) fs::remove(folder / name, error);
  }
}

void remove_capsules(const fs::path& folder, const Record& record) {
  std::set<std::string> kept;
  for (const CaseRecord& item : record.cases) kept.insert(fs::path(item.capsule).filename().string());
  std::error_code error;
  std::vector<fs::path> stale;
  for (fs::directory_iterator entry(folder / kCapsules, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (entry->symlink_status(error).type() == fs::file_type::regular && is_capsule_name(name) &&
        !kept.contains(name))
      stale.push_back(entry->path());
  }
  for (const fs::path& file : stale) fs::remove(file, error);
  if (!stale.empty()) fs::remove(folder / kCapsules, error);  // unless something is in it
}

void write_reports(const Record& record, const std::string& run_json, const fs::path& folder) {
  std::vector<NamedContent> files{{folder / "report.html", render_html(record)},
                                  {folder / "report.md", render_markdown(record)},
                                  {folder / "junit.xml", render_junit(record)},
                                  {folder / "benchmark.json", render_benchmark_json(record)}};
  if (!run_json.empty()) files.push_back({folder / kRecord, run_json});
  write_files_atomically(files);
}

}  // namespace assay
