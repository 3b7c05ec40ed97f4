// SPDX-License-Identifier: Apache-2.0
// What a path throws costs it one verdict.
#pragma once

#include <string_view>

#include "properties/core/verdict.h"

namespace assay {

// The verdict on the exception that is being handled, of a path that had not refused the case when
// it was asked, and that threw in this step: "the first run". What ends the thread is thrown again.
Verdict verdict_on_thrown(std::string_view step);

}  // namespace assay
