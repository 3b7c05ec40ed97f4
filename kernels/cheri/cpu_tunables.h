// SPDX-License-Identifier: Apache-2.0
// What the launches of the CPU paths of the Cheri ops choose among.
#pragma once

#include "kernels/core/op.h"

namespace assay::cheri {

const Tunable& conv_norm_cpu_tunable();
const Tunable& conv_norm_grad_cpu_tunable();
const Tunable& block_cpu_tunable();

}  // namespace assay::cheri
