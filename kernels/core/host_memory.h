// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace assay {

// What this process can take without swapping: of the machine, or of the control group that it runs in if that has less.
// [bytes] Infinite where the system does not say.
double available_host_memory();

}  // namespace assay
