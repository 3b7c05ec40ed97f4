// SPDX-License-Identifier: Apache-2.0
// What the launches of the Cheri paths choose among, and the buffers that several of them share.
#pragma once

#include <vector>

#include "kernels/cheri/cheri.h"
#include "kernels/core/op.h"
#include "kernels/core/tuner.h"

namespace assay::cheri {

const Tunable& conv_norm_cpu_tunable();
const Tunable& conv_norm_two_pass_tunable();

const Tunable& conv_norm_grad_cpu_tunable();
const Tunable& conv_norm_grad_two_pass_tunable();
// dy, x, w, dx, dw, and then the launch's working memory.
std::vector<Buffer> conv_norm_grad_buffers(const ConvNormGradTensors& t, std::vector<Buffer> scratch);

const Tunable& block_cpu_tunable();

}  // namespace assay::cheri
