// SPDX-License-Identifier: Apache-2.0
// Products of row-major matrices by cuBLASLt, the same bits in every call.
#pragma once

#include <cstdint>

#include "kernels/core/context.h"
#include "kernels/core/dtype.h"

namespace assay {

// d (rows, columns) = alpha * a (rows, inner) * b (columns, inner) transposed + beta * d, all of one dtype, f32 sums, one
// rounding. Rows of each matrix lie one after the other, `pitch` elements apart. The matrices begin at multiples of 256
// bytes; where a batch has strides, each of its matrices does at a multiple of 16, the first one too.
struct RowProduct {
  DType dtype;
  int64_t columns, inner;             // > 0
  int64_t a_pitch, b_pitch, d_pitch;  // [elements]
  int64_t usual_rows;                 // for which the algorithm is chosen
  bool allows_tf32 = false;           // factors of f32 are cut off to tf32: exact where they are tf32
  int64_t usual_batches = 1;          // for which the algorithm is chosen
  int64_t a_batch = 0, b_batch = 0, d_batch = 0;  // [elements] from a matrix of a batch to the next
  float alpha = 1, beta = 0;
  // Tiles of 128 x 128, if cuBLASLt has them: two fit on a multiprocessor, and take turns.
  bool tile_128 = false;
};

// Enqueues the product of up to `usual_rows` rows, once or for each matrix of a batch. The algorithm, and with it the
// order of sums, depends on RowProduct alone. Throws Error (unsupported) if cuBLASLt has none.
void multiply_rows(const RowProduct& product, int64_t rows, const void* a, const void* b, void* d,
                   Context& context, void* stream, int64_t batches = 1);

// Enqueues zeros for what fills `rows` rows of `columns` elements up to `pitch`: no product uses it, but who copies or
// compares a whole matrix reads it.
void clear_padding(void* matrix, DType dtype, int64_t rows, int64_t columns, int64_t pitch, void* stream);

}  // namespace assay
