// SPDX-License-Identifier: Apache-2.0
// The Cheri block's normalised convolution of a tile in shared memory, as fragments of the first
// product.
#pragma once

#include <cstdint>

#include "kernels/cheri/block/producer.cuh"
#include "kernels/core_cuda/mma.cuh"
#include "kernels/core_cuda/packed.cuh"

namespace assay::cheri {

template <class T>
__device__ float load_element(const T* from) {
  Bits<T, 1> bits{};
  load_pieces<int{sizeof(T)}>(bits, from, 0);
  return bits[0];
}

template <class Plan>
__device__ void split(float low, float high, uint32_t (&parts)[Plan::kParts]) {
  parts[0] = pack_factors<typename Plan::F>(low, high);
  if constexpr (Plan::kSplit) parts[1] = pack_remainders(low, high, parts[0]);
}

// A vector of a row in shared memory.
template <class Plan>
using Vector = Bits<typename Plan::T, Plan::kVector>;

template <class Plan>
__device__ Vector<Plan> shared_vector(const uint8_t* from) {
  Vector<Plan> bits;
  *reinterpret_cast<uint4*>(bits.words) = *reinterpret_cast<const uint4*>(from);
  return bits;
}

// What a lane keeps of its two rows: those of its fragments, 8 apart.
template <class Plan>
struct LaneRows {
  static constexpr int kKept = Plan::kKeepsX ? Plan::kPieces * Plan::kPieceVectors : 1;
  int64_t x[2], out[2];  // see RowInfo
  Vector<Plan> kept[2][kKept];
  uint32_t factors[Plan::kParts][Plan::kSteps][4];
};

// Vectors of a row and of its neighbours.
template <class Plan>
struct Neighbourhood {
  Vector<Plan> before, centre, after;

  __device__ void load(const uint8_t* row, const RowInfo& info) {
    before = shared_vector<Plan>(row + info.before);
    centre = shared_vector<Plan>(row);
    after = shared_vector<Plan>(row + info.after);
  }
};

// Convolves and normalises vector number `number` of both rows.
template <class Plan>
__device__ void convolve_vector(const BlockArguments<typename Plan::T>& a, const float* taps,
                                const RowInfo (&info)[2], const Neighbourhood<Plan> (&x)[2], int number,
                                LaneRows<Plan>& rows) {
  constexpr int kVector = Plan::kVector;
  const int channel = number * 4 * kVector + static_cast<int>(threadIdx.x) % 4 * kVector;
  float w[3][kVector];
#pragma unroll
  for (int i = 0; i < 3 * kVector; i += 4) {
    const float* const from = taps + i / kVector * Plan::kColumns + channel + i % kVector;
    *reinterpret_cast<float4*>(&w[i / kVector][i % kVector]) = *reinterpret_cast<const float4*>(from);
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if constexpr (Plan::kKeepsX) rows.kept[half][number] = x[half].centre;
    float y[kVector];
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      const float conv = convolve(x[half].before[i], x[half].centre[i], x[half].after[i],
                                  info[half].before != 0, info[half].after != 0, w[0][i], w[1][i], w[2][i]);
      y[i] = info[half].norm(conv);
    }
#pragma unroll
    for (int i = 0; i < kVector; i += 2) {
      uint32_t parts[Plan::kParts];
      split<Plan>(y[i], y[i + 1], parts);
      // Factors of channels that do not exist are 0, even if a row is not finite.
      const int left = a.channels - channel - i;
      const uint32_t mask = left > 1 ? 0xFFFFFFFFu : left > 0 ? 0xFFFFu : 0u;
      const int step = number * (kVector / 4) + i / 4;
      const int side = i % 4 / 2;
#pragma unroll
      for (int p = 0; p < Plan::kParts; ++p) rows.factors[p][step][half + 2 * side] = parts[p] & mask;
    }
  }
}

// Takes the pieces of the consumer's next tile, from number `number` on, and gives their memory
// back. Bit s of `parities` is the parity of the consumer's next piece in slot s.
template <class Plan>
__device__ void take_rows(const BlockArguments<typename Plan::T>& a, const Layout<Plan>& layout, int consumer,
                          int number, uint32_t& parities, LaneRows<Plan>& rows) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  // Of the fragment.
  const int row = static_cast<int>(threadIdx.x) % kGroupThreads / 32 * 16 + lane / 4;
  const int half = row % 2, in_half = row / 2;
#pragma unroll
  for (int piece = 0; piece < Plan::kPieces; ++piece) {
    const int slot = (number + piece) % Plan::kSlots;
    wait_for_phase(layout.full_of(consumer, slot), parities >> slot & 1);
    parities ^= 1u << slot;
    const RowInfo* const shared_info = layout.rows + slot * kTileRows + half * (kTileRows / 2) + in_half;
    const RowInfo info[2] = {shared_info[0], shared_info[4]};
    const uint8_t* const first = layout.pieces + slot * Plan::kPieceBytes + half * Plan::kHalfBytes +
                                 (in_half + kHalo) * a.pitch + lane % 4 * 16;
    const uint8_t* const second = first + 4 * a.pitch;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      rows.x[i] = info[i].x;
      rows.out[i] = info[i].out;
    }
    // The next vectors are in flight while the ones before are convolved.
    Neighbourhood<Plan> x[2][2];
    x[0][0].load(first, info[0]);
    x[0][1].load(second, info[1]);
#pragma unroll
    for (int v = 0; v < Plan::kPieceVectors; ++v) {
      if (v + 1 < Plan::kPieceVectors) {
        x[(v + 1) % 2][0].load(first + (v + 1) * 64, info[0]);
        x[(v + 1) % 2][1].load(second + (v + 1) * 64, info[1]);
      }
      convolve_vector<Plan>(a, layout.taps, info, x[v % 2], piece * Plan::kPieceVectors + v, rows);
    }
    arrive_after_loads(layout.empty_of(slot));
  }
}

}  // namespace assay::cheri
