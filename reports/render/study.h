// SPDX-License-Identifier: Apache-2.0
// Renders a study: for a terminal, as Markdown, and as one HTML page that needs no network.
#pragma once

#include <string>
#include <vector>

#include "reports/record/study_json.h"

namespace assay {

// The table of contenders and the answer, in lines of at most `width` columns.
std::string render_study_text(const StudyRecord& record, int width);
std::string render_study_markdown(const StudyRecord& record);
std::string render_study_html(const StudyRecord& record);

// What all three show. Cells are plain text.
struct StudyTable {
  std::string title, note;
  std::vector<std::string> heads;
  std::vector<std::vector<std::string>> rows;
  size_t words = 1;  // so many first columns hold words, the others numbers
};
// What disturbed the times, a sentence each.
std::vector<std::string> disturbed_times(const StudyRecord& record);
// Contenders, each point, fits, onsets, sites. Empty tables are left out.
std::vector<StudyTable> tables_of(const study::Study& study);
// The dimensions that no axis varies: "n=1 c=128".
std::string fixed_dims(const study::Study& study);
// "0.001 normwise"
std::string described(const study::Target& target);

}  // namespace assay
