// SPDX-License-Identifier: Apache-2.0
// The first kernel of trimul for few channels: the weights of all five projections stay in shared
// memory (cuda_resident.cuh). While one warpgroup multiplies, others compute sigmoids.
//
// A thread loads channels of two edges as the fragments of wgmma need them, and keeps xn in
// registers. It loads those of the next tile while it computes the last columns of this one. It has
// sums of 64 columns at a time; the sums of the next 64 are computed meanwhile. Results leave
// through shared memory, as boxes of 64 edges and 64 channels.
#include <cstdint>

#include "kernels/core_cuda/bulk_copy.cuh"
#include "kernels/core_cuda/cuda_check.h"
#include "kernels/core_cuda/shared_memory.cuh"
#include "kernels/trimul/cuda_boxes.cuh"
#include "kernels/trimul/cuda_fragments.cuh"
#include "kernels/trimul/cuda_gates.cuh"
#include "kernels/trimul/cuda_plan.cuh"
#include "kernels/trimul/cuda_resident.cuh"

namespace assay::trimul {
namespace {

using Boxes = trimul::Boxes<2, kBoxBytes>;

// kDepthSlots is the number of slots along the depth. With kHasVectors, four channels of x lie side
// by side, aligned.
template <Format kFactor_, int kChunks_, int kDepthSlots, bool kHasVectors>
struct Plan {
  static constexpr Format kFactor = kFactor_;
  static constexpr int kChunks = kChunks_;  // of 64 channels, in left and in right
  using Traits = TileFactor<kFactor>;
  using F = typename Traits::F;
  static constexpr int kSteps = kDepthSlots * Traits::kSlotDepth / kStepDepth;
  static constexpr int kColumnsBytes = kSteps * kStepDepth * kSlotColumns * int{sizeof(F)};
  using Edges = trimul::Edges<kSteps, kHasVectors>;

  // The shared memory of a block: places of boxes, the norm of x, a barrier, weights.
  static constexpr int kNorm = kResidentGroups * Boxes::kAllBytes;
  static constexpr int kBarrier = kNorm + 2 * int{kChannelsOfPart} * int{sizeof(float)};
  static constexpr int kWeights = kBarrier + 128;
  static constexpr int kWeightsBytes = (2 * kChunks + 1) * kColumnsBytes;
  static constexpr int kShared = kWeights + kWeightsBytes;
  static_assert(kShared <= kMostShared, "a block has the weights of all projections");
};

struct Arguments : ProjectionInputs {
  CUtensorMap left, right, gate;
  ResidentTiles tiles;

  template <Format kFactor>
  explicit Arguments(const Job<kFactor>& job)
      : ProjectionInputs(job),
        left(map_of_edges(job, job.left, kBoxChannels)),
        right(map_of_edges(job, job.right, kBoxChannels)),
        gate(map_of_edges(job, job.gate, kBoxChannels)),
        tiles(job) {}
};

#if ASSAY_HAS_WGMMA

// Starts the product of the fragments with 64 columns of weights.
template <class Plan>
__device__ void start_product(float (&sums)[32], const Fragments<Plan::kSteps>& fragments, uint64_t columns) {
  wgmma_begin();
#pragma unroll
  for (int s = 0; s < Plan::kSteps; ++s) {
    wgmma<typename Plan::F>(sums, fragments[s], moved(columns, s * 2 * Plan::Traits::kSlotNext),
                            s > 0 ? 1 : 0);
  }
  wgmma_commit();
}

template <class Plan>
__device__ void project_tiles(const Arguments& a, uint32_t shared, const float* norm, int group) {
  using Traits = typename Plan::Traits;
  const uint64_t first_columns =
      SharedFactor{shared + Plan::kWeights, Traits::kSlotNext, Traits::kBlockBytes}.descriptor();
  const auto columns = [&](int slot, int half) {
    return moved(first_columns, static_cast<uint32_t>(slot * Plan::kColumnsBytes) +
                                    static_cast<uint32_t>(half * 8 * Traits::kBlockBytes));
  };
  const auto exponent_of = [&](int weight) { return to_exponent<Plan::kFactor>(a.scales, weight); };
  const float exponents[3] = {exponent_of(2), exponent_of(3), exponent_of(4)};
  Boxes boxes(shared + static_cast<uint32_t>(group * Boxes::kAllBytes), group);
  uint32_t number = ResidentTiles::first(group);
  typename Plan::Edges edges;
  Fragments<Plan::kSteps> fragments;
  float even[32], odd[32];  // sums
  const auto tile_of = [&](uint32_t tile) {
    return TileOfEdges{a.first_batch + tile / a.tiles.of_batch, tile % a.tiles.of_batch * kGroupRows};
  };
  if (number < a.tiles.all) edges.template load<0, Plan::kSteps>(a.in, tile_of(number));
  wait_for_phase(shared + Plan::kBarrier, 0);
  for (; number < a.tiles.all; number += ResidentTiles::step()) {
    const TileOfEdges tile = tile_of(number);
    const int in_job = static_cast<int>(tile.batch - a.first_batch), start = static_cast<int>(tile.start);
    normalise<Plan::kFactor>(edges, a.in, norm, fragments);
    start_product<Plan>(even, fragments, columns(0, 0));
    int slot = 0;
#pragma unroll
    for (int side = 0; side < 2; ++side) {
      float factors[2] = {edges.mask[0], edges.mask[1]};
      scale_masks<Plan::kFactor>(factors, a, tile.batch, side);
      const float exponent = side == 0 ? exponents[0] : exponents[1];
      const CUtensorMap& map = side == 0 ? a.left : a.right;
#pragma unroll
      for (int chunk = 0; chunk < Plan::kChunks; ++chunk, ++slot) {
        float values[16];
        start_product<Plan>(odd, fragments, columns(slot, 1));
        wgmma_wait<1>();
        keep_in_place(even);
        gate_projections<Plan::kFactor>(even, exponent, factors, values);
        boxes.begin();
        boxes.put<Plan::kFactor>(values, 0);
        start_product<Plan>(even, fragments, columns(slot + 1, 0));
        wgmma_wait<1>();
        keep_in_place(odd);
        gate_projections<Plan::kFactor>(odd, exponent, factors, values);
        boxes.put<Plan::kFactor>(values, kBoxChannels / 2);
        boxes.end([&](uint32_t place) { copy_box_out(map, {start, chunk * kBoxChannels, in_job}, place); });
      }
    }
    const auto put_gate = [&](const float(&sums)[32], int channel) {
      float values[32];
      sigmoids<Plan::kFactor, kGateExponent<Plan::kFactor>>(sums, exponents[2], values);
      boxes.begin();
      boxes.put<Plan::kFactor>(values, 0);
      boxes.end([&](uint32_t place) { copy_box_out(a.gate, {start, channel, in_job}, place); });
    };
    const TileOfEdges next = tile_of(min(number + ResidentTiles::step(), a.tiles.all - 1));
    start_product<Plan>(odd, fragments, columns(slot, 1));
    edges.template load<0, Plan::kSteps / 2>(a.in, next);
    wgmma_wait<1>();
    keep_in_place(even);
    put_gate(even, 0);
    wgmma_wait<0>();
    keep_in_place(odd);
    edges.template load<Plan::kSteps / 2, Plan::kSteps>(a.in, next);
    put_gate(odd, kBoxChannels);
  }
  boxes.finish();
}

#endif  // ASSAY_HAS_WGMMA

template <class Plan>
__global__ void __launch_bounds__(kResidentThreads, 1)
    project_resident_kernel(const __grid_constant__ Arguments a) {
#if ASSAY_HAS_WGMMA
  extern __shared__ __align__(kBoxAlignment) uint8_t shared[];
  const uint32_t address = shared_address(shared), barrier = address + Plan::kBarrier;
  if (threadIdx.x == 0) {
    make_barrier(barrier, 1);
    fence_async_proxy();
    arrive_with_copies(barrier, Plan::kWeightsBytes);
    for (int at = 0; at < Plan::kWeightsBytes; at += Plan::kColumnsBytes) {
      copy_bulk<CacheUse::kAgain>(address + static_cast<uint32_t>(Plan::kWeights + at), a.slots + at,
                                  Plan::kColumnsBytes, barrier);
    }
  }
  auto* const norm = reinterpret_cast<float*>(shared + Plan::kNorm);
  for (int i = static_cast<int>(threadIdx.x); i < 2 * int{kChannelsOfPart}; i += kResidentThreads) {
    const int channel = i % int{kChannelsOfPart};
    float value = i < kChannelsOfPart ? a.norms->weight[channel] : a.norms->bias[channel];
    if constexpr (kIsScaled<Plan::kFactor>) value = Power(a.scales->xn)(value);
    norm[i] = value;
  }
  __syncthreads();
  project_tiles<Plan>(a, address, norm, group_of_thread());
#else
  __trap();  // the host offers this kernel only on devices that serve it
#endif
}

template <class Plan>
void launch(const Job<Plan::kFactor>& job, const Arguments& a) {
  auto* const kernel = project_resident_kernel<Plan>;
  allow_all_shared_memory(kernel);
  kernel<<<a.tiles.blocks(job.multiprocessors), kResidentThreads, Plan::kShared, job.stream>>>(a);
  cuda_check_launch("project_resident_kernel");
}

}  // namespace

template <Format kFactor>
void project_resident(const Job<kFactor>& job) {
  using Traits = TileFactor<kFactor>;
  const Arguments a(job);
  const auto with_slots = [&]<int kDepthSlots>(std::integral_constant<int, kDepthSlots>) {
    const auto with_chunks = [&]<int kChunks>(std::integral_constant<int, kChunks>) {
      if (a.in.has_vectors) return launch<Plan<kFactor, kChunks, kDepthSlots, true>>(job, a);
      launch<Plan<kFactor, kChunks, kDepthSlots, false>>(job, a);
    };
    if (job.planes.hidden <= kStagedHidden) return with_chunks(std::integral_constant<int, 1>{});
    with_chunks(std::integral_constant<int, 2>{});
  };
  if (a.in.channels <= Traits::kSlotDepth) return with_slots(std::integral_constant<int, 1>{});
  with_slots(std::integral_constant<int, 2>{});
}

template void project_resident(const Job<Format::kF16>&);
template void project_resident(const Job<Format::kBF16>&);

}  // namespace assay::trimul
