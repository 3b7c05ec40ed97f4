// SPDX-License-Identifier: Apache-2.0
// Products of row-major matrices by cuBLASLt, the same bits in every call.
#pragma once

#include <cstdint>

#include "kernels/core/context.h"
#include "kernels/core/dtype.h"

namespace assay {

// d (rows, columns) = a (rows, inner) * b (columns, inner) transposed, all of one dtype, f32 sums, one rounding;
// without tf32. Rows of each matrix lie one after the other, `pitch` elements apart, and begin at multiples of 256
// bytes.
struct RowProduct {
  DType dtype;
  int64_t columns, inner;             // > 0
  int64_t a_pitch, b_pitch, d_pitch;  // [elements]
  int64_t usual_rows;                 // for which the algorithm is chosen
};

// Enqueues the product of up to `usual_rows` rows. The algorithm, and with it the order of sums, depends on RowProduct
// alone. Throws Error (unsupported) if cuBLASLt has none.
void multiply_rows(const RowProduct& product, int64_t rows, const void* a, const void* b, void* d,
                   Context& context, void* stream);

}  // namespace assay
