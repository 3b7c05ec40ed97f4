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
// JSON of the schema assay.changes/1.
std::string changes_json(const Changes& changes);

}  // namespace assay
