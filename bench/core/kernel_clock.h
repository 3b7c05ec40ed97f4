// SPDX-License-Identifier: Apache-2.0
// Clocks that a path cannot set. A path lives in the process that times it. There it can exchange
// the code of a clock, in the C++ or the C library. So these are read by a system call whose
// instructions are part of this program.
#pragma once

namespace assay {

double kernel_seconds();  // [s] CLOCK_MONOTONIC

// [s] The processor time that all threads of this process but the calling one have used so far,
// those included that have ended.
double seconds_of_other_threads();

}  // namespace assay
