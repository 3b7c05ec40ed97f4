// SPDX-License-Identifier: Apache-2.0
// The statistics of the examples, for paths that normalise by themselves.
#pragma once

#include "kernels/cheri/cheri.h"
#include "kernels/core/tensor.h"

namespace assay::cheri {

// Enqueues what fills `norms` (N), on the device and aligned to 16 bytes, with the Norm of each example. The values
// that it describes are those of convolve() in conv_norm.cuh. The kernel enqueued next may be launched as a dependent
// (dependent_launch.cuh); it finds the norms after its wait.
void enqueue_norms(const ConstTensorView& x, const ConstTensorView& w, const Run& run, void* norms);

}  // namespace assay::cheri
