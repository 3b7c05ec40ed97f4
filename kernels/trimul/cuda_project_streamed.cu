// SPDX-License-Identifier: Apache-2.0
// The first kernel of trimul for more channels or hidden channels than cuda_project_resident.cu
// serves, and for factors in two parts.
//
// Blocks are persistent. Four warps normalise x and write xn as rows to shared memory. Two
// warpgroups multiply: each has a tile of 64 edges, which it keeps in registers while the weights
// of all projections pass by in a ring in shared memory. So the next tiles are made meanwhile. One
// warp has the weights copied. Two blocks form a cluster, in which each copies half of the weights
// to both.
//
// The groups take turns: while one multiplies 128 columns, the other computes sigmoids. Results
// leave through shared memory, as boxes of 64 edges.
#include <cstdint>

#include "kernels/core_cuda/bulk_copy.cuh"
#include "kernels/core_cuda/cluster.cuh"
#include "kernels/core_cuda/shared_memory.cuh"
#include "kernels/trimul/cuda_boxes.cuh"
#include "kernels/trimul/cuda_gates.cuh"
#include "kernels/trimul/cuda_plan.cuh"
#include "kernels/trimul/cuda_rows.cuh"
#include "kernels/trimul/cuda_stage.cuh"
#include "kernels/trimul/cuda_streamed.cuh"

namespace assay::trimul {
namespace streamed {
namespace {

#if ASSAY_HAS_WGMMA

// One thread calls it. It copies its half of all pieces, as places become free in both blocks.
template <class Plan>
__device__ void copy_weights(const Arguments& a, Ring<Plan> ring) {
  constexpr uint32_t kBytes = Plan::kPieceBytes, kShare = kBytes / kCluster;
  const uint32_t offset = static_cast<uint32_t>(cluster_rank()) * kShare;
  const int pieces = (2 * a.side_chunks + a.gate_chunks) * Plan::kPieces;
  for (uint32_t round = 0; round < rounds(a); ++round) {
    for (int piece = 0; piece < pieces; ++piece) {
      const uint32_t full = ring.full(ring.at);
      wait_for_phase(ring.empty(ring.at), ring.phase ^ 1);
      arrive_with_copies(full, kBytes);
      copy_bulk_to_cluster<kCluster>(ring.piece() + offset, a.slots + piece * int64_t{kBytes} + offset,
                                     kShare, full);
      ring.advance();
    }
  }
}

// A warpgroup calls it when it is its turn, and ends its turn: the product of its rows with the
// next 128 columns.
template <class Plan>
__device__ void multiply(float (&sums)[64], const typename Plan::Fragments& fragments, int group,
                         Ring<Plan>& ring) {
  using Traits = typename Plan::Traits;
  constexpr uint32_t kParts = Plan::kParts, kNext = Traits::kSlotNext;
  constexpr int kSlotSteps = Traits::kSlotDepth / kStepDepth;
  int last = 0;
#pragma unroll
  for (int piece = 0; piece < Plan::kPieces; ++piece) {
    wait_for_phase(ring.full(ring.at), ring.phase);
    // The other group needs a while to begin.
    if (piece == Plan::kPieces - 1 && threadIdx.x % 32 == 0) arrive(ring.turn(1 - group));
    __syncwarp();
    const uint64_t columns = SharedFactor{ring.piece(), kParts * kNext, Traits::kBlockBytes}.descriptor();
    wgmma_begin();
#pragma unroll
    for (int k = 0; k < Plan::kPieceSteps; ++k) {
      const int step = piece * Plan::kPieceSteps + k, on_top = step > 0 ? 1 : 0;
      const uint64_t column = moved(columns, static_cast<uint32_t>(k / kSlotSteps * Traits::kSlotBytes) +
                                                 static_cast<uint32_t>(k % kSlotSteps * 2) * kParts * kNext);
      multiply_step<Plan::kFactor>(sums, fragments, step, column, on_top);
    }
    wgmma_commit();
    if (piece > 0) {
      wgmma_wait<1>();
      arrive_at_cluster<kCluster>(ring.empty(last));
    }
    last = ring.at;
    ring.advance();
  }
  wgmma_wait<0>();
  keep_in_place(sums);
  arrive_at_cluster<kCluster>(ring.empty(last));
}

// What a warpgroup does with sums of 128 columns.
template <class Plan>
class Results {
  static constexpr Format kFactor = Plan::kFactor;

 public:
  __device__ Results(const Arguments& a, uint32_t shared, int group)
      : a_(a), boxes_(shared + static_cast<uint32_t>(group * Plan::Boxes::kAllBytes), group) {}

  // Writes 64 channels of left or right.
  __device__ void write_side(const float (&sums)[64], float exponent, const float (&factors)[2],
                             const CUtensorMap& map, const TileOfRound& tile, int channel) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float values[16];
      gate_projections<kFactor>(sums + 32 * half, exponent, factors, values);
      boxes_.template put<kFactor, 0>(values, 0);
      if constexpr (Plan::kParts == 2) boxes_.template put<kFactor, 1>(values, kBoxRows);
      boxes_.end([&](uint32_t place) {
        for (int part = 0; part < Plan::kParts; ++part) {
          copy_box_out(map, at(tile, channel + half * kBoxRows, part),
                       place + static_cast<uint32_t>(part * kBoxRows * kBoxRowBytes));
        }
      });
    }
  }
  // Writes 128 channels of the gate of the output.
  __device__ void write_gate(const float (&sums)[64], float exponent, const TileOfRound& tile, int channel) {
    if constexpr (sizeof(typename Plan::Gate) == 2) {
#pragma unroll
      for (int quarter = 0; quarter < 4; ++quarter) {
        float values[16];
        sigmoids<kFactor, kGateExponent<kFactor>>(sums + 16 * quarter, exponent, values);
        boxes_.template put<kFactor>(values, 0);
        boxes_.end(
            [&](uint32_t place) { copy_box_out(a_.gate, at(tile, channel + quarter * kBoxRows, 0), place); });
      }
    } else {
      const int lane = static_cast<int>(threadIdx.x % 32);
      const int64_t plane = a_.in.planes.plane(),
                    first = int64_t{tile.start} + static_cast<int>(threadIdx.x / 32 % kWarps) * kWarpRows;
      float* gate = static_cast<float*>(a_.gates) + tile.in_job * a_.in.planes.batch() +
                    (channel + lane % 4 * 2) * plane + first + lane / 4;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float values[32];
        sigmoids<kFactor, kGateExponent<kFactor>>(sums + 32 * half, exponent, values);
        write_columns(values, gate, plane, static_cast<int>(a_.in.planes.hidden) - channel - half * 64,
                      plane - first);
      }
    }
  }
  __device__ void finish() const {
    boxes_.finish();
  }

 private:
  __device__ BoxAt at(const TileOfRound& tile, int channel, int part) const {
    return {static_cast<int>(tile.start), channel,
            static_cast<int>(tile.in_job) + part * static_cast<int>(a_.batches)};
  }

  const Arguments& a_;
  typename Plan::Boxes boxes_;
};

template <class Plan>
__device__ void project_tiles(const Arguments& a, Ring<Plan> ring, const uint8_t* shared, int group) {
  constexpr Format kFactor = Plan::kFactor;
  const int row =
      static_cast<int>(threadIdx.x / 32 % kWarps) * kWarpRows + static_cast<int>(threadIdx.x % 32) / 4;
  const auto* const masks = reinterpret_cast<const float*>(shared + Plan::kMasks) + group * kGroupRows + row;
  const uint32_t rows =
      ring.address + static_cast<uint32_t>(Plan::kRows + group * kGroupRows * Plan::kRowBytes);
  Results<Plan> results(a, ring.address, group);
  uint32_t turn_phase = group == 0 ? 1 : 0;  // group 0 begins
  typename Plan::Fragments fragments;
  float sums[64];
  const auto take_turn = [&] {
    wait_for_phase(ring.turn(group), turn_phase);
    turn_phase ^= 1;
    multiply<Plan>(sums, fragments, group, ring);
  };
  for (uint32_t round = 0; round < rounds(a); ++round) {
    const TileOfRound tile(a, round, group);
    wait_for_phase(ring.rows_full(group), round % 2);
    load_fragments<Plan>(fragments, rows);
    const float mask[2] = {masks[0], masks[8]};
    arrive(ring.rows_empty(group));
    for (int side = 0; side < 2; ++side) {
      float factors[2] = {mask[0], mask[1]};
      scale_masks<kFactor>(factors, a, a.first_batch + tile.in_job, side);
      const float exponent = to_exponent<kFactor>(a.scales, 2 + side);
      for (int chunk = 0; chunk < a.side_chunks; ++chunk) {
        take_turn();
        if (tile.exists)
          results.write_side(sums, exponent, factors, side == 0 ? a.left : a.right, tile,
                             chunk * kStagedHidden);
      }
    }
    const float exponent = to_exponent<kFactor>(a.scales, 4);
    for (int chunk = 0; chunk < a.gate_chunks; ++chunk) {
      take_turn();
      if (tile.exists) results.write_gate(sums, exponent, tile, chunk * kSlotColumns);
    }
  }
  results.finish();
}

#endif  // ASSAY_HAS_WGMMA

template <class Plan>
__global__ void __launch_bounds__(kThreads, 1) project_streamed_kernel(const __grid_constant__ Arguments a) {
#if ASSAY_HAS_WGMMA
  extern __shared__ __align__(kBoxAlignment) uint8_t shared[];
  const Ring<Plan> ring{shared_address(shared)};
  if (threadIdx.x == 0) ring.make_barriers();
  auto* const norm = reinterpret_cast<float*>(shared + Plan::kNorm);
  for (int i = static_cast<int>(threadIdx.x); i < 2 * Plan::kNormFloats; i += kThreads) {
    const int channel = i % Plan::kNormFloats;
    float value = i < Plan::kNormFloats ? a.norms->weight[channel] : a.norms->bias[channel];
    if constexpr (kIsScaled<Plan::kFactor>) value = Power(a.scales->xn)(value);
    norm[i] = value;
  }
  cluster_arrive();
  cluster_wait();
  const int group = group_of_thread();
  if (group < kGroups) {
    take_registers<Plan::kRegisters>();
    project_tiles<Plan>(a, ring, shared, group);
  } else if (group == kGroups) {
    if constexpr (Plan::kMakersRegisters > kLaunchRegisters) {
      take_registers<Plan::kMakersRegisters>();
    } else {
      give_registers<Plan::kMakersRegisters>();
    }
    make_rows<Plan>(a, ring, shared);
  } else {
    give_registers<kCopiersRegisters>();
    if (threadIdx.x % kGroupThreads == 0) copy_weights<Plan>(a, ring);
  }
  // Until then the other block may still free places of this one.
  cluster_arrive();
  cluster_wait();
#else
  __trap();  // the host offers this kernel only on devices that serve it
#endif
}

template <class Plan>
void launch(const Job<Plan::kFactor>& job, const Arguments& a) {
  const int64_t clusters = clusters_of(a.tiles.all, kGroups * kCluster, job.multiprocessors, kCluster);
  launch_clusters({.name = "project_streamed_kernel",
                   .compute_capability = 90,
                   .size = kCluster,
                   .threads = kThreads,
                   .shared_bytes = Plan::kShared,
                   .stream = job.stream},
                  project_streamed_kernel<Plan>, clusters, a);
}

}  // namespace
}  // namespace streamed

template <Format kFactor>
void project_streamed(const Job<kFactor>& job) {
  using namespace streamed;
  constexpr int kStep = kDepthStep<kFactor>, kMost = kMostDepth<kFactor>;
  const Arguments a(job);
  if (a.in.channels <= kStep) return launch<Plan<kFactor, kStep>>(job, a);
  if constexpr (kMost > 2 * kStep) {
    if (a.in.channels <= 2 * kStep) return launch<Plan<kFactor, 2 * kStep>>(job, a);
  }
  launch<Plan<kFactor, kMost>>(job, a);
}

template void project_streamed(const Job<Format::kF16>&);
template void project_streamed(const Job<Format::kBF16>&);
template void project_streamed(const Job<Format::kF16x3>&);

}  // namespace assay::trimul
