// SPDX-License-Identifier: Apache-2.0
// The program `assay`: its subcommands, options and exit codes.
#pragma once

#include <string_view>
#include <vector>

#include "bench/core/measure.h"
#include "properties/core/registry.h"

namespace assay {

enum ExitCode : int {
  kExitPassed = 0,
  kExitNumericalFailure = 1,
  kExitUsage = 2,
  kExitGateFailed = 3,       // gate: slower
  kExitInconclusive = 4,     // gate --certain: samples, or unlike machines, leave a time open
  kExitNothingSelected = 5,  // also gate: something is gone
  kExitEnvironmentUnfit = 6,
  kExitInternalError = 70,
  kExitDeviceAbsent = 77,
  kExitInterrupted = 130,
};

struct ExitMeaning {
  ExitCode code;
  std::string_view meaning;
};
inline constexpr ExitMeaning kExitMeanings[] = {
    {kExitPassed, "passed"},
    {kExitNumericalFailure, "numerical failure"},
    {kExitUsage, "wrong usage"},
    {kExitGateFailed, "slower (gate)"},
    {kExitInconclusive, "unclear (gate --certain)"},
    {kExitNothingSelected, "nothing selected, gone (gate), or a shard is missing (merge)"},
    {kExitEnvironmentUnfit, "machine unfit for timing (--strict-env)"},
    {kExitInternalError, "internal error"},
    {kExitDeviceAbsent, "device absent"},
    {kExitInterrupted, "interrupted"}};

// Runs the command line of main() on the ops of a registry. Returns an ExitCode. Throws nothing.
// Paths run in workers: this program is started anew, and its main() has to call this function with
// the same registry. Without such a main(), as in tests, the command line needs --no-isolate.
int run_program(int argc, const char* const* argv, const Registry& registry,
                const std::vector<Sweep>& sweeps);

}  // namespace assay
