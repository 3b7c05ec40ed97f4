// SPDX-License-Identifier: Apache-2.0
// The state of devices in words.
#pragma once

#include <string>
#include <vector>

#include "reports/record/record.h"

namespace assay {

// "1755 MHz (1410 to 1980), 612 W, 61 °C, throttled by sw_power_cap"; empty if nothing
// is known.
std::string render_telemetry(const Telemetry& telemetry);

// "1.21 M cycles"; empty unless flops make the floor.
std::string render_cycles(const Telemetry& telemetry);

// "clock 345 MHz, memory 2619 MHz, 71 W of 700 W, ..."; empty if nothing is known.
std::string render_state(const DeviceState& state);

// For each device whose state is known, what it was before and while its ceilings were measured:
// "cuda:0 before it was measured: ...; meanwhile: ...; not known: ..."
std::vector<std::string> states_of_devices(const MachineRecord& machine);

// "memory_temperature_c: Not Supported; ..."; empty if everything is known.
std::string render_absent(const Absent& absent);

}  // namespace assay
