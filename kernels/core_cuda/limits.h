// SPDX-License-Identifier: Apache-2.0
// How many blocks a launch has at most, where each block can take on the work of several.
#pragma once

#include <cstdint>

#include "kernels/core/threshold.h"

namespace assay {

// Along x of a grid, or clusters of a launch.
inline constexpr Threshold kMostBlocks{INT32_MAX, 2};

// Along y or z of a grid. CUDA allows no more.
inline constexpr int64_t kGridLimit = 65535;
inline constexpr Threshold kMostAlongY{kGridLimit, 3};

}  // namespace assay
