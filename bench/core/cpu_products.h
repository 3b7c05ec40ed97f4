// SPDX-License-Identifier: Apache-2.0
// The fastest multiplications of f32 that we can write for a CPU: the ceiling that matrix products are compared with.
#pragma once

#include <cstdint>

namespace assay {

// Fused multiply-adds of f32 between registers, on all hardware threads and with their longest vectors. Returns how many
// were done: [flop], two for each.
int64_t multiply_in_registers();

}  // namespace assay
