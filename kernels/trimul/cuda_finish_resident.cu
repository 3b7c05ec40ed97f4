// SPDX-License-Identifier: Apache-2.0
// The last kernel of trimul for 16-bit tensors and few hidden channels: to_out stays in shared
// memory (cuda_resident.cuh). hidden and the gate of a warpgroup's next tiles are copied to shared
// memory meanwhile, as boxes of 64 edges and all channels.
//
// A thread reads its part of the boxes as fragments, so z never leaves the registers.
#include <cstdint>

#include "kernels/core_cuda/bulk_copy.cuh"
#include "kernels/core_cuda/cuda_check.h"
#include "kernels/core_cuda/dependent_launch.cuh"
#include "kernels/core_cuda/shared_memory.cuh"
#include "kernels/trimul/cuda_boxes.cuh"
#include "kernels/trimul/cuda_deviation.cuh"
#include "kernels/trimul/cuda_out.cuh"
#include "kernels/trimul/cuda_plan.cuh"
#include "kernels/trimul/cuda_resident.cuh"

namespace assay::trimul {
namespace {

// kDepthSlots is the number of slots along the depth.
template <Format kFactor_, int kDepthSlots>
struct Plan {
  static constexpr Format kFactor = kFactor_;
  using Traits = TileFactor<kFactor>;
  using F = typename Traits::F;
  static constexpr int kColumnsBytes = kDepthSlots * Traits::kSlotBytes;  // of kSlotColumns
  static constexpr int kSteps = kDepthSlots * Traits::kSlotDepth / kStepDepth;
  static constexpr int kDepth = kSteps * kStepDepth;
  static constexpr int kBoxBytes = kDepth * kBoxRowBytes;
};

struct Arguments : FinishInputs {
  CUtensorMap hidden{}, gate{};
  int stages = 0;
  float share;  // of a hidden channel in the mean
  ResidentTiles tiles;

  template <Format kFactor>
  explicit Arguments(const Job<kFactor>& job)
      : FinishInputs(job), share(1.0f / static_cast<float>(job.planes.hidden)), tiles(job) {}
};

// The shared memory of a block: pairs of boxes, to_out, the norm of hidden, barriers.
template <class Plan>
struct Shared {
  uint32_t boxes, weights, norm, barriers, end;

  __host__ __device__ constexpr Shared(uint32_t address, int stages, int chunks)
      : boxes(address),
        weights(boxes + static_cast<uint32_t>(kResidentGroups * stages * 2 * Plan::kBoxBytes)),
        norm(weights + static_cast<uint32_t>(chunks * Plan::kColumnsBytes)),
        barriers(norm + 2 * static_cast<uint32_t>(Plan::kDepth * int{sizeof(float)})),
        end(barriers + static_cast<uint32_t>(8 * (1 + kResidentGroups * stages))) {}
};

#if ASSAY_HAS_WGMMA

// Value e of a step of row `half`: channel 16 s + 2 q + e % 2 + e / 2 * 8.
template <class F>
__device__ float value_of(const uint32_t (&fragment)[4], int half, int e) {
  const uint32_t word = fragment[half + e / 2 * 2];
  if constexpr (std::is_same_v<F, bf16>) return __uint_as_float(e % 2 ? word & 0xFFFF0000u : word << 16);
  const float2 both = __half22float2(reinterpret_cast<const __half2&>(word));
  return e % 2 ? both.y : both.x;
}

// Two edges of hidden, as deviations from the mean and the factors that normalise these.
template <class Plan>
struct Deviations {
  float values[2][Plan::kSteps][4], factors[2];
};

// Reads hidden. `hidden` is the address of this thread's row in the box.
template <class Plan>
__device__ void centre(const Arguments& a, uint32_t hidden, const DeviationScale& scale,
                       Deviations<Plan>& deviations) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int most = static_cast<int>(a.planes.hidden) - lane % 4 * 2;
  auto& [h, factors] = deviations;
#pragma unroll
  for (int s = 0; s < Plan::kSteps; ++s) {
    uint32_t fragment[4];
    load_transposed(fragment, hidden + static_cast<uint32_t>(s * kStepDepth * kBoxRowBytes));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int e = 0; e < 4; ++e) h[half][s][e] = value_of<typename Plan::F>(fragment, half, e);
    }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const auto for_each = [&](auto visit) {
#pragma unroll
      for (int s = 0; s < Plan::kSteps; ++s) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          visit(h[half][s][e], e % 2, kStepDepth * s + e / 2 * 8 + e % 2 < most);
        }
      }
    };
    float first = __shfl_sync(0xFFFFFFFFu, h[half][0][0], lane & ~3), sums[2] = {}, squares[2] = {};
    for_each([&](float value, int e, bool exists) {
      sums[e] = __fadd_rn(sums[e], exists ? __fadd_rn(value, -first) : 0.0f);
    });
    // hidden has 16 bits. The rounding of the mean to f32 is small next to theirs.
    first = fmaf(add_up_row(__fadd_rn(sums[0], sums[1])), a.share, first);
    for_each([&](float& value, int e, bool exists) {
      value = exists ? __fadd_rn(value, -first) : 0.0f;
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

// Computes z as fragments. `gate` is the address of this thread's row in the box. Products that are
// added are written as fmaf(): bits must not depend on a compiler that may choose.
template <class Plan>
__device__ void make_z(const Deviations<Plan>& deviations, uint32_t gate, const float4* norm, float rest,
                       uint32_t (&z)[Plan::kSteps][4]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const auto& [h, factors] = deviations;
#pragma unroll
  for (int s = 0; s < Plan::kSteps; ++s) {
    uint32_t fragment[4];
    load_transposed(fragment, gate + static_cast<uint32_t>(s * kStepDepth * kBoxRowBytes));
#pragma unroll
    for (int side = 0; side < 2; ++side) {
      // Weights and biases of two channels, 0 beyond the last one.
      const float4 n = norm[8 * s + 4 * side + lane % 4];
      const float w[2] = {kIsScaled<Plan::kFactor> ? __fmul_rn(n.x, rest) : n.x,
                          kIsScaled<Plan::kFactor> ? __fmul_rn(n.y, rest) : n.y};
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float* const v = h[half][s] + 2 * side;
        const float low = fmaf(__fmul_rn(v[0], factors[half]), w[0], n.z);
        const float high = fmaf(__fmul_rn(v[1], factors[half]), w[1], n.w);
        z[s][half + 2 * side] = pack_part<Plan::kFactor, 0>(
            __fmul_rn(low, value_of<typename Plan::F>(fragment, half, 2 * side)),
            __fmul_rn(high, value_of<typename Plan::F>(fragment, half, 2 * side + 1)));
      }
    }
  }
}

// The boxes of a warpgroup in their stages, in turn.
template <class Plan>
class Stages {
 public:
  __device__ Stages(const Arguments& a, const Shared<Plan>& shared, int group)
      : a_(a),
        boxes_(shared.boxes + static_cast<uint32_t>(group * a.stages * 2 * Plan::kBoxBytes)),
        barriers_(shared.barriers + static_cast<uint32_t>(8 * (1 + group * a.stages))),
        group_(group) {
    for (int i = 0; i < a.stages; ++i)
      copy(ResidentTiles::first(group) + static_cast<uint32_t>(i) * ResidentTiles::step(), i);
    __syncwarp();
  }
  // Waits for hidden of the next tile and returns its address. The gate lies behind it.
  __device__ uint32_t wait() const {
    wait_for_phase(barrier(at_), phase_);
    return boxes(at_);
  }
  // Lets the tile that comes after those in the other stages take the place of tile `number`.
  __device__ void replace(uint32_t number) {
    synchronize_group(group_);
    copy(number + static_cast<uint32_t>(a_.stages) * ResidentTiles::step(), at_);
    __syncwarp();
    if (++at_ < a_.stages) return;
    at_ = 0;
    phase_ ^= 1;
  }

 private:
  __device__ uint32_t boxes(int stage) const {
    return boxes_ + static_cast<uint32_t>(stage * 2 * Plan::kBoxBytes);
  }
  __device__ uint32_t barrier(int stage) const { return barriers_ + static_cast<uint32_t>(8 * stage); }
  __device__ void copy(uint32_t tile, int stage) const {
    if (threadIdx.x % kGroupThreads != 0 || tile >= a_.tiles.all) return;
    const BoxAt at{static_cast<int>(tile % a_.tiles.of_batch) * kGroupRows, 0,
                   static_cast<int>(tile / a_.tiles.of_batch)};
    arrive_with_copies(barrier(stage), 2 * Plan::kBoxBytes);
    copy_box(boxes(stage), a_.hidden, at, barrier(stage));
    copy_box(boxes(stage) + Plan::kBoxBytes, a_.gate, at, barrier(stage));
  }

  const Arguments& a_;
  uint32_t boxes_, barriers_;
  int group_, at_ = 0;
  uint32_t phase_ = 0;
};

template <class Plan>
__device__ void finish_tiles(const Arguments& a, const Shared<Plan>& shared, const float4* norm, int group) {
  using Traits = typename Plan::Traits;
  // Weights and norms come from kernels before the projections.
  wait_for_kernel_before();
  Stages<Plan> stages(a, shared, group);
  const uint32_t in_box = row_in_box();
  const int row = static_cast<int>(threadIdx.x / 32 % 4) * 16 + static_cast<int>(threadIdx.x % 32) / 4;
  const uint64_t columns = SharedFactor{shared.weights, Traits::kSlotNext, Traits::kBlockBytes}.descriptor();
  Power unscale(0);
  if constexpr (kIsScaled<Plan::kFactor>) unscale = Power(-a.scales->z - a.scales->weights[5]);
  wait_for_phase(shared.barriers, 0);
  for (uint32_t number = ResidentTiles::first(group); number < a.tiles.all; number += ResidentTiles::step()) {
    const int64_t batch = a.first_batch + number / a.tiles.of_batch;
    uint32_t z[Plan::kSteps][4];
    {
      int exponent = 0;
      if constexpr (kIsScaled<Plan::kFactor>) {
        const SideScales& sides = a.sides[batch * a.sides_step];
        exponent = sides.left + sides.right - a.contraction_shift;
      }
      const DeviationScale scale(exponent);
      const uint32_t hidden = stages.wait() + in_box;
      Deviations<Plan> deviations;
      centre(a, hidden, scale, deviations);
      make_z(deviations, hidden + Plan::kBoxBytes, norm, scale.rest.second, z);
    }
    stages.replace(number);
    const int64_t position = int64_t{number % a.tiles.of_batch} * kGroupRows + row;
    float* const rows[2] = {a.out.row(batch, a.planes.edge(position)),
                            a.out.row(batch, a.planes.edge(position + 8))};
    for (int chunk = 0; chunk < a.chunks; ++chunk) {
      float sums[64];
      const uint64_t b = moved(columns, static_cast<uint32_t>(chunk * Plan::kColumnsBytes));
      wgmma_begin();
#pragma unroll
      for (int s = 0; s < Plan::kSteps; ++s) {
        wgmma<typename Plan::F>(sums, z[s], moved(b, s * 2 * Traits::kSlotNext), s > 0 ? 1 : 0);
      }
      wgmma_commit();
      wgmma_wait<0>();
      keep_in_place(sums);
      a.out.write<Plan::kFactor>(sums, unscale, rows, chunk * kSlotColumns);
    }
  }
}

#endif  // ASSAY_HAS_WGMMA

template <class Plan>
__global__ void __launch_bounds__(kResidentThreads, 1)
    finish_resident_kernel(const __grid_constant__ Arguments a) {
#if ASSAY_HAS_WGMMA
  extern __shared__ __align__(kBoxAlignment) uint8_t memory[];
  const uint32_t address = shared_address(memory);
  const Shared<Plan> shared(address, a.stages, a.chunks);
  if (threadIdx.x == 0) {
    for (int i = 0; i < 1 + kResidentGroups * a.stages; ++i)
      make_barrier(shared.barriers + 8 * static_cast<uint32_t>(i), 1);
    fence_async_proxy();
    arrive_with_copies(shared.barriers, static_cast<uint32_t>(a.chunks * Plan::kColumnsBytes));
    for (int i = 0; i < a.chunks; ++i) {
      copy_bulk<CacheUse::kAgain>(shared.weights + static_cast<uint32_t>(i * Plan::kColumnsBytes),
                                  a.slots + i * Plan::kColumnsBytes, Plan::kColumnsBytes, shared.barriers);
    }
  }
  // Two weights and their biases lie together.
  auto* const norm = reinterpret_cast<float*>(memory + (shared.norm - address));
  Power scale(0);
  // z is stored times 2^z. It is computed from a gate that is stored times 2^kGateExponent.
  if constexpr (kIsScaled<Plan::kFactor>) scale = Power(a.scales->z - kGateExponent<Plan::kFactor>);
  for (int i = static_cast<int>(threadIdx.x); i < 2 * Plan::kDepth; i += kResidentThreads) {
    const int channel = i / 4 * 2 + i % 2;
    norm[i] = scale(i % 4 < 2 ? a.norms->out_weight[channel] : a.norms->out_bias[channel]);
  }
  __syncthreads();
  finish_tiles<Plan>(a, shared, reinterpret_cast<const float4*>(norm), group_of_thread());
#else
  __trap();  // the host offers this kernel only on devices that serve it
#endif
}

// The stages of each warpgroup that fit, at most two.
template <class Plan>
int stages_that_fit(int chunks, int most_shared) {
  static_assert(Shared<Plan>(0, 1, 1).end <= kMostShared, "a block has 128 channels of to_out and boxes");
  for (int stages = 2; stages > 0; --stages) {
    if (static_cast<int>(Shared<Plan>(0, stages, chunks).end) <= most_shared) return stages;
  }
  return 0;
}

template <class Plan>
bool launch(const Job<Plan::kFactor>& job, Arguments a) {
  a.stages = stages_that_fit<Plan>(a.chunks, most_shared_memory());
  if (a.stages == 0) return false;
  a.hidden = map_of_edges(job, job.hidden, Plan::kDepth);
  a.gate = map_of_edges(job, job.gate, Plan::kDepth);
  auto* const kernel = finish_resident_kernel<Plan>;
  allow_all_shared_memory(kernel);
  launch_dependent(true, "finish_resident_kernel", kernel, dim3(a.tiles.blocks(job.multiprocessors)),
                   dim3(kResidentThreads), Shared<Plan>(0, a.stages, a.chunks).end, job.stream, a);
  return true;
}

}  // namespace

template <Format kFactor>
bool finish_resident(const Job<kFactor>& job) {
  const Planes& p = job.planes;
  if (p.hidden == 0 || p.hidden > kSlotColumns || p.plane() > INT32_MAX) return false;
  const Arguments a(job);
  if (p.hidden <= TileFactor<kFactor>::kSlotDepth) return launch<Plan<kFactor, 1>>(job, a);
  return launch<Plan<kFactor, 2>>(job, a);
}

template bool finish_resident(const Job<Format::kF16>&);
template bool finish_resident(const Job<Format::kBF16>&);

}  // namespace assay::trimul
