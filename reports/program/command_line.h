// SPDX-License-Identifier: Apache-2.0
// The commands of the program, with their options.
#pragma once

#include "reports/program/option_groups.h"

namespace assay {

// Declares all commands. What a command line says goes into `typed`, which must outlive the app.
void declare_commands(CLI::App& app, Typed& typed);

}  // namespace assay
