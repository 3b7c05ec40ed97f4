// SPDX-License-Identifier: Apache-2.0
// The machine and the build, as a record names them, and whether the machine is fit for timing.
#pragma once

#include <string>
#include <vector>

#include "reports/record/record.h"

namespace assay {

ToolRecord tool_record();
MachineRecord machine_record();  // without devices

// What disturbs timings on this machine now, one sentence each; empty if nothing was found.
std::vector<std::string> timing_disturbances();

}  // namespace assay
