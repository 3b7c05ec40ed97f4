// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace assay {

// [bytes] The memory that this process can take without swapping: that of the machine, or that of a
// control group it runs in (version 1 or 2, or a parent of it) if that is less. Infinite where the
// system does not tell. The files of /proc and /sys are read below `root`.
double available_host_memory(const std::string& root = "");

}  // namespace assay
