// SPDX-License-Identifier: Apache-2.0
// What the launches of the CPU path of trimul choose among.
#pragma once

#include "kernels/core/op.h"

namespace assay::trimul {

const Tunable& cpu_tunable();

}  // namespace assay::trimul
