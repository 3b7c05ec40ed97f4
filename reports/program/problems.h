// SPDX-License-Identifier: Apache-2.0
// The problems that `bench` and `run` time.
#pragma once

#include <vector>

#include "bench/core/measure.h"
#include "reports/program/options.h"
#include "reports/program/selection.h"

namespace assay {

// Whether the options ask for this path and this problem of the table.
bool times(const Subject& subject, const Sweep& sweep, const Options& options);

// The points of --sweep, for each selected op, device and dtype that the table has, and for the
// dtype of --dtype. Dimensions without an axis are those of the first problem there, or of the
// op's first one if the table has none in this dtype. Throws Error (usage) for what is no size of
// the op.
std::vector<Sweep> swept(const std::vector<SelectedPath>& paths, const std::vector<Sweep>& sweeps,
                         const Options& options);

}  // namespace assay
