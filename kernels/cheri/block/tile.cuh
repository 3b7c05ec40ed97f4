// SPDX-License-Identifier: Apache-2.0
// The Cheri block after its statistics, in tiles of 64 positions.
//
// One warpgroup of a block are producers (producer.cuh). They keep copies of x and of the weights
// to shared memory in flight. The other warpgroups are consumers. Each consumer takes a tile to its
// registers, convolves it (convolve.cuh), and takes it through both products. The accumulators of
// the first product become, through the GELU, the fragments of the second. In the end x is added.
// While one consumer waits for its products, another has something to compute.
//
// Columns. Of each block of 4 * kVector channels, a lane's fragments hold the kVector neighbouring
// channels that it can load and store at once. A column of a product may stand for any channel as
// long as the weights agree: channel_at().
//
// Rows. Positions of an example are reordered so that positions d apart come close together
// (RowOrder). So the taps of a tile are rows of the same tile or beside it, for any dilation.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cheri/block/convolve.cuh"
#include "kernels/cheri/block/gelu.cuh"
#include "kernels/core_cuda/global_memory.cuh"
#include "kernels/core_cuda/mma.cuh"
#include "kernels/core_cuda/wgmma.cuh"

namespace assay::cheri {

// Calls term(part of a, part of b) for each product of parts that is computed.
template <int kParts, class Term>
__device__ void for_each_term(Term&& term) {
  term(0, 0);
  if constexpr (kParts == 2) {
    term(0, 1);
    term(1, 0);
  }
}

// Enqueues z = y * w1, or computes it. The chunk begins at `weights`.
template <class Plan>
__device__ void multiply_w1(float (&z)[Plan::kChunk / 2], const uint32_t (&y)[Plan::kParts][Plan::kSteps][4],
                            uint32_t weights) {
  using F = typename Plan::F;
  constexpr int kNextRows = Plan::kColumns * 16;  // [bytes] from 8 hidden units to the next 8
#if ASSAY_HAS_WGMMA
#pragma unroll
  for (int step = 0; step < Plan::kSteps; ++step) {
    for_each_term<Plan::kParts>([&](int p, int q) {
      const SharedFactor columns{weights + q * Plan::kFirstBytes + step * 256, 128, kNextRows};
      wgmma<F>(z, y[p][step], columns.descriptor(), step > 0 || p > 0 || q > 0);
    });
  }
#else
#pragma unroll
  for (float& value : z) value = 0;
#pragma unroll
  for (int step = 0; step < Plan::kSteps; ++step) {
#pragma unroll
    for (int rows = 0; rows < Plan::kChunk / 8; ++rows) {
      uint32_t b[Plan::kParts][4];  // two steps, one after the other
#pragma unroll
      for (int q = 0; q < Plan::kParts; ++q) {
        load_matrices(b[q], weights + q * Plan::kFirstBytes + rows * kNextRows + step / 2 * 512);
      }
      for_each_term<Plan::kParts>([&](int p, int q) {
        mma_m16n8k16<F>(z + rows * 4, y[p][step], b[q][step % 2 * 2], b[q][step % 2 * 2 + 1]);
      });
    }
  }
#endif
}

template <class Plan>
using Sums = float[Plan::kOutColumns / Plan::kPart][Plan::kPart / 2];

// Enqueues sums += h * w2, or computes it.
template <class Plan>
__device__ void multiply_w2(Sums<Plan>& sums, const uint32_t (&h)[Plan::kParts][Plan::kChunkSteps][4],
                            uint32_t weights) {
  using F = typename Plan::F;
#pragma unroll
  for (int step = 0; step < Plan::kChunkSteps; ++step) {
#pragma unroll
    for (int part = 0; part < Plan::kOutColumns / Plan::kPart; ++part) {
      for_each_term<Plan::kParts>([&](int p, int q) {
        const uint32_t at = weights + Plan::kParts * Plan::kFirstBytes + q * Plan::kSecondBytes +
                            (step * Plan::kOutColumns + part * Plan::kPart) * 32;
#if ASSAY_HAS_WGMMA
        wgmma<F>(sums[part], h[p][step], SharedFactor{at, 128, 256}.descriptor(), 1);
#else
#pragma unroll
        for (int rows = 0; rows < Plan::kPart / 8; rows += 2) {
          uint32_t b[4];
          load_matrices(b, at + rows * 256);
          mma_m16n8k16<F>(sums[part] + rows * 4, h[p][step], b[0], b[1]);
          mma_m16n8k16<F>(sums[part] + rows * 4 + 4, h[p][step], b[2], b[3]);
        }
#endif
      });
    }
  }
}

// Applies the GELU to a chunk's hidden units. The result has the form of fragments.
template <class Plan>
__device__ void activate(const float (&z)[Plan::kChunk / 2],
                         uint32_t (&h)[Plan::kParts][Plan::kChunkSteps][4]) {
#pragma unroll
  for (int i = 0; i < Plan::kChunkSteps * 4; ++i) {
    const int at = i / 4 * 8 + i % 4 * 2;  // accumulators of 16 columns are fragments of 16
    uint32_t parts[Plan::kParts];
    split<Plan>(gelu(z[at]), gelu(z[at + 1]), parts);
#pragma unroll
    for (int p = 0; p < Plan::kParts; ++p) h[p][i / 4][i % 4] = parts[p];
  }
}

// The chunks of the weights in the order of their use.
struct Chunks {
  int slot = 0;
  uint32_t parity = 0;

  __device__ void next(int slots, bool streams) {
    if (++slot < slots) return;
    slot = 0;
    if (streams) parity ^= 1;
  }
};

// sums = gelu(y * w1) * w2. The last products may still be running when it returns.
template <class Plan>
__device__ void multiply(const BlockArguments<typename Plan::T>& a, const Layout<Plan>& layout,
                         Chunks& chunks, const uint32_t (&y)[Plan::kParts][Plan::kSteps][4],
                         Sums<Plan>& sums) {
  for (int chunk = 0; chunk < a.chunks; ++chunk) {
    const uint32_t unit = layout.weights + chunks.slot * Plan::kUnit;
    wait_for_phase(layout.chunk_full + 8 * chunks.slot, chunks.parity);
    float z[Plan::kChunk / 2];
#if ASSAY_HAS_WGMMA
    keep_in_place(z);
    wgmma_begin();
#endif
    multiply_w1<Plan>(z, y, unit);
#if ASSAY_HAS_WGMMA
    wgmma_commit();
    wgmma_wait<0>();
    keep_in_place(z);
#endif
    // The products with the chunk before are complete, too.
    if (a.streams && chunk > 0) release_chunk<Plan>(layout, chunks.slot == 0 ? a.slots - 1 : chunks.slot - 1);
    uint32_t h[Plan::kParts][Plan::kChunkSteps][4];
    activate<Plan>(z, h);
#if ASSAY_HAS_WGMMA
#pragma unroll
    for (auto& part : sums) keep_in_place(part);
    wgmma_begin();
#endif
    multiply_w2<Plan>(sums, h, unit);
#if ASSAY_HAS_WGMMA
    wgmma_commit();
#endif
    chunks.next(a.slots, a.streams);
  }
}

// Loads x of one of the lane's rows again, from vector number `first` on.
template <class Plan, int kVectors>
__device__ void load_row(const BlockArguments<typename Plan::T>& a, int64_t row, int first,
                         Vector<Plan> (&x)[kVectors]) {
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int column = (first + v) * 4 * Plan::kVector + static_cast<int>(threadIdx.x) % 4 * Plan::kVector;
    x[v] = {};
    if (row < 0 || column >= a.channels) continue;
    load_in_place(x[v].words, a.x + row + column);
  }
}

// out = x + sums in one of the lane's rows, from vector number `first` on. A sum of 0 leaves the
// bits of x; adding 0 would turn -0 into 0.
template <class Plan, int kVectors>
__device__ void store_row(const BlockArguments<typename Plan::T>& a, int64_t row, int half, int first,
                          const Vector<Plan> (&x)[kVectors], const Sums<Plan>& sums) {
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int column = (first + v) * 4 * Plan::kVector + static_cast<int>(threadIdx.x) % 4 * Plan::kVector;
    float values[Plan::kVector];
#pragma unroll
    for (int i = 0; i < Plan::kVector; ++i) {
      const int block = 2 * (v * (Plan::kVector / 4) + i / 4) + i % 4 / 2;  // of 8 columns
      const float sum = sums[block * 8 / Plan::kPart][block * 8 % Plan::kPart / 2 + half * 2 + i % 2];
      values[i] = sum == 0 ? x[v][i] : x[v][i] + sum;
    }
    store_pieces<16>(a.out + row + column, 0, round_to<typename Plan::T>(values),
                     row >= 0 && column < a.channels ? 1 : 0);
  }
}

// Waits until the sums are complete.
template <class Plan>
__device__ void wait_for_sums([[maybe_unused]] Sums<Plan>& sums) {
#if ASSAY_HAS_WGMMA
  wgmma_wait<0>();
#pragma unroll
  for (auto& part : sums) keep_in_place(part);
#endif
}

// Waits for the sums of multiply() and adds them to x.
template <class Plan>
__device__ void finish_rows(const BlockArguments<typename Plan::T>& a, const LaneRows<Plan>& rows, int out,
                            Sums<Plan>& sums) {
  constexpr int kVectors = Plan::kOutColumns / (4 * Plan::kVector);
  if constexpr (Plan::kKeepsX) {
    wait_for_sums<Plan>(sums);
    store_row<Plan>(a, rows.out[0], 0, 0, rows.kept[0], sums);
    store_row<Plan>(a, rows.out[1], 1, 0, rows.kept[1], sums);
  } else {
    // The loads of one row are in flight during the last product, those of the other row while the
    // first is stored.
    Vector<Plan> x[2][kVectors];
    load_row<Plan>(a, rows.x[0], out * kVectors, x[0]);
    wait_for_sums<Plan>(sums);
    load_row<Plan>(a, rows.x[1], out * kVectors, x[1]);
    store_row<Plan>(a, rows.out[0], 0, out * kVectors, x[0], sums);
    store_row<Plan>(a, rows.out[1], 1, out * kVectors, x[1], sums);
  }
}

template <class Plan>
__device__ void consume(const BlockArguments<typename Plan::T>& a, const Layout<Plan>& layout, int consumer) {
  uint32_t parities = 0;
  Chunks chunks;
  for (int item = 0; has_item<Plan>(a, item, consumer); ++item) {
    for (int out = 0; out < Plan::kOuts; ++out) {
      LaneRows<Plan> rows;
      take_rows<Plan>(a, layout, consumer, piece_number<Plan>(item, out, consumer), parities, rows);
      Sums<Plan> sums = {};
      multiply<Plan>(a, layout, chunks, rows.factors, sums);
      finish_rows<Plan>(a, rows, out, sums);
      if (a.streams) release_chunk<Plan>(layout, chunks.slot == 0 ? a.slots - 1 : chunks.slot - 1);
    }
  }
}

template <class Plan>
__global__ void __launch_bounds__(Plan::kThreads, 1)
    block_kernel(const __grid_constant__ BlockArguments<typename Plan::T> a) {
  extern __shared__ __align__(128) uint8_t shared[];
  const Layout<Plan> layout(shared, a.slots);
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < 3 * Plan::kColumns; i += Plan::kThreads) {
    const int channel = i % Plan::kColumns;
    layout.taps[i] = channel < a.channels
                         ? load_element(a.taps + i / Plan::kColumns * a.tap + channel * a.tap_channel)
                         : 0.0f;
  }
  if (thread == 0) make_barriers<Plan>(layout, a.slots);
  __syncthreads();

  const int group = __shfl_sync(0xFFFFFFFFu, thread / kGroupThreads, 0);
  if (group < Plan::kConsumers) {
#if ASSAY_HAS_WGMMA
    take_registers<Plan::kConsumerRegisters>();
#endif
    consume<Plan>(a, layout, group);
  } else {
#if ASSAY_HAS_WGMMA
    give_registers<Plan::kProducerRegisters>();
#endif
    produce<Plan>(a, layout, thread - Plan::kConsumers * kGroupThreads);
  }
}

}  // namespace assay::cheri
