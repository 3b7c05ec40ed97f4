// SPDX-License-Identifier: Apache-2.0
// The configurations that the launches of the trimul paths choose among, and their thresholds.
#pragma once

#include "kernels/core/op.h"
#include "kernels/core/threshold.h"

namespace assay::trimul {

const Tunable& cpu_tunable();

// [bytes] The CPU path computes so many batches together that their four intermediate tensors take
// at most this, and one at least.
inline constexpr Threshold kTogether{int64_t{64} << 20, 1 << 15};

}  // namespace assay::trimul
