// SPDX-License-Identifier: Apache-2.0
// The state of devices in the JSON of records. What is not known is absent, and `absent` says why.
#pragma once

#include "bench/core/telemetry.h"
#include "reports/record/record.h"

namespace assay {

Json to_json(const DeviceState& state);
Json to_json(const Telemetry& telemetry);
DeviceState read_device_state(const JsonFields& fields);
Telemetry read_telemetry(const JsonFields& fields);

}  // namespace assay
