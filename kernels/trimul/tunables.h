// SPDX-License-Identifier: Apache-2.0
// The configurations that the launches of the trimul paths choose among.
#pragma once

#include "kernels/core/op.h"

namespace assay::trimul {

const Tunable& cpu_tunable();

}  // namespace assay::trimul
