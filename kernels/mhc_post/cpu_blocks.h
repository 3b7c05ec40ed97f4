// SPDX-License-Identifier: Apache-2.0
// How the CPU path cuts a problem into blocks, and where the rows of a block lie. None of this
// depends on the instruction set.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/core/tensor.h"
#include "kernels/core/threshold.h"
#include "kernels/mhc_post/mhc_post.h"

namespace assay::mhc_post {

// Every row of a block is padded to a multiple of this: the most that the vector loop takes at a
// time.
inline constexpr int64_t kTile = 64;

// [floats] The rows of a block take at most a quarter of a first cache level of 48 KiB. With larger
// blocks reading and writing alternate so slowly that memory idles.
inline constexpr int64_t kBlockFloats = 3072;
inline constexpr Threshold kBlockThreshold{kBlockFloats, 640};

// A block has `size` elements along h of x and of every stream of one token. The last block of a
// token may be shorter.
struct Blocks {
  explicit Blocks(const Extents& shape) : h(shape[2]) {
    const int64_t largest = std::max(kBlockThreshold.value() / (1 + shape[1]) / kTile, int64_t{1}) * kTile;
    per_token = (h + largest - 1) / largest;
    size = per_token == 0 ? 0 : (h + per_token * kTile - 1) / (per_token * kTile) * kTile;
    count = shape[0] * per_token;
  }

  int64_t h;
  int64_t size;  // a multiple of kTile
  int64_t per_token;
  int64_t count;  // blocks of all tokens
};

// The rows of a tensor (N, H) or (N, HC, H) that lie in a block.
template <class T>
struct Rows {
  T* operator[](int64_t stream) const { return first + stream * stride_stream; }
  bool is_dense() const { return stride_h == 1; }

  T* first;
  int64_t stride_stream;
  int64_t stride_h;
};

template <class T, class View>
Rows<T> rows_of(const View& view, const Blocks& blocks, int64_t block) {
  const int64_t n = block / blocks.per_token;
  const int64_t h = block % blocks.per_token * blocks.size;
  const bool has_streams = view.shape.rank() == 3;
  const int64_t stride_h = view.strides[has_streams ? 2 : 1];
  return {.first = view.template as<std::remove_const_t<T>>() + n * view.strides[0] + h * stride_h,
          .stride_stream = has_streams ? view.strides[1] : 0,
          .stride_h = stride_h};
}

}  // namespace assay::mhc_post
