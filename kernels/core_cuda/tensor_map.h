// SPDX-License-Identifier: Apache-2.0
// Boxes of a tensor that the copy engine moves between global and shared memory (compute capability
// 9.0). Their rows have 128 bytes. Elements beyond the tensor are read as 0 and are not written.
//
// In shared memory a box is contiguous, row after row, at a multiple of 1024 bytes. Its pieces of
// 16 bytes are swizzled: piece p of row r lies at piece p ^ (r % 8). So the same piece of eight
// rows lies in different banks.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/core/dtype.h"

namespace assay {

inline constexpr int kBoxRowBytes = 128;

// `count` matrices of `rows` by `columns` elements. Address and strides are multiples of 16 bytes.
struct Matrices {
  void* data;
  DType dtype;
  int64_t columns, rows, count;
  int64_t row_stride, matrix_stride;  // [elements]
};

// The map of boxes of `box_rows` rows. Each box belongs to one matrix. Throws Error (device) if the
// driver refuses.
CUtensorMap map_of(const Matrices& matrices, int box_rows);

}  // namespace assay
