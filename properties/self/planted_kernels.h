// SPDX-License-Identifier: Apache-2.0
// Kernels with a fault: what compute-sanitizer must report, and what other schedules must show.
#pragma once

#include <cstdint>
#include <string_view>

namespace assay::test {

// Whether this build delays threads at barriers (ASSAY_CUDA_DELAYS).
bool has_cuda_delays();

// Runs a kernel with the fault that this tool of compute-sanitizer looks for: memcheck, racecheck,
// initcheck or synccheck. Without the tool it does no harm. Waits for its end.
void run_fault_for(std::string_view tool);

// How often a warp read what another one had overwritten already, with or without the barrier that
// keeps them apart.
int64_t count_overtaken(bool has_barrier);

// Adds up 65,536 numbers by atomics. The last bits of the sum become those of *result.
void unordered_sum(float* result, float* scratch, void* stream);

}  // namespace assay::test
