// SPDX-License-Identifier: Apache-2.0
// What a path throws costs it one verdict.
#pragma once

#include "properties/core/verdict.h"

namespace assay {

// The verdict on the exception that is being handled, of a path that had not refused the case when
// it was asked. What ends the thread is thrown again.
Verdict verdict_on_thrown();

}  // namespace assay
