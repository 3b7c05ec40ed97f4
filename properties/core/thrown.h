// SPDX-License-Identifier: Apache-2.0
// What a path throws costs it one verdict.
#pragma once

#include <string_view>

#include "properties/core/verdict.h"

namespace assay {

// The verdict on the exception that is being handled, of a path that had not refused the case when
// it was asked. What ends the thread is thrown again.
Verdict verdict_on_thrown();

// The same verdict, and in which step it threw: "the first run".
Verdict in_step(Verdict verdict, std::string_view step);

}  // namespace assay
