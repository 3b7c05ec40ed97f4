// SPDX-License-Identifier: Apache-2.0
// What the texts of changes share.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "reports/gate/changes.h"

namespace assay {

std::string_view word_for(const TimeChange& time);    // "slower"
std::string_view word_for(const ErrorChange& error);  // "larger"
// "1.083": three digits after the point, since the limits are a few percent.
std::string format_change(double ratio);
// An unclear time is shown if its ratio is beyond the limit: it may be a change that too few
// samples or runs saw.
bool is_shown(const TimeChange& time);
// Each reason for which times are unclear, "on cpu: ...", with their number.
std::map<std::string, int64_t> unclear_reasons(const Changes& changes);

}  // namespace assay
