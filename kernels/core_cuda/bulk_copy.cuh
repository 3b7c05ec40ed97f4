// SPDX-License-Identifier: Apache-2.0
// Copies of whole rows from global to shared memory. One thread starts a copy, and a barrier
// (mbarrier.cuh) waits for it. From compute capability 9.0 on the copy engine does the work;
// elsewhere the thread itself does.
#pragma once

#include <cstdint>

#include "kernels/core_cuda/delays.cuh"
#include "kernels/core_cuda/mbarrier.cuh"

namespace assay {

// Orders what this thread did in shared memory before what the copy engine and tensor cores do
// there once other threads have passed a barrier after the fence. They see what it stored, barriers
// included, and copies do not overtake its loads, which a barrier alone leaves under way.
__device__ inline void fence_async_proxy() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// Arrives where a copy waits that overwrites what this thread has loaded.
__device__ inline void arrive_after_loads(uint32_t barrier) {
  fence_async_proxy();
  arrive(barrier);
}

// What a copy leaves in the L2 cache.
enum class CacheUse { kAgain, kOnce };

// Starts a copy of `bytes`. The addresses and `bytes` are multiples of 16. The copy belongs to the
// current phase of `barrier`; the same thread arrives at that phase, by arrive_with_copies().
template <CacheUse kUse>
__device__ void copy_bulk(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier) {
#if __CUDA_ARCH__ >= 900
  maybe_delay();
  if constexpr (kUse == CacheUse::kOnce) {
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, "
        "[%3], "
        "%4;" ::"r"(to),
        "l"(from), "r"(bytes), "r"(barrier), "l"(policy)
        : "memory");
  } else {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
        "l"(from), "r"(bytes), "r"(barrier)
        : "memory");
  }
#else
  for (uint32_t at = 0; at < bytes; at += 16) {
    const uint4 piece = __ldg(reinterpret_cast<const uint4*>(static_cast<const uint8_t*>(from) + at));
    asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(to + at), "r"(piece.x), "r"(piece.y),
                 "r"(piece.z), "r"(piece.w)
                 : "memory");
  }
#endif
}

// The same to all kBlocks blocks of the cluster: each gets the bytes at the same place and counts
// them at its own barrier. Compute capability 9.0 is needed.
template <int kBlocks>
__device__ void copy_bulk_to_cluster(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier) {
#if __CUDA_ARCH__ >= 900
  maybe_delay();
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, "
      "[%3], %4;" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier), "h"(static_cast<uint16_t>((1 << kBlocks) - 1))
      : "memory");
#endif
}

// Arrives. The phase completes only when the thread's copies, `bytes` in all, have arrived, too.
__device__ inline void arrive_with_copies(uint32_t barrier, uint32_t bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n.reg .b64 state;\nmbarrier.arrive.expect_tx.shared.b64 state, [%0], %1;\n}\n" ::"r"(barrier),
      "r"(bytes)
      : "memory");
#else
  arrive(barrier);
#endif
}

}  // namespace assay
