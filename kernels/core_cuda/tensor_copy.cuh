// SPDX-License-Identifier: Apache-2.0
// Copies of boxes of a tensor (tensor_map.h). One thread starts a copy. Compute capability 9.0 is
// needed.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/core_cuda/delays.cuh"

namespace assay {

inline constexpr int kBoxAlignment = 1024;  // [bytes] of a box in shared memory

// Where a box begins: its first column, its first row, its matrix.
struct BoxAt {
  int column, row, matrix;
};

// Starts a copy to shared memory. It belongs to the current phase of `barrier`, and its bytes count
// in arrive_with_copies() (bulk_copy.cuh). A box at the edge of the tensor has as many bytes as any
// other.
__device__ inline void copy_box(uint32_t to, const CUtensorMap& map, BoxAt at, uint32_t barrier) {
#if __CUDA_ARCH__ >= 900
  maybe_delay();
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, "
      "%4}], "
      "[%5];" ::"r"(to),
      "l"(&map), "r"(at.column), "r"(at.row), "r"(at.matrix), "r"(barrier)
      : "memory");
#endif
}

// The same to all kBlocks blocks of the cluster: each gets the box at the same place and counts it
// at its own barrier.
template <int kBlocks>
__device__ void copy_box_to_cluster(uint32_t to, const CUtensorMap& map, BoxAt at, uint32_t barrier) {
#if __CUDA_ARCH__ >= 900
  maybe_delay();
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(to),
      "l"(&map), "r"(at.column), "r"(at.row), "r"(at.matrix), "r"(barrier),
      "h"(static_cast<uint16_t>((1 << kBlocks) - 1))
      : "memory");
#endif
}

// Starts a copy from shared memory. fence_async_proxy() has followed the ordinary stores there.
__device__ inline void copy_box_out(const CUtensorMap& map, BoxAt at, uint32_t from) {
#if __CUDA_ARCH__ >= 900
  maybe_delay();
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4];\n"
      "cp.async.bulk.commit_group;" ::"l"(&map),
      "r"(at.column), "r"(at.row), "r"(at.matrix), "r"(from)
      : "memory");
#endif
}

// Waits until the copies out of the calling thread have been read from shared memory, except the
// last kPending ones.
template <int kPending>
__device__ void wait_for_boxes_out() {
#if __CUDA_ARCH__ >= 900
  maybe_delay();
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
  maybe_delay();
#endif
}

}  // namespace assay
