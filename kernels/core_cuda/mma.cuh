// SPDX-License-Identifier: Apache-2.0
// Matrix products by single warps (sm_80 and later): 16 rows by 8 columns by 16 of the summed
// dimension, with f32 accumulators. Also how their factors are packed and loaded.
//
// Let row = i / 4 and q = i % 4. Lane i of the warp has:
//   a[0] (row, 2q..2q+1)            a[1] (row + 8, 2q..2q+1)
//   a[2] (row, 2q+8..2q+9)          a[3] (row + 8, 2q+8..2q+9)
//   b[0] (2q..2q+1, row)            b[1] (2q+8..2q+9, row)
//   d[0], d[1] (row, 2q..2q+1)      d[2], d[3] (row + 8, 2q..2q+1)
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "kernels/core/dtype.h"

namespace assay {

// Rounds two values to factors of type F, to nearest, ties to even. The first one goes to the low
// half.
template <class F>
__device__ uint32_t pack_factors(float low, float high) {
  static_assert(std::is_same_v<F, bf16> || std::is_same_v<F, f16>, "factors have 16 bits");
  if constexpr (std::is_same_v<F, bf16>) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<const uint32_t&>(pair);
  } else {
    const __half2 pair = __floats2half2_rn(low, high);
    return reinterpret_cast<const uint32_t&>(pair);
  }
}

// What remains of two values after rounding them to the bf16 factors `packed`, rounded to bf16.
__device__ inline uint32_t pack_remainders(float low, float high, uint32_t packed) {
  return pack_factors<bf16>(low - __uint_as_float(packed << 16),
                            high - __uint_as_float(packed & 0xFFFF0000u));
}

// d += a * b
template <class F>
__device__ void mma_m16n8k16(float* d, const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (std::is_same_v<F, bf16>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

// Loads four matrices of 8 rows by 16 bytes. Lane i gives the address of row i % 8 of matrix i / 8.
__device__ inline void load_rows(uint32_t (&matrices)[4], uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
               : "r"(row)
               : "memory");
}

// The same from 512 contiguous bytes.
__device__ inline void load_matrices(uint32_t (&matrices)[4], uint32_t address) {
  load_rows(matrices, address + threadIdx.x % 32 * 16);
}

// Loads four matrices of 8 by 8 elements of 16 bits transposed: a lane gets two neighbours of a
// column. Lane i gives the address of row i % 8 of matrix i / 8.
__device__ inline void load_transposed(uint32_t (&matrices)[4], uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
               : "r"(row)
               : "memory");
}

// Stores them in the same way.
__device__ inline void store_transposed(uint32_t row, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
#if __CUDA_ARCH__ >= 900
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(row), "r"(a),
               "r"(b), "r"(c), "r"(d)
               : "memory");
#endif
}

}  // namespace assay
