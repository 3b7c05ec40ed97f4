// SPDX-License-Identifier: Apache-2.0
// The loops and sums of a formula, in the words of each file of its project. Each text ends without
// a new line.
#pragma once

#include <string>

#include "reports/scaffold/faults.h"
#include "reports/scaffold/formula.h"

namespace assay {

std::string cpu_loop(const Formula& formula, const Faults& faults);
std::string oracle_terms(const Formula& formula, const Faults& faults);
std::string specimen_loop(const Formula& formula, const Faults& faults);

}  // namespace assay
