// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace assay {

// How the tensors lie in memory.
enum class Layout : uint8_t {
  kDense,       // row-major
  kStrided,     // a gap of three elements after each innermost row, of one row after each slice
  kMisaligned,  // row-major, one element after an aligned address
  kTransposed,  // the two innermost dimensions swapped in memory
  kBroadcast,   // inputs repeat along their outermost dimension (stride 0); outputs row-major
  // By the seed all tensors but one are dense, or each is dense, strided, misaligned or transposed.
  kMixed,
  // In each tensor an axis of two to 64 indices, by the seed, has a stride of 2^31 or 2^32
  // elements or bytes, and the others lie densely. So every 32-bit offset wraps.
  kInflated,
};

std::span<const Layout> all_layouts();
std::string_view name_of(Layout layout);

}  // namespace assay
