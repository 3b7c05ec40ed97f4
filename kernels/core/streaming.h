// SPDX-License-Identifier: Apache-2.0
// When CPU paths write past the caches. Such a write does not read the line that it overwrites.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "kernels/core/tensor.h"
#include "kernels/core/threshold.h"

namespace assay {

// [bytes] Outputs of a call that take at least this much together are written past the caches. A
// core has less cache for itself.
inline constexpr Threshold kStreamingThreshold{int64_t{8} << 20, 0};

// Whether these outputs of a call reach the threshold.
bool outgrow_caches(std::initializer_list<TensorView> outputs);

}  // namespace assay
