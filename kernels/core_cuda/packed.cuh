// SPDX-License-Identifier: Apache-2.0
// Stored elements on their way between memory and registers.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "kernels/core/dtype.h"
#include "kernels/core/tensor.h"

namespace assay {

// Elements as they are stored, two to a register if they have 16 bits.
template <class T, int kCount>
struct Bits {
  static constexpr int kBytes = kCount * int{sizeof(T)};
  alignas(16) uint32_t words[(kBytes + 3) / 4];

  __device__ float operator[](int i) const {
    if constexpr (std::is_same_v<T, float>) {
      return __uint_as_float(words[i]);
    } else {
      const uint32_t word = words[i / 2];
      if constexpr (std::is_same_v<T, bf16>) return __uint_as_float(i % 2 ? word & 0xFFFF0000u : word << 16);
      return __half2float(__ushort_as_half(static_cast<unsigned short>(i % 2 ? word >> 16 : word)));
    }
  }
};

// The one rounding: to nearest, ties to even.
template <class T, int kCount>
__device__ Bits<T, kCount> round_to(const float (&values)[kCount]) {
  Bits<T, kCount> bits;
#pragma unroll
  for (int i = 0; i < kCount; i += 4 / int{sizeof(T)}) {
    if constexpr (std::is_same_v<T, float>) {
      bits.words[i] = __float_as_uint(values[i]);
    } else {
      const float second = i + 1 < kCount ? values[i + 1] : 0.0f;
      if constexpr (std::is_same_v<T, bf16>) {
        const __nv_bfloat162 pair = __floats2bfloat162_rn(values[i], second);
        bits.words[i / 2] = reinterpret_cast<const uint32_t&>(pair);
      } else {
        const __half2 pair = __floats2half2_rn(values[i], second);
        bits.words[i / 2] = reinterpret_cast<const uint32_t&>(pair);
      }
    }
  }
  return bits;
}

// [bytes] The largest of 4, 8 and 16 that divides `bytes`; 4 if none does.
constexpr int longest_vector(int bytes) {
  return bytes % 16 == 0 ? 16 : bytes % 8 == 0 ? 8 : 4;
}

// The type that one instruction moves.
template <int kBytes>
using Piece = std::conditional_t<
    kBytes == 16, uint4,
    std::conditional_t<kBytes == 8, uint2, std::conditional_t<kBytes == 4, unsigned, unsigned short>>>;

// Loads the first `count` pieces of `bits`, kPiece bytes each. Neighbouring pieces are `stride`
// elements apart. The other pieces become zeros; a single piece of at least 4 bytes stays as it
// was.
template <int kPiece, class T, int kCount>
__device__ void load_pieces(Bits<T, kCount>& bits, const T* from, int64_t stride,
                            int count = Bits<T, kCount>::kBytes / kPiece) {
  constexpr int kPieces = Bits<T, kCount>::kBytes / kPiece;
  static_assert(kPieces * kPiece == Bits<T, kCount>::kBytes, "elements are moved as whole pieces");
  if constexpr (kPiece < 4 || kPieces > 1) bits = {};
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    if (i >= count) continue;
    const Piece<kPiece> piece = __ldg(reinterpret_cast<const Piece<kPiece>*>(from + i * stride));
    if constexpr (kPiece < 4) {
      bits.words[i / 2] |= uint32_t{piece} << (16 * (i % 2));
    } else {
      reinterpret_cast<Piece<kPiece>*>(bits.words)[i] = piece;
    }
  }
}

// Stores pieces in the same way, past the caches, since nobody reads them soon.
template <int kPiece, class T, int kCount>
__device__ void store_pieces(T* to, int64_t stride, const Bits<T, kCount>& bits,
                             int count = Bits<T, kCount>::kBytes / kPiece) {
#pragma unroll
  for (int i = 0; i < Bits<T, kCount>::kBytes / kPiece; ++i) {
    if (i >= count) continue;
    auto* const at = reinterpret_cast<Piece<kPiece>*>(to + i * stride);
    if constexpr (kPiece < 4) {
      __stcs(at, static_cast<unsigned short>(bits.words[i / 2] >> (16 * (i % 2))));
    } else {
      __stcs(at, reinterpret_cast<const Piece<kPiece>*>(bits.words)[i]);
    }
  }
}

// Host: whether `data` and the strides of dimensions first .. last - 1 are multiples of `alignment`
// bytes. Dimensions of size 1 do not count.
inline bool is_aligned_across(const ConstTensorView& view, int first, int last, int64_t alignment) {
  bool aligned = reinterpret_cast<uintptr_t>(view.data) % static_cast<uintptr_t>(alignment) == 0;
  for (int i = first; i < last; ++i) {
    if (view.shape[i] == 1) continue;
    aligned = aligned && view.strides[i] * static_cast<int64_t>(size_of(view.dtype)) % alignment == 0;
  }
  return aligned;
}

// Stores a vector without changing the order in which the L2 evicts its lines.
__device__ inline void store_keeping_order(uint4* to, const uint4& value) {
#if __CUDA_ARCH__ >= 800
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_unchanged.b64 %0, 1.0;" : "=l"(policy));
  asm volatile("st.global.L2::cache_hint.v4.u32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(to), "r"(value.x),
               "r"(value.y), "r"(value.z), "r"(value.w), "l"(policy)
               : "memory");
#else
  *to = value;
#endif
}

}  // namespace assay
