// SPDX-License-Identifier: Apache-2.0
// Studies on disk: study.json and what is rendered from it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "reports/program/options.h"
#include "reports/record/study_json.h"
#include "reports/store/locked_file.h"

namespace assay {

// The study of a file study.json, of its folder, or of a folder of such folders: shards of one
// study. A folder whose study was killed has a journal, study.jsonl, in its place. Nothing if there
// is none. Throws Error (usage) if a file is damaged, if a study goes on there, or if the shards
// are not of one study.
std::optional<StudyRecord> read_study(const std::filesystem::path& path);

// Opens the journal of a study in a folder, and empties it. Throws Error (usage) if another process
// writes one there.
LockedFile open_study_journal(const std::filesystem::path& folder);

// Whether a path is the folder of a study, or a folder of such folders.
bool has_studies(const std::vector<std::string>& paths);
// The study that these shards make, and those that are missing: "2/4". Throws Error (usage) like
// read_study().
StudyRecord merged_studies(const std::vector<std::string>& paths, std::vector<std::string>& missing);

// Writes study.json, study.md and study.html, all or none.
void write_study(const StudyRecord& record, const std::filesystem::path& folder);

// `report` and `compare` of studies. They return an exit code.
int report_study(const StudyRecord& record, const Options& options);
int compare_studies(const StudyRecord& before, const StudyRecord& after, const Options& options);

}  // namespace assay
