// SPDX-License-Identifier: Apache-2.0
// How a record names the machine and the build, and whether the machine is fit for timing.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "reports/record/record.h"

namespace assay {

ToolRecord tool_record();
MachineRecord machine_record();  // without devices
// The device with its state, and with its ceilings or the reason why there is no memory to measure
// them.
DeviceRecord measured_device(Device& device);

// What disturbs timings on this machine and these devices now, one sentence for each thing that was
// found.
std::vector<std::string> timing_disturbances(const std::vector<std::unique_ptr<Device>>& devices);

}  // namespace assay
