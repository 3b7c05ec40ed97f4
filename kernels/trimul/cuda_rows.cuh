// SPDX-License-Identifier: Apache-2.0
// The rows of the kernel whose weights stream (cuda_streamed.cuh): four warps write them to shared
// memory, two warpgroups read them as fragments.
#pragma once

#include <cstdint>

#include "kernels/core_cuda/mma.cuh"
#include "kernels/trimul/cuda_edges.cuh"
#include "kernels/trimul/cuda_streamed.cuh"

namespace assay::trimul::streamed {

// A warp calls it: it makes its 16 rows of the tiles of both groups in turn.
template <class Plan>
__device__ void make_rows(const Arguments& a, const Ring<Plan>& ring, uint8_t* shared) {
  constexpr int kVectors = Plan::kVectors, kAtOnce = Plan::kAtOnce, kAhead = Plan::kAhead;
  const int lane = static_cast<int>(threadIdx.x % 32),
            first_row = static_cast<int>(threadIdx.x / 32 % kWarps) * kWarpRows;
  const Channels<kVectors> channels(a.in.channels);
  const auto* const norm = reinterpret_cast<const float*>(shared + Plan::kNorm);
  EdgeValues<kVectors> edges[kAhead][kAtOnce];
  const uint32_t count = rounds(a) * kGroups;
  const auto tile_of = [&](uint32_t number) {
    return TileOfRound(a, number / kGroups, static_cast<int>(number % kGroups));
  };
  const auto load = [&](EdgeValues<kVectors>(&to)[kAtOnce], const TileOfRound& tile, int row) {
    load_edges(to, a.in, a.first_batch + tile.in_job, int64_t{tile.start} + first_row + row);
  };
#pragma unroll
  for (int i = 0; i < kAhead; ++i) load(edges[i], tile_of(0), i * kAtOnce);
  for (uint32_t number = 0; number < count; ++number) {
    const int group = static_cast<int>(number % kGroups);
    const TileOfRound tile = tile_of(number), next = tile_of(min(number + 1, count - 1));
    const float mask = a.in.mask_of(a.first_batch + tile.in_job,
                                    a.in.planes.edge(int64_t{tile.start} + first_row + lane % kWarpRows));
    wait_for_phase(ring.rows_empty(group), number / kGroups % 2 ^ 1);
    auto* const masks = reinterpret_cast<float*>(shared + Plan::kMasks) + group * kGroupRows;
    if (lane < kWarpRows) masks[first_row + lane] = mask;
    uint8_t* const rows = shared + Plan::kRows + (group * kGroupRows + first_row) * Plan::kRowBytes;
    for (int row = 0; row < kWarpRows; row += kAhead * kAtOnce) {
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const int at = row + i * kAtOnce, ahead = at + kAhead * kAtOnce;
        float factors[kAtOnce];
        if constexpr (kAhead == 1) {
          const TileOfRound& of = ahead + kAtOnce < kWarpRows ? tile : next;
          prefetch_edges<kAtOnce>(a.in, a.first_batch + of.in_job,
                                  int64_t{of.start} + first_row + (ahead + kAtOnce) % kWarpRows);
        }
        centre(edges[i], channels, factors);
#pragma unroll
        for (int v = 0; v < kVectors; ++v) {
          EdgeValues<1> weight, bias;
          load_norm(weight, norm + 128 * v);
          load_norm(bias, norm + Plan::kNormFloats + 128 * v);
#pragma unroll
          for (int e = 0; e < kAtOnce; ++e) {
            pack_vector<Plan::kFactor>(edges[i][e], v, factors[e], weight.values[0], bias.values[0],
                                       [&](int part, int channel, const uint2& packed) {
                                         if (channel >= Plan::kDepth) return;
                                         uint8_t* const to = rows + (at + e) * Plan::kRowBytes +
                                                             part * Plan::kPartBytes +
                                                             channel * int{sizeof(typename Plan::F)};
                                         *reinterpret_cast<uint2*>(to) = packed;
                                       });
          }
        }
        load(edges[i], ahead < kWarpRows ? tile : next, ahead % kWarpRows);
      }
    }
    arrive(ring.rows_full(group));
  }
}

// A warpgroup's rows as fragments.
template <class Plan>
__device__ void load_fragments(typename Plan::Fragments& fragments, uint32_t rows) {
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32 % kWarps);
  // Matrices of a step: rows 0 .. 7, rows 8 .. 15, then the same for the next eight channels.
  const uint32_t from = rows + static_cast<uint32_t>((kWarpRows * warp + lane % 16) * Plan::kRowBytes) +
                        static_cast<uint32_t>(lane / 16 * 16);
#pragma unroll
  for (int part = 0; part < Plan::kParts; ++part) {
#pragma unroll
    for (int s = 0; s < Plan::kSteps; ++s) {
      load_rows(fragments[part][s],
                from + static_cast<uint32_t>(part * Plan::kPartBytes) +
                    static_cast<uint32_t>(s * kStepDepth * int{sizeof(typename Plan::F)}));
    }
  }
}

}  // namespace assay::trimul::streamed
