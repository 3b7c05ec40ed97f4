// SPDX-License-Identifier: Apache-2.0
// The first kernel of trimul for few channels: the weights of all five projections stay in shared
// memory. There is one block on a multiprocessor. Its warpgroups take tiles of 64 edges, each for
// itself, so that one of them multiplies while others compute sigmoids.
//
// A thread loads channels of two edges as the fragments of wgmma need them, and keeps xn in
// registers. It loads those of the next tile while it computes the last columns of this one. It has
// sums of 64 columns at a time; the sums of the next 64 are computed meanwhile. Results leave
// through shared memory, as boxes of 64 edges and 64 channels.
#include <algorithm>
#include <cstdint>

#include "kernels/core_cuda/bulk_copy.cuh"
#include "kernels/core_cuda/cuda_check.h"
#include "kernels/core_cuda/limits.h"
#include "kernels/core_cuda/packed.cuh"
#include "kernels/core_cuda/shared_memory.cuh"
#include "kernels/trimul/cuda_boxes.cuh"
#include "kernels/trimul/cuda_fragments.cuh"
#include "kernels/trimul/cuda_plan.cuh"
#include "kernels/trimul/cuda_resident.cuh"

namespace assay::trimul {
namespace {

constexpr int kGroups = 3;
constexpr int kThreads = kGroups * kGroupThreads;

// kSlots is the number of slots with the depth of 128 columns.
template <Format kFactor_, int kChunks_, int kSlots_, bool kHasVectors_>
struct Plan {
  static constexpr Format kFactor = kFactor_;
  static constexpr int kChunks = kChunks_;  // of 64 channels, in left and in right
  // Four channels of x lie side by side, aligned.
  static constexpr bool kHasVectors = kHasVectors_;
  static constexpr bool kIsScaled = trimul::kIsScaled<kFactor>;
  static constexpr bool kInPairs = kFactor == Format::kF16;  // sigmoids
  using F = typename TileFactor<kFactor>::F;
  static constexpr int kSlotBytes = TileFactor<kFactor>::kSlotBytes;
  static constexpr int kColumnsBytes = kSlots_ * kSlotBytes;  // of 128 columns
  static constexpr int kSteps = kSlots_ * TileFactor<kFactor>::kSlotDepth / kStepDepth;
  static constexpr int kSlots = 2 * kChunks + 1;  // with 128 columns each
};

struct Arguments {
  CUtensorMap left, right, gate;
  InputEdges in;
  const PackedNorms* norms;
  const uint8_t* slots;
  const Scales* scales;
  const SideScales* sides;
  int64_t sides_step;
  uint32_t tiles;  // of a batch
  uint32_t all_tiles;
  int64_t first_batch;
};

#if ASSAY_HAS_WGMMA

// The shared memory of a block: places of boxes, the norm of x, a barrier, weights.
struct Shared {
  static constexpr int kNorm = kGroups * kPlaces * kBoxBytes;
  static constexpr int kBarrier = kNorm + 2 * int{kChannelsOfPart} * int{sizeof(float)};
  static constexpr int kWeights = kBarrier + 128;
};

// Starts the product of the fragments with 64 columns of weights.
template <class Plan>
__device__ void start_product(float (&sums)[32], const Fragments<Plan::kSteps>& fragments, uint64_t columns) {
  wgmma_begin();
#pragma unroll
  for (int s = 0; s < Plan::kSteps; ++s) {
    wgmma<typename Plan::F>(sums, fragments[s], moved(columns, s * 2 * TileFactor<Plan::kFactor>::kSlotNext),
                            s > 0 ? 1 : 0);
  }
  wgmma_commit();
}

// The results of 64 columns: eight projections, then their eight gates, and so on.
template <class Plan>
__device__ void gate_projections(const float (&sums)[32], float exponent, const float (&factors)[2],
                                 float (&values)[16]) {
  const auto reciprocal = [](float value) {
    float result;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value));
    return result;
  };
  // 1 / sigmoid
  const auto inverse = [&](float value) {
    float power = __fmul_rn(value, exponent);
    if constexpr (Plan::kInPairs) asm("min.NaN.f32 %0, %0, 0f42700000;" : "+f"(power));  // 60
    asm("ex2.approx.ftz.f32 %0, %0;" : "+f"(power));
    return __fadd_rn(power, 1.0f);
  };
#pragma unroll
  for (int i = 0; i < 16; i += 2) {
    const float* const s = sums + i / 4 * 8 + i % 4;
    const float factor = factors[i / 2 % 2];
    const float a = inverse(s[4]), b = inverse(s[5]);
    if constexpr (Plan::kInPairs) {
      const float both = reciprocal(a * b) * factor;
      values[i] = s[0] * b * both;
      values[i + 1] = s[1] * a * both;
    } else {
      values[i] = s[0] * reciprocal(a) * factor;
      values[i + 1] = s[1] * reciprocal(b) * factor;
    }
  }
}

template <class Plan>
__device__ void project_tiles(const Arguments& a, uint32_t shared, const float* norm, int group) {
  using Traits = TileFactor<Plan::kFactor>;
  const uint64_t first_columns =
      SharedFactor{shared + Shared::kWeights, Traits::kSlotNext, Traits::kBlockBytes}.descriptor();
  const auto columns = [&](int slot, int half) {
    return moved(first_columns, static_cast<uint32_t>(slot * Plan::kColumnsBytes) +
                                    static_cast<uint32_t>(half * 8 * Traits::kBlockBytes));
  };
  // The factor that turns a sum into -g / ln 2. Beyond the range of f32 the sigmoid is 1/2, 0 or 1
  // for any such factor: scaled factors are at most 2^15, and sums that are not 0 exceed
  // 2^-49.
  const auto to_exponent = [&](int weight) {
    if constexpr (!Plan::kIsScaled) return kMinusLog2E;
    return kMinusLog2E * Power::power_of_two(min(max(-a.scales->xn - a.scales->weights[weight], -126), 126));
  };
  const float exponents[3] = {to_exponent(2), to_exponent(3), to_exponent(4)};
  Boxes boxes(shared + static_cast<uint32_t>(group * kPlaces * kBoxBytes), group);
  const uint32_t stride = kGroups * gridDim.x;
  uint32_t number = static_cast<uint32_t>(group) * gridDim.x + blockIdx.x;
  Edges<Plan::kSteps, Plan::kHasVectors> edges;
  Fragments<Plan::kSteps> fragments;
  float even[32], odd[32];  // sums
  const auto tile_of = [&](uint32_t tile) {
    return TileOfEdges{a.first_batch + tile / a.tiles, tile % a.tiles * kGroupRows};
  };
  if (number < a.all_tiles) edges.template load<0, Plan::kSteps>(a.in, tile_of(number));
  wait_for_phase(shared + Shared::kBarrier, 0);
  for (; number < a.all_tiles; number += stride) {
    const TileOfEdges tile = tile_of(number);
    const int in_job = static_cast<int>(tile.batch - a.first_batch), start = static_cast<int>(tile.start);
    normalise<Plan::kFactor>(edges, a.in, norm, fragments);
    start_product<Plan>(even, fragments, columns(0, 0));
    int slot = 0;
#pragma unroll
    for (int side = 0; side < 2; ++side) {
      float factors[2] = {edges.mask[0], edges.mask[1]};
      if constexpr (Plan::kIsScaled) {
        // The mask is multiplied by the powers of all scales, large and small. The largest result
        // is near 2^-14.
        const SideScales& sides = a.sides[tile.batch * a.sides_step];
        const Power stored((side == 0 ? sides.left : sides.right) - a.scales->xn - a.scales->weights[side]);
        factors[0] = stored(factors[0]);
        factors[1] = stored(factors[1]);
      }
      const float exponent = side == 0 ? exponents[0] : exponents[1];
      const CUtensorMap& map = side == 0 ? a.left : a.right;
#pragma unroll
      for (int chunk = 0; chunk < Plan::kChunks; ++chunk, ++slot) {
        float values[16];
        start_product<Plan>(odd, fragments, columns(slot, 1));
        wgmma_wait<1>();
        keep_in_place(even);
        gate_projections<Plan>(even, exponent, factors, values);
        boxes.begin();
        boxes.put<Plan::kFactor>(values, 0);
        start_product<Plan>(even, fragments, columns(slot + 1, 0));
        wgmma_wait<1>();
        keep_in_place(odd);
        gate_projections<Plan>(odd, exponent, factors, values);
        boxes.put<Plan::kFactor>(values, kBoxChannels / 2);
        boxes.end(map, {start, chunk * kBoxChannels, in_job});
      }
    }
    const auto put_gate = [&](const float(&sums)[32], int channel) {
      float values[32];
      sigmoids<Plan::kInPairs, kGateExponent<Plan::kFactor>>(sums, exponents[2], values);
      boxes.begin();
      boxes.put<Plan::kFactor>(values, 0);
      boxes.end(a.gate, {start, channel, in_job});
    };
    const TileOfEdges next = tile_of(min(number + stride, a.all_tiles - 1));
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
__global__ void __launch_bounds__(kThreads, 1) project_resident_kernel(const __grid_constant__ Arguments a) {
#if ASSAY_HAS_WGMMA
  extern __shared__ __align__(kBoxAlignment) uint8_t shared[];
  const uint32_t address = shared_address(shared), barrier = address + Shared::kBarrier;
  if (threadIdx.x == 0) {
    make_barrier(barrier, 1);
    fence_async_proxy();
    arrive_with_copies(barrier, static_cast<uint32_t>(Plan::kSlots * Plan::kColumnsBytes));
    for (int i = 0; i < Plan::kSlots; ++i) {
      copy_bulk<CacheUse::kAgain>(address + static_cast<uint32_t>(Shared::kWeights + i * Plan::kColumnsBytes),
                                  a.slots + i * Plan::kColumnsBytes, Plan::kColumnsBytes, barrier);
    }
  }
  auto* const norm = reinterpret_cast<float*>(shared + Shared::kNorm);
  for (int i = static_cast<int>(threadIdx.x); i < 2 * int{kChannelsOfPart}; i += kThreads) {
    const int channel = i % int{kChannelsOfPart};
    float value = i < kChannelsOfPart ? a.norms->weight[channel] : a.norms->bias[channel];
    if constexpr (Plan::kIsScaled) value = Power(a.scales->xn)(value);
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
#if ASSAY_HAS_WGMMA || !defined(__CUDA_ARCH__)
  const int64_t groups = (int64_t{a.all_tiles} + kGroups - 1) / kGroups;
  const auto blocks =
      static_cast<unsigned>(std::min({int64_t{job.multiprocessors}, groups, kMostBlocks.value()}));
  constexpr int kFixed = kGroups * kPlaces * kBoxBytes + 2 * int{kChannelsOfPart} * int{sizeof(float)} + 128;
  const auto bytes = static_cast<size_t>(kFixed + Plan::kSlots * Plan::kColumnsBytes);
  kernel<<<blocks, kThreads, bytes, job.stream>>>(a);
#endif
  cuda_check_launch("project_resident_kernel");
}

}  // namespace

template <Format kFactor>
void project_resident(const Job<kFactor>& job) {
  using Traits = TileFactor<kFactor>;
  const Tensors& t = job.tensors;
  const Planes& p = job.planes;
  const auto channels = static_cast<int>(t.x.shape[3]);
  const bool has_mask = t.mask.shape[3] == 1;
  const int64_t tiles = (p.plane() + kGroupRows - 1) / kGroupRows, all_tiles = tiles * job.count;
  if (all_tiles > INT32_MAX) {
    throw unsupported_error("{} tiles of {} edges are more than {}", all_tiles, kGroupRows, INT32_MAX);
  }
  const Arguments a{.left = map_of_edges(job, job.left, kBoxChannels),
                    .right = map_of_edges(job, job.right, kBoxChannels),
                    .gate = map_of_edges(job, job.gate, kBoxChannels),
                    .in = {.x = t.x.as<float>(),
                           .x_batch = t.x.strides[0],
                           .x_first = t.x.strides[1],
                           .x_second = t.x.strides[2],
                           .x_channel = t.x.strides[3],
                           .mask = has_mask ? t.mask.as<float>() : nullptr,
                           .mask_batch = t.mask.strides[0],
                           .mask_first = t.mask.strides[1],
                           .mask_second = t.mask.strides[2],
                           .planes = p,
                           .channels = channels,
                           .share = 1.0f / static_cast<float>(channels)},
                    .norms = job.weights.norms,
                    .slots = job.weights.projections,
                    .scales = job.weights.scales,
                    .sides = job.sides,
                    .sides_step = job.sides_step,
                    .tiles = static_cast<uint32_t>(tiles),
                    .all_tiles = static_cast<uint32_t>(all_tiles),
                    .first_batch = job.first};
  const bool has_vectors = t.x.strides[3] == 1 && channels % 4 == 0 && is_aligned_across(t.x, 0, 3, 16);
  const auto with_slots = [&]<int kSlots>(std::integral_constant<int, kSlots>) {
    const auto with_chunks = [&]<int kChunks>(std::integral_constant<int, kChunks>) {
      if (has_vectors) return launch<Plan<kFactor, kChunks, kSlots, true>>(job, a);
      launch<Plan<kFactor, kChunks, kSlots, false>>(job, a);
    };
    if (p.hidden <= kStagedHidden) return with_chunks(std::integral_constant<int, 1>{});
    with_chunks(std::integral_constant<int, 2>{});
  };
  if (channels <= Traits::kSlotDepth) return with_slots(std::integral_constant<int, 1>{});
  with_slots(std::integral_constant<int, 2>{});
}

template void project_resident(const Job<Format::kF16>&);
template void project_resident(const Job<Format::kBF16>&);

}  // namespace assay::trimul
