// SPDX-License-Identifier: Apache-2.0
// The last kernel of trimul for 16-bit tensors and few hidden channels: to_out stays in shared
// memory. There is one block on a multiprocessor. Its warpgroups take tiles of 64 edges, each for
// itself. hidden and the gate of the next tiles are copied to shared memory meanwhile, as boxes of
// 64 edges and all channels.
//
// A thread reads its part of the boxes as fragments, so z never leaves the registers.
#include <algorithm>
#include <cstdint>

#include "kernels/core_cuda/bulk_copy.cuh"
#include "kernels/core_cuda/cuda_check.h"
#include "kernels/core_cuda/dependent_launch.cuh"
#include "kernels/core_cuda/limits.h"
#include "kernels/core_cuda/packed.cuh"
#include "kernels/core_cuda/shared_memory.cuh"
#include "kernels/trimul/cuda_boxes.cuh"
#include "kernels/trimul/cuda_deviation.cuh"
#include "kernels/trimul/cuda_plan.cuh"
#include "kernels/trimul/cuda_resident.cuh"

namespace assay::trimul {
namespace {

constexpr int kGroups = 3;
constexpr int kThreads = kGroups * kGroupThreads;

// kSlots is the number of slots with the depth of 128 columns.
template <Format kFactor_, int kSlots_>
struct Plan {
  static constexpr Format kFactor = kFactor_;
  static constexpr bool kIsScaled = trimul::kIsScaled<kFactor>;
  using T = Stored<kFactor>;
  static constexpr int kColumnsBytes = kSlots_ * TileFactor<kFactor>::kSlotBytes;  // of 128 columns
  static constexpr int kDepth = kSlots_ * TileFactor<kFactor>::kSlotDepth;
  static constexpr int kSteps = kDepth / kStepDepth;
  static constexpr int kBoxBytes = kDepth * kBoxRowBytes;
};

struct Arguments {
  CUtensorMap hidden, gate;
  const PackedNorms* norms;
  const uint8_t* slots;
  const Scales* scales;
  const SideScales* sides;
  int64_t sides_step;
  int contraction_shift;
  float* out;
  int64_t out_batch, out_first, out_second, out_channel;  // [elements]
  bool has_vectors;                                       // four channels of out are contiguous
  Planes planes;
  int channels, chunks, stages;
  float share;     // of a hidden channel in the mean
  uint32_t tiles;  // of a batch
  uint32_t all_tiles;
  int64_t first_batch;
};

// The shared memory of a block: pairs of boxes, to_out, the norm of hidden, barriers.
template <class Plan>
struct Shared {
  uint32_t boxes, weights, norm, barriers, end;

  __host__ __device__ Shared(uint32_t address, int stages, int chunks)
      : boxes(address),
        weights(boxes + static_cast<uint32_t>(kGroups * stages * 2 * Plan::kBoxBytes)),
        norm(weights + static_cast<uint32_t>(chunks * Plan::kColumnsBytes)),
        barriers(norm + 2 * static_cast<uint32_t>(Plan::kDepth * int{sizeof(float)})),
        end(barriers + static_cast<uint32_t>(8 * (1 + kGroups * stages))) {}
};

#if ASSAY_HAS_WGMMA

// Two edges of a thread, row and row + 8.
struct Rows {
  Planes::Edge edges[2];
  int64_t batch;

  __device__ Rows(const Arguments& a, uint32_t number) {
    const int row = static_cast<int>(threadIdx.x / 32 % 4) * 16 + static_cast<int>(threadIdx.x % 32) / 4;
    batch = number / a.tiles;
    const int64_t position = int64_t{number % a.tiles} * kGroupRows + row;
    edges[0] = a.planes.edge(position);
    edges[1] = a.planes.edge(position + 8);
  }
};

// Value e of a step of row `half`: channel 16 s + 2 q + e % 2 + e / 2 * 8.
template <class T>
__device__ float value_of(const uint32_t (&fragment)[4], int half, int e) {
  const uint32_t word = fragment[half + e / 2 * 2];
  if constexpr (std::is_same_v<T, bf16>) return __uint_as_float(e % 2 ? word & 0xFFFF0000u : word << 16);
  const float2 both = __half22float2(reinterpret_cast<const __half2&>(word));
  return e % 2 ? both.y : both.x;
}

// Computes z as fragments. hidden and gate are the addresses of this thread's rows in the boxes.
// Products that are added are written as fmaf(): bits must not depend on a compiler that may
// choose.
template <class Plan>
__device__ void make_z(const Arguments& a, uint32_t hidden, uint32_t gate, const float4* norm, float rest,
                       const DeviationScale& deviations, uint32_t (&z)[Plan::kSteps][4]) {
  using T = typename Plan::T;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int most = static_cast<int>(a.planes.hidden) - lane % 4 * 2;
  float h[2][Plan::kSteps][4], factors[2];
#pragma unroll
  for (int s = 0; s < Plan::kSteps; ++s) {
    uint32_t fragment[4];
    load_transposed(fragment, hidden + static_cast<uint32_t>(s * kStepDepth * kBoxRowBytes));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int e = 0; e < 4; ++e) h[half][s][e] = value_of<T>(fragment, half, e);
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
    if constexpr (Plan::kIsScaled) {
      factors[half] = deviations.factor(square, a.share);
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
#pragma unroll
  for (int s = 0; s < Plan::kSteps; ++s) {
    uint32_t fragment[4];
    load_transposed(fragment, gate + static_cast<uint32_t>(s * kStepDepth * kBoxRowBytes));
#pragma unroll
    for (int side = 0; side < 2; ++side) {
      // Weights and biases of two channels, 0 beyond the last one.
      const float4 n = norm[8 * s + 4 * side + lane % 4];
      const float w[2] = {Plan::kIsScaled ? __fmul_rn(n.x, rest) : n.x,
                          Plan::kIsScaled ? __fmul_rn(n.y, rest) : n.y};
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float* const v = h[half][s] + 2 * side;
        const float low = fmaf(__fmul_rn(v[0], factors[half]), w[0], n.z);
        const float high = fmaf(__fmul_rn(v[1], factors[half]), w[1], n.w);
        z[s][half + 2 * side] =
            pack_part<Plan::kFactor, 0>(__fmul_rn(low, value_of<T>(fragment, half, 2 * side)),
                                        __fmul_rn(high, value_of<T>(fragment, half, 2 * side + 1)));
      }
    }
  }
}

template <class Plan>
__device__ void finish_tiles(const Arguments& a, const Shared<Plan>& shared, const float4* norm, int group) {
  using Traits = TileFactor<Plan::kFactor>;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const uint32_t stride = kGroups * gridDim.x;
  uint32_t number = static_cast<uint32_t>(group) * gridDim.x + blockIdx.x;
  const auto barrier = [&](int stage) {
    return shared.barriers + static_cast<uint32_t>(8 * (1 + group * a.stages + stage));
  };
  const auto boxes = [&](int stage) {
    return shared.boxes + static_cast<uint32_t>((group * a.stages + stage) * 2 * Plan::kBoxBytes);
  };
  const bool copies = threadIdx.x % kGroupThreads == 0;
  const auto copy = [&](uint32_t tile, int stage) {
    if (!copies || tile >= a.all_tiles) return;
    const BoxAt at{static_cast<int>(tile % a.tiles) * kGroupRows, 0, static_cast<int>(tile / a.tiles)};
    arrive_with_copies(barrier(stage), 2 * Plan::kBoxBytes);
    copy_box(boxes(stage), a.hidden, at, barrier(stage));
    copy_box(boxes(stage) + Plan::kBoxBytes, a.gate, at, barrier(stage));
  };
  // Weights and norms come from kernels before the projections.
  wait_for_kernel_before();
  for (int stage = 0; stage < a.stages; ++stage) {
    copy(number + static_cast<uint32_t>(stage) * stride, stage);
  }
  __syncwarp();
  const uint32_t in_box = row_in_box();
  const uint64_t columns = SharedFactor{shared.weights, Traits::kSlotNext, Traits::kBlockBytes}.descriptor();
  Power unscale(0);
  if constexpr (Plan::kIsScaled) unscale = Power(-a.scales->z - a.scales->weights[5]);
  wait_for_phase(shared.barriers, 0);
  int stage = 0;
  uint32_t phase = 0;
  for (; number < a.all_tiles; number += stride) {
    uint32_t z[Plan::kSteps][4];
    {
      const int64_t batch = a.first_batch + number / a.tiles;
      int exponent = 0;
      if constexpr (Plan::kIsScaled) {
        const SideScales& sides = a.sides[batch * a.sides_step];
        exponent = sides.left + sides.right - a.contraction_shift;
      }
      const DeviationScale deviations(exponent);
      wait_for_phase(barrier(stage), phase);
      const uint32_t hidden = boxes(stage) + in_box;
      make_z<Plan>(a, hidden, hidden + Plan::kBoxBytes, norm, deviations.rest.second, deviations, z);
    }
    synchronize_group(group);
    copy(number + static_cast<uint32_t>(a.stages) * stride, stage);
    __syncwarp();
    if (++stage == a.stages) {
      stage = 0;
      phase ^= 1;
    }
    const Rows rows(a, number);
    float* targets[2];  // rows of out; null without a row
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Planes::Edge& edge = rows.edges[half];
      float* const to = a.out + (a.first_batch + rows.batch) * a.out_batch + edge.first * a.out_first +
                        edge.second * a.out_second;
      targets[half] = edge.is_inside ? to : nullptr;
    }
    for (int chunk = 0; chunk < a.chunks; ++chunk) {
      float sums[64];
      const uint64_t b = moved(columns, static_cast<uint32_t>(chunk * Plan::kColumnsBytes));
      wgmma_begin();
#pragma unroll
      for (int s = 0; s < Plan::kSteps; ++s) {
        wgmma<typename Traits::F>(sums, z[s], moved(b, s * 2 * Traits::kSlotNext), s > 0 ? 1 : 0);
      }
      wgmma_commit();
      wgmma_wait<0>();
      keep_in_place(sums);
      if constexpr (Plan::kIsScaled) {
#pragma unroll
        for (float& sum : sums) sum *= unscale.first;
        if (unscale.second != 1) {
#pragma unroll
          for (float& sum : sums) sum *= unscale.second;
        }
      }
      const auto for_each_four = [&](auto store) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          if (targets[half] == nullptr) continue;
#pragma unroll
          for (int j = 0; j < 8; ++j) {
            const float* const s = sums + 8 * j + 2 * half;
            const float values[4] = {s[0], s[1], s[4], s[5]};
            store(targets[half], chunk * kSlotColumns + 16 * j + lane % 4 * 4, values);
          }
        }
      };
      if (a.has_vectors) {
        for_each_four([&](float* to, int channel, const float(&values)[4]) {
          if (channel >= a.channels) return;
          __stcs(reinterpret_cast<float4*>(to + channel), float4{values[0], values[1], values[2], values[3]});
        });
      } else {
        for_each_four([&](float* to, int channel, const float(&values)[4]) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            if (channel + e < a.channels) __stcs(to + (channel + e) * a.out_channel, values[e]);
          }
        });
      }
    }
  }
}

#endif  // ASSAY_HAS_WGMMA

template <class Plan>
__global__ void __launch_bounds__(kThreads, 1) finish_resident_kernel(const __grid_constant__ Arguments a) {
#if ASSAY_HAS_WGMMA
  extern __shared__ __align__(kBoxAlignment) uint8_t memory[];
  const uint32_t address = shared_address(memory);
  const Shared<Plan> shared(address, a.stages, a.chunks);
  if (threadIdx.x == 0) {
    for (int i = 0; i < 1 + kGroups * a.stages; ++i)
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
  if constexpr (Plan::kIsScaled) scale = Power(a.scales->z - kGateExponent<Plan::kFactor>);
  for (int i = static_cast<int>(threadIdx.x); i < 2 * Plan::kDepth; i += kThreads) {
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
  const int64_t groups = (int64_t{a.all_tiles} + kGroups - 1) / kGroups;
  const auto blocks =
      static_cast<unsigned>(std::min({int64_t{job.multiprocessors}, groups, kMostBlocks.value()}));
  launch_dependent(true, "finish_resident_kernel", kernel, dim3(blocks), dim3(kThreads),
                   Shared<Plan>(0, a.stages, a.chunks).end, job.stream, a);
  return true;
}

}  // namespace

template <Format kFactor>
bool finish_resident(const Job<kFactor>& job) {
  using Traits = TileFactor<kFactor>;
  const Tensors& t = job.tensors;
  const Planes& p = job.planes;
  const auto channels = static_cast<int>(t.out.shape[3]);
  const int64_t tiles = (p.plane() + kGroupRows - 1) / kGroupRows, all_tiles = tiles * job.count;
  if (p.hidden == 0 || p.hidden > kSlotColumns || p.plane() > INT32_MAX || all_tiles > INT32_MAX)
    return false;
  const Arguments a{
      .hidden = {},
      .gate = {},
      .norms = job.weights.norms,
      .slots = job.weights.to_out,
      .scales = job.weights.scales,
      .sides = job.sides,
      .sides_step = job.sides_step,
      .contraction_shift = job.contraction_shift,
      .out = t.out.as<float>(),
      .out_batch = t.out.strides[0],
      .out_first = t.out.strides[1],
      .out_second = t.out.strides[2],
      .out_channel = t.out.strides[3],
      .has_vectors = t.out.strides[3] == 1 && channels % 4 == 0 && is_aligned_across(t.out, 0, 3, 16),
      .planes = p,
      .channels = channels,
      .chunks = (channels + kSlotColumns - 1) / kSlotColumns,
      .stages = 0,
      .share = 1.0f / static_cast<float>(p.hidden),
      .tiles = static_cast<uint32_t>(tiles),
      .all_tiles = static_cast<uint32_t>(all_tiles),
      .first_batch = job.first};
  if (p.hidden <= Traits::kSlotDepth) return launch<Plan<kFactor, 1>>(job, a);
  return launch<Plan<kFactor, 2>>(job, a);
}

template bool finish_resident(const Job<Format::kF16>&);
template bool finish_resident(const Job<Format::kBF16>&);

}  // namespace assay::trimul
