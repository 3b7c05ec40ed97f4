// SPDX-License-Identifier: Apache-2.0
// The changes between two versions' records, for people and for machines.
#pragma once

#include <string>

#include "reports/gate/changes.h"

namespace assay {

// All changes in one sentence.
std::string render_headline(const Changes& changes);
// Text for a terminal: what got worse, better or is gone, and what is unclear with a ratio beyond
// the limit. `all` adds the rest.
std::string render_changes(const Changes& changes, bool all, bool colour = false, int width = 120);
// The same as Markdown, for a comment on a pull request: at most kMarkdownLimit bytes.
std::string render_changes_markdown(const Changes& changes);
// Commands to GitHub that mark a run: an error for each thing that fails the gate, a warning for
// what is unclear. At most ten of each, since GitHub shows no more.
std::string github_annotations(const Changes& changes, bool fails);

// JSON of the schema assay.changes/1.
std::string changes_json(const Changes& changes);

}  // namespace assay
