// SPDX-License-Identifier: Apache-2.0
// Types and limits that host code and kernels of trimul's CUDA paths share.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/core/dtype.h"
#include "kernels/core/op.h"
#include "kernels/core/threshold.h"

namespace assay::trimul {

// The most terms that terms_at_once() gives to a tensor core.
inline constexpr Threshold kMostTerms{512, 64};

// The type in which a path keeps hidden and the gate of the output between its kernels.
template <Format kFactor>
using Stored = std::conditional_t<kFactor == Format::kF16, f16,
                                  std::conditional_t<kFactor == Format::kBF16, bf16, float>>;

// Channels and hidden channels that a kernel takes at once: a vector of four for each lane of a
// warp. Products of factors in two parts sum up as many at once
// (kernels/core_cuda/tile_product.cuh).
inline constexpr int64_t kChannelsOfPart = 128;

// The most channels for which norms are packed, and for which a tile of 64 edges and a slot of
// weights fit into shared memory.
inline constexpr int64_t kMostChannels = 768;
inline constexpr int64_t kMostHidden = 256;

// The most pieces of 128 columns of to_out that a block of the last kernel has: usually all.
inline constexpr Threshold kMostOwnChunks{kMostChannels / kChannelsOfPart, 1};

}  // namespace assay::trimul
