// SPDX-License-Identifier: Apache-2.0
// What host code and kernels of trimul's CUDA paths have to agree on.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/core/dtype.h"
#include "kernels/core/op.h"

namespace assay::trimul {

// What a path stores between its kernels. As factors of the contraction those of f32's width are rounded to tf32, into
// two tensors for kTF32x3: rests come behind all of the others.
template <Factor kFactor>
using Stored = std::conditional_t<kFactor == Factor::kF16, f16,
                                  std::conditional_t<kFactor == Factor::kBF16, bf16, float>>;

// Norms are packed for so many; and a tile of 64 edges and a slot of weights fit into shared memory.
inline constexpr int64_t kMostChannels = 768;
inline constexpr int64_t kMostHidden = 256;

}  // namespace assay::trimul
