// SPDX-License-Identifier: Apache-2.0
// Functions that changes.cpp, changed_times.cpp and changed_cases.cpp share.
#pragma once

#include <span>
#include <string>

#include "reports/gate/changes.h"

namespace assay {

using Records = std::span<const Record>;

std::string path_text(const CaseRecord& item);  // "dynamic_conv/cpu f32 on cpu"
std::string reason_not_run(Records runs, const CaseRecord& item);

void compare_times(Records before, Records after, const Limits& limits, Changes& changes);
void compare_cases(Records before, Records after, const Limits& limits, Changes& changes);

}  // namespace assay
