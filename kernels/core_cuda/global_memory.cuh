// SPDX-License-Identifier: Apache-2.0
// Loads and prefetches of memory that no kernel writes meanwhile.
#pragma once

#include <cstdint>

namespace assay {

// 16 bytes at a multiple of 16. The compiler does not move it across other volatile instructions.
__device__ inline void load_in_place(uint32_t (&words)[4], const void* from) {
  asm volatile("ld.global.nc.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "l"(from));
}

// The same 16 bytes, where they are not worth a place in the L1 cache.
__device__ inline void load_past_l1(uint32_t (&words)[4], const void* from) {
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "l"(from));
}

// Has the line at any address brought to the L2 cache.
__device__ inline void prefetch_l2(const void* address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}

}  // namespace assay
