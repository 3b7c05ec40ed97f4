// SPDX-License-Identifier: Apache-2.0
// Matrix products by warpgroups (sm_90a): 64 rows by 2 * kCount columns by 16 of the summed
// dimension, with f32 accumulators.
//
// The four warps of a warpgroup issue each of these together; the number of the first warp is a
// multiple of four. Products between wgmma_begin() and wgmma_commit() form one group. The registers
// that it reads or writes may not be touched before wgmma_wait() has said that it is complete.
// Ordinary stores and cp.async to shared memory become visible to it by fence_async_proxy()
// (bulk_copy.cuh) of the writing thread and a barrier after it.
//
// Fragments are those of mma.m16n8k16 (mma.cuh). Warp w of the group has rows 16w .. 16w + 15.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "kernels/core/dtype.h"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define ASSAY_HAS_WGMMA 1
#else
#define ASSAY_HAS_WGMMA 0
#endif

namespace assay {

#if ASSAY_HAS_WGMMA

// A factor in shared memory, without swizzle: blocks of 8 rows by 16 bytes, 128 contiguous bytes
// each. The summed dimension runs along the 16 bytes.
struct SharedFactor {
  uint32_t address;    // of its first block
  uint32_t next_k;     // [bytes] to the block with the next 8 of the summed dimension
  uint32_t next_rows;  // [bytes] to the block with the next 8 rows

  __device__ uint64_t descriptor() const {
    return uint64_t{(address & 0x3FFFF) >> 4} | uint64_t{next_k >> 4} << 16 | uint64_t{next_rows >> 4} << 32;
  }
};

// The descriptor of a factor that lies in shared memory as a box of a tensor (tensor_copy.cuh):
// rows of 128 bytes, swizzled. The summed dimension runs along the rows. The descriptor moved by 32
// describes its next 32 bytes.
__device__ inline uint64_t descriptor_of_box(uint32_t address) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62, kNextRows = uint64_t{8 * 128 >> 4} << 32;
  return kSwizzle128 | kNextRows | (address & 0x3FFFF) >> 4;
}

// The descriptor of the same blocks `bytes` further on, in fewer instructions.
__device__ inline uint64_t moved(uint64_t descriptor, uint32_t bytes) {
  constexpr uint64_t kUpper = 0xFFFFFFFF00000000u;
  return (descriptor & kUpper) | (static_cast<uint32_t>(descriptor) + (bytes >> 4));
}

__device__ inline void wgmma_begin() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Waits until at most kPending groups are incomplete.
template <int kPending>
__device__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Sets how many registers each thread of the calling warpgroup has from now on. All threads
// together may not have more than the kernel was launched with. All warps of the group call it.
template <int kRegisters>
__device__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// Keeps the compiler from moving uses of the registers across this point.
template <int kCount>
__device__ void keep_in_place(float (&registers)[kCount]) {
#pragma unroll
  for (float& value : registers) asm volatile("" : "+f"(value)::"memory");
}

// The first 64 operands of an instruction by number, and 64 elements of an array as these operands.
#define ASSAY_64_NUMBERS                                                                                 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, " \
  "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, " \
  "%42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, " \
  "%62, %63"
#define ASSAY_64_SUMS(d)                                                                                    \
  "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3]), "+f"((d)[4]), "+f"((d)[5]), "+f"((d)[6]),         \
      "+f"((d)[7]), "+f"((d)[8]), "+f"((d)[9]), "+f"((d)[10]), "+f"((d)[11]), "+f"((d)[12]), "+f"((d)[13]), \
      "+f"((d)[14]), "+f"((d)[15]), "+f"((d)[16]), "+f"((d)[17]), "+f"((d)[18]), "+f"((d)[19]),             \
      "+f"((d)[20]), "+f"((d)[21]), "+f"((d)[22]), "+f"((d)[23]), "+f"((d)[24]), "+f"((d)[25]),             \
      "+f"((d)[26]), "+f"((d)[27]), "+f"((d)[28]), "+f"((d)[29]), "+f"((d)[30]), "+f"((d)[31]),             \
      "+f"((d)[32]), "+f"((d)[33]), "+f"((d)[34]), "+f"((d)[35]), "+f"((d)[36]), "+f"((d)[37]),             \
      "+f"((d)[38]), "+f"((d)[39]), "+f"((d)[40]), "+f"((d)[41]), "+f"((d)[42]), "+f"((d)[43]),             \
      "+f"((d)[44]), "+f"((d)[45]), "+f"((d)[46]), "+f"((d)[47]), "+f"((d)[48]), "+f"((d)[49]),             \
      "+f"((d)[50]), "+f"((d)[51]), "+f"((d)[52]), "+f"((d)[53]), "+f"((d)[54]), "+f"((d)[55]),             \
      "+f"((d)[56]), "+f"((d)[57]), "+f"((d)[58]), "+f"((d)[59]), "+f"((d)[60]), "+f"((d)[61]),             \
      "+f"((d)[62]), "+f"((d)[63])

template <class F>
__device__ void wgmma_m64n32k16(float (&d)[16], const uint32_t (&a)[4], uint64_t b, int accumulate) {
  if constexpr (std::is_same_v<F, bf16>) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %21, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, "
        "%11, %12, %13, %14, %15}, "
        "{%16, %17, %18, %19}, %20, p, 1, 1, 0;\n}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
  } else {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %21, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, "
        "%11, %12, %13, %14, %15}, "
        "{%16, %17, %18, %19}, %20, p, 1, 1, 0;\n}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
  }
}

template <class F>
__device__ void wgmma_m64n64k16(float (&d)[32], const uint32_t (&a)[4], uint64_t b, int accumulate) {
  if constexpr (std::is_same_v<F, bf16>) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, "
        "%11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, "
        "%31}, "
        "{%32, %33, %34, %35}, %36, p, 1, 1, 0;\n}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]),
          "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]),
          "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]),
          "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
  } else {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, "
        "%11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, "
        "%31}, "
        "{%32, %33, %34, %35}, %36, p, 1, 1, 0;\n}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]),
          "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]),
          "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]),
          "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
  }
}

template <class F>
__device__ void wgmma_m64n128k16(float (&d)[64], const uint32_t (&a)[4], uint64_t b, int accumulate) {
  if constexpr (std::is_same_v<F, bf16>) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" ASSAY_64_NUMBERS
        "}, {%64, %65, %66, %67}, %68, p, 1, 1, 0;\n}\n"
        : ASSAY_64_SUMS(d)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
  } else {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {" ASSAY_64_NUMBERS
        "}, {%64, %65, %66, %67}, %68, p, 1, 1, 0;\n}\n"
        : ASSAY_64_SUMS(d)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
  }
}

// d = a * b, added to d if `accumulate` is not 0. a is a fragment. b is the descriptor of a factor
// in shared memory; its 2 * kCount rows are the columns of d.
template <class F, int kCount>
__device__ void wgmma(float (&d)[kCount], const uint32_t (&a)[4], uint64_t b, int accumulate) {
  static_assert(kCount == 16 || kCount == 32 || kCount == 64, "columns for which there is a wrapper");
  if constexpr (kCount == 16) {
    wgmma_m64n32k16<F>(d, a, b, accumulate);
  } else if constexpr (kCount == 32) {
    wgmma_m64n64k16<F>(d, a, b, accumulate);
  } else {
    wgmma_m64n128k16<F>(d, a, b, accumulate);
  }
}

// The same with both factors in shared memory: a has 64 rows, b has 128.
template <class F>
__device__ void wgmma(float (&d)[64], uint64_t a, uint64_t b, int accumulate) {
  if constexpr (std::is_same_v<F, bf16>) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" ASSAY_64_NUMBERS
        "}, %64, %65, p, 1, 1, 0, 0;\n}\n"
        : ASSAY_64_SUMS(d)
        : "l"(a), "l"(b), "r"(accumulate));
  } else {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {" ASSAY_64_NUMBERS
        "}, %64, %65, p, 1, 1, 0, 0;\n}\n"
        : ASSAY_64_SUMS(d)
        : "l"(a), "l"(b), "r"(accumulate));
  }
}

#undef ASSAY_64_NUMBERS
#undef ASSAY_64_SUMS

#endif  // ASSAY_HAS_WGMMA

}  // namespace assay
