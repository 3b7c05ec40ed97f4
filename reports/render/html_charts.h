// SPDX-License-Identifier: Apache-2.0
// The charts of report.html, as inline SVG that takes its colours from the stylesheet.
#pragma once

#include <string>
#include <vector>

#include "reports/record/record.h"

namespace assay {

// The distribution of the samples over time: the share of calls that were as fast (ECDF), a mark per sample
// below it, and the floor. Cold solid, warm dashed. Empty if nothing was timed.
std::string sample_chart(const CaseRecord& item);

// How many cases came how close to their bound: exact results, twenty bins of (0, 1], and what is beyond.
std::string ratio_histogram(const std::vector<double>& error_over_bound);

}  // namespace assay
