// SPDX-License-Identifier: Apache-2.0
// The configurations that the launches of the Cheri paths choose among.
#pragma once

#include "kernels/core/op.h"

namespace assay::cheri {

const Tunable& conv_norm_cpu_tunable();
const Tunable& conv_norm_two_pass_tunable();
const Tunable& conv_norm_cluster_tunable();

const Tunable& conv_norm_grad_cpu_tunable();
const Tunable& conv_norm_grad_two_pass_tunable();
const Tunable& conv_norm_grad_cluster_tunable();

const Tunable& block_cpu_tunable();

}  // namespace assay::cheri
