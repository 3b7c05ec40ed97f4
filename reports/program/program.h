// SPDX-License-Identifier: Apache-2.0
// The program `assay`: its subcommands, options and exit codes.
#pragma once

#include <vector>

#include "bench/core/measure.h"
#include "properties/core/registry.h"

namespace assay {

enum ExitCode : int {
  kExitPassed = 0,
  kExitNumericalFailure = 1,
  kExitUsage = 2,
  kExitGateFailed = 3,    // for the gate; unused until there is one
  kExitInconclusive = 4,  // likewise
  kExitNothingSelected = 5,
  kExitEnvironmentUnfit = 6,
  kExitInternalError = 70,
  kExitDeviceAbsent = 77,
  kExitInterrupted = 130,
};

// Runs a command line on the ops of a registry. Returns an ExitCode; throws nothing.
int run_program(int argc, const char* const* argv, const Registry& registry,
                const std::vector<Sweep>& sweeps);

}  // namespace assay
