// SPDX-License-Identifier: Apache-2.0
// What the CUDA paths of cheri_block share with the table of paths and with each other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kernels/core/op.h"
#include "kernels/core/tensor.h"

namespace assay::cheri {

// The reason why block_fused does not serve a size, if there is one.
std::optional<std::string> block_fused_unsupported(int64_t channels, int64_t hidden);

// Enqueue copies of a tensor (N,L,C) or (rows,columns) to and from memory with rows `pitch`
// elements apart. Elements of a row beyond the last column become 0.
void copy_to_rows(const ConstTensorView& from, void* to, int64_t pitch, void* stream);
void copy_from_rows(const void* from, int64_t pitch, const TensorView& to, void* stream);

}  // namespace assay::cheri
