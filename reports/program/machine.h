// SPDX-License-Identifier: Apache-2.0
// How a record names the machine and the build, and whether the machine is fit for timing.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reports/record/record.h"

namespace assay {

ToolRecord tool_record();
MachineRecord machine_record();  // without devices
// The device with its state, and with its ceilings or the reason why there is no memory to measure
// them.
DeviceRecord measured_device(Device& device);
// The fastest of the rates that this process has measured on such a device, if it has.
std::optional<Ceilings> fastest_ceilings(const DeviceInfo& info);

// What this machine and these devices are like now, and what disturbs timings on them. Takes 0.2 s.
Conditions timing_conditions(const std::vector<std::unique_ptr<Device>>& devices);

}  // namespace assay
