// SPDX-License-Identifier: Apache-2.0
// Thread-block clusters: blocks that run at the same time and access each other's shared memory.
// They need compute capability 9.0; code for older devices traps, and launch_clusters() refuses to
// run there.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/core/error.h"
#include "kernels/core_cuda/cuda_check.h"
#include "kernels/core_cuda/delays.cuh"
#include "kernels/core_cuda/limits.h"
#include "kernels/core_cuda/shared_memory.cuh"

namespace assay {

// The rank of the calling block in its cluster.
__device__ inline int cluster_rank() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
#else
  __trap();
  return 0;
#endif
}

// All threads of all blocks of the cluster arrive, then wait. After waiting, every block sees what
// was written before arriving.
__device__ inline void cluster_arrive() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  maybe_delay();
  __syncwarp();
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}
__device__ inline void cluster_wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  __syncwarp();
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
  maybe_delay();
#endif
}

// Arrives at the barrier (mbarrier.cuh) of block `rank` that corresponds to `own` in the calling
// block.
__device__ inline void arrive_at_block(uint32_t own, int rank) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  maybe_delay();
  asm volatile(
      "{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}\n" ::"r"(own),
      "r"(rank)
      : "memory");
  maybe_delay();
#endif
}

// A warp calls it, when all its threads are done with what came before: arrives at the barriers of
// all kBlocks blocks.
template <int kBlocks>
__device__ void arrive_at_cluster(uint32_t own) {
  __syncwarp();
  const int lane = static_cast<int>(threadIdx.x % 32);
  if (lane < kBlocks) arrive_at_block(own, lane);
}

// Host: how clusters of `size` blocks are launched.
struct ClusterLaunch {
  std::string_view name;  // of the kernel
  int compute_capability;
  int size;     // [blocks] of a cluster
  int threads;  // of a block
  int64_t shared_bytes;
  cudaStream_t stream;
};

// Host: how many clusters of `size` blocks to launch, each of which takes `of_cluster` tiles at a
// time: as many as run at once, if there are tiles for all. There is at least one tile.
inline int64_t clusters_of(int64_t tiles, int64_t of_cluster, int64_t multiprocessors, int size) {
  const int64_t together = std::min<int64_t>(multiprocessors / size, kMostBlocks.value());
  return std::clamp<int64_t>(together, 1, (tiles + of_cluster - 1) / of_cluster);
}

// Host: throws Error (unsupported) on a device without clusters.
template <class... Parameters, class... Arguments>
void launch_clusters(const ClusterLaunch& launch, void (*kernel)(Parameters...), int64_t clusters,
                     Arguments&&... arguments) {
  if (launch.compute_capability < 90) {
    throw unsupported_error("thread-block clusters need compute capability 90, this device has {}",
                            launch.compute_capability);
  }
  if (clusters > INT32_MAX / launch.size) {
    throw unsupported_error("{} clusters of {} blocks in one launch", clusters, launch.size);
  }
  allow_all_shared_memory(kernel);
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = static_cast<unsigned>(launch.size);
  attribute.val.clusterDim.y = 1;
  attribute.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(clusters * launch.size));
  config.blockDim = dim3(static_cast<unsigned>(launch.threads));
  config.dynamicSmemBytes = static_cast<size_t>(launch.shared_bytes);
  config.stream = launch.stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  cuda_check(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...), launch.name);
}

}  // namespace assay
