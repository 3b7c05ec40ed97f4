// SPDX-License-Identifier: Apache-2.0
// Times and errors of runs, for tools that watch them over commits. A time is named by its case
// line and the cache, an error by its path: "dynamic_conv/cpu/f32/error_over_bound on cpu".
#pragma once

#include <span>
#include <string>

#include "reports/record/record.h"

namespace assay {

// JSON for Apache Otava's JsonImporter: of each run a time stamp, medians [ns] and the largest
// error by its bound [1], and the commit. A metric is there if all runs have it, because Otava has
// no gaps. Throws Error (usage) if no metric is left.
std::string render_otava(std::span<const Record> runs, const std::string& branch);

// JSON for github-action-benchmark, customSmallerIsBetter: the same values of one run. The range of
// a time is its 95 % interval.
std::string render_smaller_is_better(const Record& run);

}  // namespace assay
