// SPDX-License-Identifier: Apache-2.0
// Products of row-major matrices by cuBLASLt. Every call gives the same bits.
#pragma once

#include <cstdint>

#include "kernels/core/context.h"
#include "kernels/core/dtype.h"

namespace assay {

// d (rows, columns) = alpha * a (rows, inner) * b (columns, inner) transposed. All matrices have
// one dtype; sums are f32, with one rounding at the end. Neighbouring rows of a matrix are `pitch`
// elements apart. Each matrix begins at a multiple of 256 bytes. In a batch with strides, a
// multiple of 16 bytes is enough for every matrix, the first one included.
struct RowProduct {
  DType dtype;
  int64_t columns, inner;                         // > 0
  int64_t a_pitch, b_pitch, d_pitch;              // [elements]
  int64_t usual_rows;                             // for which the algorithm is chosen
  bool allows_tf32 = false;                       // f32 factors are truncated to tf32; tf32 is kept
  int64_t usual_batches = 1;                      // for which the algorithm is chosen
  int64_t a_batch = 0, b_batch = 0, d_batch = 0;  // [elements] from one matrix to the next
  float alpha = 1;
  // Tiles of 128 x 128, if cuBLASLt has them. Two of them fit on a multiprocessor and take turns.
  bool tile_128 = false;
};

// Enqueues the product of at most `usual_rows` rows, for each of `batches` matrices. The algorithm
// depends on RowProduct alone, and so does the order of sums. Throws Error (unsupported) if
// cuBLASLt has no algorithm.
void multiply_rows(const RowProduct& product, int64_t rows, const void* a, const void* b, void* d,
                   Context& context, void* stream, int64_t batches = 1);

// Enqueues zeros for the padding between `columns` and `pitch` of each row. No product uses the
// padding, but code that copies or compares a whole matrix reads it.
void clear_padding(void* matrix, DType dtype, int64_t rows, int64_t columns, int64_t pitch, void* stream);

}  // namespace assay
