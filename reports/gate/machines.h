// SPDX-License-Identifier: Apache-2.0
// Whether two sides' times were taken on like machines in like states. If not, a time may differ
// because of the machine, and nobody can tell.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "reports/gate/compared.h"

namespace assay {

// The rates of a device that a change of a path cannot change: "copy", "products of f16", ... in
// bytes/s or flop/s.
std::map<std::string, double> rates_of(const Ceilings& ceilings);
std::string format_rate_of(const std::string& name, double rate);  // "14.8 GB/s"

// The models that a device has in the runs: "NVIDIA H200 with 132 units".
std::string models_of(Records runs, const std::string& device);

// Why times on a device cannot be compared. Empty if they can:
//   another model, driver or number of threads
//   a disturbance that all runs of one side have and no run of the other
//   a ceiling: in all runs of one side further than the limit from all runs of the other
// A cause that some runs of a side lack cannot move the whole side. It widens its interval, like
// all that differs from run to run. What a record of an older version lacks is no reason.
std::string unlike_machines(Records before, Records after, const std::string& device, const Limits& limits);

// Why times taken under these states of a device cannot be compared. Empty if they can:
//   the clock, or that of the memory: in all runs of one side further than the limit from all of
//   the other
//   a reason for a lower clock (slows()) that all runs of one side have and no run of the other
// A run without telemetry (null) is no reason.
using States = std::vector<const Telemetry*>;
std::string unlike_states(const States& before, const States& after, double limit);

// What a sentinel of a run shows: ceilings that differ from the first ones by more than the limit.
// Empty if none does.
std::string change_around(const Record& run, const Sentinel& sentinel, const Limits& limits);
// Why the times of a path cannot be trusted: in each run a sentinel around them shows a change.
// Empty if they can.
std::string unsteady_machine(Records runs, const CaseRecord& timed, const Limits& limits);

}  // namespace assay
