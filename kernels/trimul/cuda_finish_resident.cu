// SPDX-License-Identifier: Apache-2.0
// The last kernel of trimul for at most 128 hidden channels: to_out stays in shared memory
// (cuda_resident.cuh). hidden and the gate of a warpgroup's next tiles are copied to shared memory
// meanwhile, as boxes of all channels. If not all of to_out fits beside them, a block has 128
// columns of it. Others read the same tiles for the rest.
//
// A thread reads its part of the boxes as fragments, so z never leaves the registers.
#include <algorithm>
#include <cstdint>

#include "kernels/core_cuda/bulk_copy.cuh"
#include "kernels/core_cuda/cuda_check.h"
#include "kernels/core_cuda/dependent_launch.cuh"
#include "kernels/core_cuda/shared_memory.cuh"
#include "kernels/trimul/cuda_deviation.cuh"
#include "kernels/trimul/cuda_finish_resident.cuh"
#include "kernels/trimul/cuda_resident.cuh"

namespace assay::trimul {
namespace finishing {
namespace {

#if ASSAY_HAS_WGMMA

// Two edges of hidden, as deviations from the mean and the factors that normalise these.
template <class Plan>
struct Deviations {
  float values[Plan::kSteps][2][4], factors[2];
};

// Makes deviations of the values of hidden.
template <class Plan>
__device__ void centre(const Arguments<Plan>& a, const DeviationScale& scale, Deviations<Plan>& deviations) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int most = static_cast<int>(a.planes.hidden) - lane % 4 * 2;
  auto& [h, factors] = deviations;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const auto for_each = [&](auto visit) {
#pragma unroll
      for (int s = 0; s < Plan::kSteps; ++s) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          visit(h[s][half][e], e % 2, kStepDepth * s + e / 2 * 8 + e % 2 < most);
        }
      }
    };
    float first = __shfl_sync(0xFFFFFFFFu, h[0][half][0], lane & ~3), sums[2] = {}, squares[2] = {};
    for_each([&](float value, int e, bool exists) {
      sums[e] = __fadd_rn(sums[e], exists ? __fadd_rn(value, -first) : 0.0f);
    });
    const float sum = add_up_row(__fadd_rn(sums[0], sums[1]));
    float mean = 0;
    if constexpr (kIsMeanOneNumber<Plan::kFactor>) {
      first = fmaf(sum, a.share, first);
    } else {
      mean = __fmul_rn(sum, a.share);
    }
    for_each([&](float& value, int e, bool exists) {
      value = exists ? __fadd_rn(__fadd_rn(value, -first), -mean) : 0.0f;
      squares[e] = fmaf(value, value, squares[e]);
    });
    const float square = add_up_row(__fadd_rn(squares[0], squares[1]));
    if constexpr (kIsScaled<Plan::kFactor>) {
      factors[half] = scale.factor(square, a.share);
    } else {
      factors[half] = reciprocal_deviation(square, a.share, 1.0f);
      if (__any_sync(0xFFFFFFFFu, is_large(square))) {
        float scaled_squares[2] = {};
        for_each([&](float value, int e, bool) {
          const float scaled = __fmul_rn(value, kScaleOfLarge);
          scaled_squares[e] = fmaf(scaled, scaled, scaled_squares[e]);
        });
        const float scaled_square = add_up_row(__fadd_rn(scaled_squares[0], scaled_squares[1]));
        if (is_large(square)) factors[half] = reciprocal_deviation(scaled_square, a.share, kScaleOfLarge);
      }
    }
  }
}

// z in parts, as fragments.
template <class Plan>
using Fragments = uint32_t[Plan::kParts][Plan::kSteps][4];

// Computes z. Products that are added are written as fmaf(): bits must not depend on a compiler
// that may choose.
template <class Plan>
__device__ void make_z(const Deviations<Plan>& deviations, const typename Plan::Reader& reader,
                       uint32_t gates, const float4* norm, float rest, Fragments<Plan>& z) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const auto& [h, factors] = deviations;
#pragma unroll
  for (int s = 0; s < Plan::kSteps; ++s) {
    float gate[2][4];
    reader.load(gate, gates, s);
#pragma unroll
    for (int side = 0; side < 2; ++side) {
      // Weights and biases of two channels, 0 beyond the last one.
      const float4 n = norm[8 * s + 4 * side + lane % 4];
      const float w[2] = {kIsScaled<Plan::kFactor> ? __fmul_rn(n.x, rest) : n.x,
                          kIsScaled<Plan::kFactor> ? __fmul_rn(n.y, rest) : n.y};
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float* const v = h[s][half] + 2 * side;
        const float* const g = gate[half] + 2 * side;
        const float low = __fmul_rn(fmaf(__fmul_rn(v[0], factors[half]), w[0], n.z), g[0]);
        const float high = __fmul_rn(fmaf(__fmul_rn(v[1], factors[half]), w[1], n.w), g[1]);
        z[0][s][half + 2 * side] = pack_part<Plan::kFactor, 0>(low, high);
        if constexpr (Plan::kParts == 2) z[1][s][half + 2 * side] = pack_part<Plan::kFactor, 1>(low, high);
      }
    }
  }
}

// The boxes of hidden or of the gate of a warpgroup in their stages, in turn.
template <class Plan>
class Stages {
 public:
  __device__ Stages(const Arguments<Plan>& a, const CUtensorMap& map, uint32_t boxes, uint32_t barriers,
                    int group)
      : a_(a),
        map_(map),
        step_(Plan::Tiles::step(a.sharers)),
        boxes_(boxes + static_cast<uint32_t>(group * a.stages * Plan::kStageBytes)),
        barriers_(barriers + static_cast<uint32_t>(8 * group * a.stages)) {
    for (int i = 0; i < a.stages; ++i)
      copy(Plan::Tiles::first(group, a.sharers) + static_cast<uint32_t>(i) * step_, i);
    __syncwarp();
  }
  // Waits for the boxes of the next tile and returns their address.
  __device__ uint32_t wait() const {
    wait_for_phase(barrier(at_), phase_);
    return boxes(at_);
  }
  // Lets the tile that comes after those in the other stages take the place of tile `number`. The
  // group has read it, called fence_async_proxy(), and synchronised.
  __device__ void replace(uint32_t number) {
    copy(number + static_cast<uint32_t>(a_.stages) * step_, at_);
    __syncwarp();
    if (++at_ < a_.stages) return;
    at_ = 0;
    phase_ ^= 1;
  }

 private:
  __device__ uint32_t boxes(int stage) const {
    return boxes_ + static_cast<uint32_t>(stage * Plan::kStageBytes);
  }
  __device__ uint32_t barrier(int stage) const { return barriers_ + static_cast<uint32_t>(8 * stage); }
  __device__ void copy(uint32_t tile, int stage) const {
    if (threadIdx.x % kGroupThreads != 0 || tile >= a_.tiles.all) return;
    constexpr int kBoxes = kBoxesOfGroup<typename Plan::T>;
    BoxAt at{static_cast<int>(tile % a_.tiles.of_batch) * kGroupRows, 0,
             static_cast<int>(tile / a_.tiles.of_batch)};
    arrive_with_copies(barrier(stage), Plan::kStageBytes);
    for (int i = 0; i < kBoxes; ++i) {
      copy_box(boxes(stage) + static_cast<uint32_t>(i * Plan::kBoxBytes), map_, at, barrier(stage));
      at.column += kGroupRows / kBoxes;
    }
  }

  const Arguments<Plan>& a_;
  const CUtensorMap& map_;
  uint32_t step_;  // of the tiles
  uint32_t boxes_, barriers_;
  int at_ = 0;
  uint32_t phase_ = 0;
};

// The product of z with 128 columns of to_out.
template <class Plan>
__device__ void multiply(float (&sums)[64], const Fragments<Plan>& z, uint64_t columns) {
  constexpr uint32_t kNext = Plan::kParts * Plan::Traits::kSlotNext;  // [bytes] of 8 of the depth
  wgmma_begin();
#pragma unroll
  for (int s = 0; s < Plan::kSteps; ++s) {
    const uint64_t column = moved(columns, static_cast<uint32_t>(s * 2) * kNext);
    multiply_step<Plan::kFactor>(sums, z, s, column, s > 0 ? 1 : 0);
  }
  wgmma_commit();
  wgmma_wait<0>();
  keep_in_place(sums);
}

template <class Plan>
__device__ void finish_tiles(const Arguments<Plan>& a, const Shared<Plan>& shared, const float4* norm,
                             int group) {
  using Traits = typename Plan::Traits;
  // Weights and norms come from kernels before the projections.
  wait_for_kernel_before();
  const uint32_t barriers = shared.barriers + 8;
  Stages<Plan> hidden(a, a.hidden, shared.hidden, barriers, group);
  Stages<Plan> gate(a, a.gate, shared.gate, barriers + static_cast<uint32_t>(8 * Plan::kGroups * a.stages),
                    group);
  const typename Plan::Reader reader;
  const int row = static_cast<int>(threadIdx.x / 32 % 4) * 16 + static_cast<int>(threadIdx.x % 32) / 4;
  const uint64_t columns =
      SharedFactor{shared.weights, Plan::kParts * Traits::kSlotNext, Traits::kBlockBytes}.descriptor();
  const int first_channel = own_columns(a);
  Power unscale(0);
  if constexpr (kIsScaled<Plan::kFactor>) unscale = Power(-a.scales->z - a.scales->weights[5]);
  wait_for_phase(shared.barriers, 0);
  const uint32_t step = Plan::Tiles::step(a.sharers);
  for (uint32_t number = Plan::Tiles::first(group, a.sharers); number < a.tiles.all; number += step) {
    const int64_t batch = a.first_batch + number / a.tiles.of_batch;
    Fragments<Plan> z;
    {
      int exponent = 0;
      if constexpr (kIsScaled<Plan::kFactor>) {
        const SideScales& sides = a.sides[batch * a.sides_step];
        exponent = sides.left + sides.right - a.contraction_shift;
      }
      const DeviationScale scale(exponent);
      Deviations<Plan> deviations;
      const uint32_t boxes = hidden.wait();
#pragma unroll
      for (int s = 0; s < Plan::kSteps; ++s) reader.load(deviations.values[s], boxes, s);
      centre<Plan>(a, scale, deviations);
      make_z<Plan>(deviations, reader, gate.wait(), norm, scale.rest.second, z);
    }
    fence_async_proxy();
    synchronize_group(group);
    hidden.replace(number);
    gate.replace(number);
    const int64_t position = int64_t{number % a.tiles.of_batch} * kGroupRows + row;
    float* const rows[2] = {a.out.row(batch, a.planes.edge(position)),
                            a.out.row(batch, a.planes.edge(position + 8))};
    for (int chunk = 0; chunk < a.own_chunks(); ++chunk) {
      float sums[64];
      multiply<Plan>(sums, z, moved(columns, static_cast<uint32_t>(chunk * Plan::kColumnsBytes)));
      a.out.template write<Plan::kFactor>(sums, unscale, rows, first_channel + chunk * kSlotColumns);
    }
  }
}

#endif  // ASSAY_HAS_WGMMA

template <class Plan>
__global__ void __launch_bounds__(Plan::kThreads, 1)
    finish_resident_kernel(const __grid_constant__ Arguments<Plan> a) {
#if ASSAY_HAS_WGMMA
  extern __shared__ __align__(kBoxAlignment) uint8_t memory[];
  const uint32_t address = shared_address(memory);
  const int chunks = a.own_chunks();
  const Shared<Plan> shared(address, a.stages, chunks);
  if (threadIdx.x == 0) {
    for (int i = 0; i < 1 + 2 * Plan::kGroups * a.stages; ++i)
      make_barrier(shared.barriers + 8 * static_cast<uint32_t>(i), 1);
    fence_async_proxy();
    arrive_with_copies(shared.barriers, static_cast<uint32_t>(chunks * Plan::kColumnsBytes));
    const uint8_t* const slots = a.slots + own_columns(a) / kSlotColumns * int64_t{Plan::kColumnsBytes};
    for (int i = 0; i < chunks; ++i) {
      copy_bulk<CacheUse::kAgain>(shared.weights + static_cast<uint32_t>(i * Plan::kColumnsBytes),
                                  slots + i * Plan::kColumnsBytes, Plan::kColumnsBytes, shared.barriers);
    }
  }
  // Two weights and their biases lie together.
  auto* const norm = reinterpret_cast<float*>(memory + (shared.norm - address));
  Power scale(0);
  // z is stored times 2^z. It is computed from a gate that is stored times 2^kGateExponent.
  if constexpr (kIsScaled<Plan::kFactor>) scale = Power(a.scales->z - kGateExponent<Plan::kFactor>);
  for (int i = static_cast<int>(threadIdx.x); i < 2 * Plan::kDepth; i += Plan::kThreads) {
    const int channel = i / 4 * 2 + i % 2;
    norm[i] = scale(i % 4 < 2 ? a.norms->out_weight[channel] : a.norms->out_bias[channel]);
  }
  __syncthreads();
  finish_tiles<Plan>(a, shared, reinterpret_cast<const float4*>(norm), group_of_thread());
#else
  __trap();  // the host offers this kernel only on devices that serve it
#endif
}

// At most two stages of each warpgroup that fit.
template <class Plan>
int stages_that_fit(int chunks, int most_shared) {
  for (int stages = 2; stages > 0; --stages) {
    if (static_cast<int>(Shared<Plan>(0, stages, chunks).end) <= most_shared) return stages;
  }
  return 0;
}

template <class Plan>
void launch(const Job<Plan::kFactor>& job) {
  static_assert(Shared<Plan>(0, 1, 1).end <= kMostShared, "a block has 128 columns of to_out and boxes");
  Arguments<Plan> a(job);
  if (a.chunks <= kMostOwnChunks.value()) a.stages = stages_that_fit<Plan>(a.chunks, most_shared_memory());
  if (a.stages == 0) {
    a.sharers = a.chunks;
    a.stages = stages_that_fit<Plan>(1, most_shared_memory());
  }
  if (a.stages == 0) {
    throw unsupported_error("h={} needs more shared memory than {} bytes", job.planes.hidden,
                            most_shared_memory());
  }
  const auto sharers = static_cast<unsigned>(a.sharers);
  // For each share of columns.
  const int multiprocessors = std::max(job.multiprocessors / a.sharers, 1);
  auto* const kernel = finish_resident_kernel<Plan>;
  allow_all_shared_memory(kernel);
  launch_dependent(true, "finish_resident_kernel", kernel, dim3(a.tiles.blocks(multiprocessors) * sharers),
                   dim3(Plan::kThreads), Shared<Plan>(0, a.stages, a.own_chunks()).end, job.stream, a);
}

}  // namespace
}  // namespace finishing

template <Format kFactor>
bool finish_resident(const Job<kFactor>& job) {
  using namespace finishing;
  const Planes& p = job.planes;
  if (p.hidden == 0 || p.hidden > 2 * kOutDepthStep || p.plane() > INT32_MAX) return false;
  if (p.hidden <= kOutDepthStep) {
    launch<Plan<kFactor, kOutDepthStep>>(job);
  } else {
    launch<Plan<kFactor, 2 * kOutDepthStep>>(job);
  }
  return true;
}

template bool finish_resident(const Job<Format::kF16>&);
template bool finish_resident(const Job<Format::kBF16>&);
template bool finish_resident(const Job<Format::kF16x3>&);

}  // namespace assay::trimul
