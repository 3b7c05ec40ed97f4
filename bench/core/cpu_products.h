// SPDX-License-Identifier: Apache-2.0
// The fastest multiplications of f32 that we can write for a CPU. Matrix products are compared with
// them.
#pragma once

#include <cstdint>

namespace assay {

// Does fused multiply-adds of f32 in registers, on all hardware threads and with their longest
// vectors. Returns the work done in [flop], two for each multiply-add.
int64_t multiply_in_registers();

}  // namespace assay
