// SPDX-License-Identifier: Apache-2.0
// Charts of report.html for ops that were timed over many sizes.
#pragma once

#include <string>

#include "reports/record/record.h"

namespace assay {

// A chart for each path, dtype and device that has five cold times of different sizes or more: the
// time over its floor against the bytes of the op's inputs and outputs. Full dots are times of the
// stream, rings are those of a graph, grey dots are the other paths. The dotted lines stand at the
// floor and at 1.5 times it. Empty if there is no such path.
std::string size_charts(const Record& record);

}  // namespace assay
