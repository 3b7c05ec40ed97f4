// SPDX-License-Identifier: Apache-2.0
// The folder of a run. It holds journal.jsonl while the run is not finished, run.json and the
// reports when it is.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "reports/record/journal.h"
#include "reports/store/locked_file.h"

namespace assay {

bool is_run_folder(const std::filesystem::path& path);

// The file that tells what a run found: the journal of an unfinished run, or run.json. A path that
// is no folder is that file.
std::filesystem::path record_file(const std::filesystem::path& path);
// The journal in a folder. Throws Error (usage) if no run is unfinished there.
Journal unfinished_run(const std::filesystem::path& folder);
// The record in such a file.
Record read_record(const std::filesystem::path& file);

// The records of a file, of the folder of a run, or of all folders in a folder, in the order of
// their names. Throws Error (usage) if one of them is missing.
std::vector<Record> read_runs(const std::filesystem::path& path);

// Throws Error (usage) that names the process if a run goes on in a folder.
void require_no_run(const std::filesystem::path& folder);
// The same, and the journal of the run that now begins there.
LockedFile open_journal(const std::filesystem::path& folder);

// Removes the reports of an earlier run, so that nobody takes them for those of this one.
void remove_reports(const std::filesystem::path& folder);

inline constexpr const char* kCapsules = "capsules";  // their folder
// Removes the capsules of an earlier run: those that no case of the record names.
void remove_capsules(const std::filesystem::path& folder, const Record& record);

// Writes report.html, report.md, junit.xml, benchmark.json and, unless it is empty, run.json: all
// of them or none.
void write_reports(const Record& record, const std::string& run_json, const std::filesystem::path& folder);

}  // namespace assay
