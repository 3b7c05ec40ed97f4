// SPDX-License-Identifier: Apache-2.0
// How a record names the machine and the build, and whether the machine is fit for timing.
#pragma once

#include <string>
#include <vector>

#include "reports/record/record.h"

namespace assay {

ToolRecord tool_record();
MachineRecord machine_record();  // without devices
// The device with its ceilings, or with the reason why there is no memory to measure them.
DeviceRecord measured_device(Device& device);

// What this machine is like now, and what disturbs timings on it. Takes 0.2 s.
Conditions timing_conditions();

}  // namespace assay
