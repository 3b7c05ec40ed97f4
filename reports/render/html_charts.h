// SPDX-License-Identifier: Apache-2.0
// The charts of report.html: inline SVG with colours from the stylesheet.
#pragma once

#include <string>
#include <vector>

#include "reports/record/record.h"

namespace assay {

// The distribution of the samples over time: the share of calls that took at most a time (ECDF), a
// mark per sample below it, and the floor. Cold is solid, warm is dashed. Empty if nothing was
// timed.
std::string sample_chart(const CaseRecord& item);

// A histogram of the cases by error over bound: exact results, twenty bins of (0, 1], and the rest.
std::string ratio_histogram(const std::vector<double>& error_over_bound);

}  // namespace assay
