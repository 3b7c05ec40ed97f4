// SPDX-License-Identifier: Apache-2.0
// Copies of boxes of a tensor (tensor_map.h) that one thread starts, from compute capability 9.0 on.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace assay {

inline constexpr int kBoxAlignment = 1024;  // [bytes] of a box in shared memory

// Where a box begins: its first column and row, of which matrix.
struct BoxAt {
  int column, row, matrix;
};

// Starts a copy to shared memory. It belongs to the current phase of `barrier`, as its bytes do in arrive_with_copies()
// (bulk_copy.cuh); boxes are as many bytes long at the edge of the tensor as elsewhere.
__device__ inline void copy_box(uint32_t to, const CUtensorMap& map, BoxAt at, uint32_t barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, "
      "%4}], "
      "[%5];" ::"r"(to),
      "l"(&map), "r"(at.column), "r"(at.row), "r"(at.matrix), "r"(barrier)
      : "memory");
#endif
}

// The same to all kBlocks blocks of the cluster, at the same place in each, for its own barrier.
template <int kBlocks>
__device__ void copy_box_to_cluster(uint32_t to, const CUtensorMap& map, BoxAt at, uint32_t barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(to),
      "l"(&map), "r"(at.column), "r"(at.row), "r"(at.matrix), "r"(barrier),
      "h"(static_cast<uint16_t>((1 << kBlocks) - 1))
      : "memory");
#endif
}

// Starts a copy from shared memory, whose ordinary stores were fenced (fence_async_proxy).
__device__ inline void copy_box_out(const CUtensorMap& map, BoxAt at, uint32_t from) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4];\n"
      "cp.async.bulk.commit_group;" ::"l"(&map),
      "r"(at.column), "r"(at.row), "r"(at.matrix), "r"(from)
      : "memory");
#endif
}

// Until of what the thread copied out at most the last kPending boxes have not been read from shared memory.
template <int kPending>
__device__ void wait_for_boxes_out() {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
#endif
}

}  // namespace assay
