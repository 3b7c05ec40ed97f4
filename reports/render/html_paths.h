// SPDX-License-Identifier: Apache-2.0
// The sections of report.html on paths and on specimens.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reports/render/failures.h"
#include "reports/render/summary.h"

namespace assay {

std::string_view sign_of(VerdictKind kind);  // "✗"

// A line for each op, path and device, a column for each dtype. The counts of failures link to
// their blocks.
std::string matrix_section(const std::vector<PathSummary>& paths, const std::vector<FailureBlock>& blocks);

// `anchors` are those of the rows of all cases.
std::string failures_section(const Record& record, const std::vector<FailureBlock>& blocks,
                             const std::vector<std::string>& anchors);

std::string histograms(const std::vector<PathSummary>& paths);

// A row for each specimen: its fault, and how many cases it took to catch it.
std::string specimens_section(const Record& record, const std::vector<std::string>& anchors);

}  // namespace assay
