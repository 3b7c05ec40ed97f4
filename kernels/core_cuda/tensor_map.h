// SPDX-License-Identifier: Apache-2.0
// Boxes of a tensor that the copy engine moves between global and shared memory (compute capability 9.0): their rows are
// 128 bytes long, what lies beyond the tensor is read as 0 and not written.
//
// In shared memory a box is contiguous, row after row, at a multiple of 1024 bytes; its pieces of 16 bytes are swizzled:
// piece p of row r lies where piece p ^ (r % 8) would. So eight rows of one piece lie in different banks.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/core/dtype.h"

namespace assay {

inline constexpr int kBoxRowBytes = 128;

// Matrices of `rows` rows of `columns` elements; address and strides are multiples of 16 bytes.
struct Matrices {
  void* data;
  DType dtype;
  int64_t columns, rows, count;
  int64_t row_stride, matrix_stride;  // [elements]
};

// Boxes of `box_rows` rows of one of the matrices. Throws Error (device) if the driver refuses.
CUtensorMap map_of(const Matrices& matrices, int box_rows);

}  // namespace assay
