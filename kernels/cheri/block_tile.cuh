// SPDX-License-Identifier: Apache-2.0
// The Cheri block after its statistics, for tiles of 64 positions.
//
// Producers, some warpgroups of a block, convolve and normalise (block_factors.cuh): their results go, as factors, to
// a ring of stages in shared memory. Consumers, the other warpgroups, take them through both products: the
// accumulators of the first one become, through the GELU, the fragments of the second one, without leaving their
// registers, and meet x again in the end. Weights lie in shared memory: all of them, if they fit, and consumers never
// wait for each other; else two chunks of hidden units, of which one is on its way while the other one is used.
//
// Columns. A lane has in its fragments, of each block of 4 * kVector channels, the kVector neighbouring ones that it
// can load and store at once. Which channel a column of a product stands for is free as long as the weights agree:
// channel_at().
//
// Rows. Positions of an example are taken in an order in which those that lie d apart come close together, so that the
// taps of a tile are mostly rows of the same tile, whatever the dilation: RowOrder.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cheri/block_factors.cuh"
#include "kernels/cheri/block_gelu.cuh"
#include "kernels/cheri/block_plan.cuh"
#include "kernels/core_cuda/mbarrier.cuh"
#include "kernels/core_cuda/mma.cuh"
#include "kernels/core_cuda/packed.cuh"
#include "kernels/core_cuda/wgmma.cuh"

namespace assay::cheri {

// Waits for the other consumers.
template <class Plan>
__device__ void consumer_barrier() {
  asm volatile("bar.sync 1, %0;" ::"n"(Plan::kConsumers * kGroupThreads) : "memory");
}

// Calls term(part of a, part of b) for each product of parts that is computed.
template <int kParts, class Term>
__device__ void for_each_term(Term&& term) {
  term(0, 0);
  if constexpr (kParts == 2) {
    term(0, 1);
    term(1, 0);
  }
}

// Enqueues z = y * w1, or computes it. `y` is where the warpgroup's factors begin, `weights` where the chunk does.
template <class Plan>
__device__ void multiply_w1(float (&z)[Plan::kChunk / 2], uint32_t y, uint32_t weights) {
  using F = typename Plan::F;
  constexpr int kNextRows = Plan::kColumns * 16;  // [bytes] from 8 hidden units to the next 8
#if ASSAY_HAS_WGMMA
#pragma unroll
  for (int step = 0; step < Plan::kSteps; ++step) {
    for_each_term<Plan::kParts>([&](int p, int q) {
      const SharedFactor rows{y + (p * Plan::kSteps + step) * Plan::kStepBytes, 128, 256};
      const SharedFactor columns{weights + q * Plan::kPiece + step * 256, 128, kNextRows};
      wgmma<F>(z, rows.descriptor(), columns.descriptor(), step > 0 || p > 0 || q > 0);
    });
  }
#else
  const uint32_t own = y + threadIdx.x % kGroupThreads / 32 * 512;
#pragma unroll
  for (float& value : z) value = 0;
#pragma unroll
  for (int step = 0; step < Plan::kSteps; ++step) {
    uint32_t a[Plan::kParts][4];
#pragma unroll
    for (int p = 0; p < Plan::kParts; ++p) {
      uint32_t b[4];
      load_matrices(b, own + (p * Plan::kSteps + step) * Plan::kStepBytes);
      a[p][0] = b[0], a[p][1] = b[2], a[p][2] = b[1], a[p][3] = b[3];
    }
#pragma unroll
    for (int rows = 0; rows < Plan::kChunk / 8; ++rows) {
      uint32_t b[Plan::kParts][4];  // two steps lie one after the other
#pragma unroll
      for (int q = 0; q < Plan::kParts; ++q) {
        load_matrices(b[q], weights + q * Plan::kPiece + rows * kNextRows + step / 2 * 512);
      }
      for_each_term<Plan::kParts>([&](int p, int q) {
        mma_m16n8k16<F>(z + rows * 4, a[p], b[q][step % 2 * 2], b[q][step % 2 * 2 + 1]);
      });
    }
  }
#endif
}

// Enqueues sums += h * w2, or computes it.
template <class Plan>
__device__ void multiply_w2(float (&sums)[Plan::kColumns / Plan::kPart][Plan::kPart / 2],
                            const uint32_t (&h)[Plan::kParts][Plan::kChunkSteps][4], uint32_t weights) {
  using F = typename Plan::F;
#pragma unroll
  for (int step = 0; step < Plan::kChunkSteps; ++step) {
#pragma unroll
    for (int part = 0; part < Plan::kColumns / Plan::kPart; ++part) {
      for_each_term<Plan::kParts>([&](int p, int q) {
        const uint32_t at =
            weights + (Plan::kParts + q) * Plan::kPiece + (step * Plan::kColumns + part * Plan::kPart) * 32;
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

// x of one of the lane's rows.
template <class Plan>
struct Residual {
  Bits<typename Plan::T, Plan::kVector> vectors[Plan::kVectors];

  __device__ void load(const BlockArguments<typename Plan::T>& a, const RowOffsets& row) {
    const int first = static_cast<int>(threadIdx.x) % 4 * Plan::kVector;
#pragma unroll
    for (int v = 0; v < Plan::kVectors; ++v) {
      const int column = first + v * 4 * Plan::kVector;
      load_vector(vectors[v], a.x + row.x + column, row.x >= 0 && column < a.channels);
    }
  }
};

// out = x + sums in one of the lane's rows. A sum of 0 leaves the bits of x, of which -0 + 0 would make another zero.
template <class Plan>
__device__ void store_row(const BlockArguments<typename Plan::T>& a, const RowOffsets& row, int half,
                          const Residual<Plan>& x,
                          const float (&sums)[Plan::kColumns / Plan::kPart][Plan::kPart / 2]) {
  const int first = static_cast<int>(threadIdx.x) % 4 * Plan::kVector;
#pragma unroll
  for (int v = 0; v < Plan::kVectors; ++v) {
    const int column = first + v * 4 * Plan::kVector;
    float values[Plan::kVector];
#pragma unroll
    for (int i = 0; i < Plan::kVector; ++i) {
      const int block = 2 * (v * (Plan::kVector / 4) + i / 4) + i % 4 / 2;  // of 8 columns
      const float sum = sums[block * 8 / Plan::kPart][block * 8 % Plan::kPart / 2 + half * 2 + i % 2];
      values[i] = sum == 0 ? x.vectors[v][i] : x.vectors[v][i] + sum;
    }
    store_pieces<16>(a.out + row.out + column, 0, round_to<typename Plan::T>(values),
                     row.x >= 0 && column < a.channels ? 1 : 0);
  }
}

// Brings chunk number `chunk` of the weights to `slot`, by the first `threads` threads of the block.
template <class Plan>
__device__ void copy_chunk(const BlockArguments<typename Plan::T>& a, int chunk, uint32_t slot, int threads) {
  for (int at = static_cast<int>(threadIdx.x) * 16; at < Plan::kUnit; at += threads * 16) {
    const int piece = at / Plan::kPiece;
    copy_async(slot + at,
               a.weights + piece * a.weight_bytes + int64_t{chunk} * Plan::kPiece + at % Plan::kPiece);
  }
}

// What the calling thread has copied is there, also for the tensor cores, after the barrier that follows.
__device__ inline void finish_copies() {
  copy_async_wait();
#if ASSAY_HAS_WGMMA
  fence_async_proxy();
#endif
}

// kResident: all weights are in shared memory at once.
template <class Plan, bool kResident>
__device__ void consume(const BlockArguments<typename Plan::T>& a, const Layout<Plan>& layout, int consumer) {
  constexpr int kThreads = Plan::kConsumers * kGroupThreads;
  const int row =
      static_cast<int>(threadIdx.x) % kGroupThreads / 32 * 16 + static_cast<int>(threadIdx.x) % 32 / 4;
  int slot = 0;
  // The weights of a streamed chunk are used by all consumers: those without a tile go along.
  for (int item = consumer; tile_of<Plan>(item - consumer) < a.tiles; item += Plan::kConsumers) {
    const bool has_tile = tile_of<Plan>(item) < a.tiles;
    if (kResident && !has_tile) break;
    const uint8_t* const factors = layout.factors_of(item);
    if (has_tile) wait_for_phase(layout.full_of(item), layout.parity_of(item));
    const RowOffsets* const offsets = layout.offsets_of(item) + row;
    const RowOffsets first_row = has_tile ? offsets[0] : RowOffsets{-1, 0};
    const RowOffsets second_row = has_tile ? offsets[8] : RowOffsets{-1, 0};
    float sums[Plan::kColumns / Plan::kPart][Plan::kPart / 2] = {};
    for (int chunk = 0; chunk < a.chunks; ++chunk) {
      if constexpr (!kResident) {
#if ASSAY_HAS_WGMMA
        wgmma_wait<0>();
#endif
        finish_copies();
        consumer_barrier<Plan>();
        const int next = chunk + 1 < a.chunks ? chunk + 1 : 0;
        if (next > 0 || tile_of<Plan>(item - consumer + Plan::kConsumers) < a.tiles) {
          copy_chunk<Plan>(a, next, layout.weights + (slot ^ 1) * Plan::kUnit, kThreads);
        }
      }
      const uint32_t unit = layout.weights + (kResident ? chunk : slot) * Plan::kUnit;
      slot ^= 1;

      float z[Plan::kChunk / 2];
#if ASSAY_HAS_WGMMA
      keep_in_place(z);
      wgmma_begin();
#endif
      multiply_w1<Plan>(z, shared_address(factors), unit);
#if ASSAY_HAS_WGMMA
      wgmma_commit();
      wgmma_wait<0>();
      keep_in_place(z);
#endif
      if (has_tile && chunk + 1 == a.chunks) arrive(layout.empty_of(item));
      uint32_t h[Plan::kParts][Plan::kChunkSteps][4];
#pragma unroll
      for (int i = 0; i < Plan::kChunkSteps * 4; ++i) {
        const int at = i / 4 * 8 + i % 4 * 2;  // accumulators of 16 columns are fragments of as many
        uint32_t parts[Plan::kParts];
        split<Plan>(gelu(z[at]), gelu(z[at + 1]), parts);
#pragma unroll
        for (int p = 0; p < Plan::kParts; ++p) h[p][i / 4][i % 4] = parts[p];
      }
#if ASSAY_HAS_WGMMA
#pragma unroll
      for (auto& part : sums) keep_in_place(part);
      wgmma_begin();
#endif
      multiply_w2<Plan>(sums, h, unit);
#if ASSAY_HAS_WGMMA
      wgmma_commit();
#endif
    }
    if (has_tile && a.chunks == 0) arrive(layout.empty_of(item));
    // Loads of one row are under way during the last product, those of the other one while the first is stored.
    Residual<Plan> x[2];
    x[0].load(a, first_row);
#if ASSAY_HAS_WGMMA
    wgmma_wait<0>();
#pragma unroll
    for (auto& part : sums) keep_in_place(part);
#endif
    x[1].load(a, second_row);
    store_row<Plan>(a, first_row, 0, x[0], sums);
    store_row<Plan>(a, second_row, 1, x[1], sums);
  }
}

template <class Plan, bool kResident>
__global__ void __launch_bounds__(Plan::kThreads, 1)
    block_kernel(const __grid_constant__ BlockArguments<typename Plan::T> a) {
  extern __shared__ __align__(128) uint8_t shared[];
  const Layout<Plan> layout(shared, kResident ? a.chunks : 2, a.stage_log);
  const int thread = static_cast<int>(threadIdx.x);
  for (int chunk = 0; chunk < (kResident ? a.chunks : min(a.chunks, 1)); ++chunk) {
    copy_chunk<Plan>(a, chunk, layout.weights + chunk * Plan::kUnit, Plan::kThreads);
  }
  for (int i = thread; i < 3 * Plan::kColumns; i += Plan::kThreads) {
    const int channel = i % Plan::kColumns;
    layout.taps[i] = channel < a.channels
                         ? load_element(a.taps + i / Plan::kColumns * a.tap + channel * a.tap_channel)
                         : 0.0f;
  }
  if (thread == 0) {
    for (int stage = 0; stage < 1 << a.stage_log; ++stage) {
      make_barrier(layout.full + 8 * stage, kGroupThreads);
      make_barrier(layout.empty + 8 * stage, kGroupThreads);
    }
  }
  finish_copies();
  __syncthreads();

  const int group = __shfl_sync(0xFFFFFFFFu, thread / kGroupThreads, 0);
  if (group < Plan::kConsumers) {
#if ASSAY_HAS_WGMMA
    take_registers<Plan::kConsumerRegisters>();
#endif
    consume<Plan, kResident>(a, layout, group);
  } else {
#if ASSAY_HAS_WGMMA
    give_registers<Plan::kProducerRegisters>();
#endif
    produce<Plan>(a, layout, group - Plan::kConsumers);
  }
}

}  // namespace assay::cheri
