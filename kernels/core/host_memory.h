// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace assay {

// [bytes] The memory that this process can take without swapping: that of the machine, or that of
// the control group it runs in if that is less. Infinite where the system does not tell.
double available_host_memory();

}  // namespace assay
