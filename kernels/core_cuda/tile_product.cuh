// SPDX-License-Identifier: Apache-2.0
// Products of a tile of rows with weights of any size. The tile lies in shared memory, and the
// weights stream through shared memory while the products run. 128 columns are computed at a time,
// with f32 sums in registers.
//
//   sums (64 * groups, 128) = tile (64 * groups, depth) * weights (128, depth) transposed
//
// Weights are packed once into slots of kSlotBytes, in the order of their use: all depths of 128
// columns, then all depths of the next 128. Groups of 128 threads have 64 rows of the tile each.
// They consume a ring of slots, which one thread refills by bulk copies. Warpgroups multiply 16-bit
// factors (wgmma.cuh, sm_90a). Single warps multiply factors of 32 bits as tf32 (sm_80 and later):
// once, or three times with both parts of each factor. A tensor core truncates its sums, so their
// loss grows with the depth. With split factors this would be most of the error. So a tensor core
// sums them over kBlockDepth only, and f32 additions in registers add up these sums.
//
// A thread has the sums of two rows: `row` = 16 * warp of its group + lane / 4, and row + 8. Let
// q = lane % 4. sums[4j] and sums[4j + 1] are columns 8j + 2q and 8j + 2q + 1 of `row`;
// sums[4j + 2] and sums[4j + 3] are the same columns of row + 8.
//
// The order of a sum depends on the depth alone: equal rows and equal columns give equal bits.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/core/op.h"
#include "kernels/core_cuda/bulk_copy.cuh"
#include "kernels/core_cuda/mbarrier.cuh"
#include "kernels/core_cuda/mma.cuh"
#include "kernels/core_cuda/wgmma.cuh"

namespace assay {

inline constexpr int kSlotBytes = 16384;
inline constexpr int kSlotColumns = 128;
inline constexpr int kGroupRows = 64;
inline constexpr int kGroupThreads = 128;

template <Format kFactor>
struct TileFactor {
  static constexpr bool kIsShort = kFactor == Format::kF16 || kFactor == Format::kBF16;
  static constexpr int kParts = kFactor == Format::kTF32x3 ? 2 : 1;  // parts of a weight
  static constexpr int kBytes = kIsShort ? 2 : 4;  // of each part, and of an element of the tile
  static constexpr int kSlotDepth = kSlotBytes / (kSlotColumns * kBytes * kParts);
  // Elements lie in contiguous blocks of 8 rows by kBlockDepth of the depth, row after row.
  // Neighbouring blocks along the rows follow each other. Neighbouring blocks along the depth are
  // `next` bytes apart.
  static constexpr int kBlockDepth = kIsShort ? 8 : 16;
  static constexpr int kBlockBytes = 8 * kBlockDepth * kBytes;
  static constexpr int kSlotNext = kSlotColumns / 8 * kBlockBytes;  // in a slot, also between parts
  static_assert(kParts == 1 || kSlotDepth == kBlockDepth, "a slot is two blocks, the parts of one depth");
  // Least slots of a ring: a warpgroup frees a slot when it has begun with the next one.
  static constexpr int kLeastSlots = kIsShort ? 2 : 1;

  __host__ __device__ static constexpr int offset(int row, int depth, int next) {
    return depth / kBlockDepth * next + row / 8 * kBlockBytes +
           (row % 8 * kBlockDepth + depth % kBlockDepth) * kBytes;
  }
};

// How many slots hold weights of `columns` by `depth`.
template <Format kFactor>
constexpr int64_t slots_of(int64_t columns, int64_t depth) {
  constexpr int64_t kDepth = TileFactor<kFactor>::kSlotDepth;
  return (columns + kSlotColumns - 1) / kSlotColumns * ((depth + kDepth - 1) / kDepth);
}

// A tile of 64 * kGroups rows. Neighbours along the depth lie in different banks.
template <Format kFactor, int kGroups>
struct Tile {
  using Traits = TileFactor<kFactor>;
  static constexpr int kRows = kGroups * kGroupRows;
  // Arrivals that free a slot. A warpgroup reads a slot as a whole, and each of its warps arrives;
  // otherwise each thread arrives.
  static constexpr int kReaders = kGroups * (Traits::kIsShort ? 4 : kGroupThreads);
  static constexpr int kNext = kRows / 8 * Traits::kBlockBytes + (Traits::kIsShort ? 16 : 64);

  __host__ __device__ static constexpr int offset(int row, int depth) {
    return Traits::offset(row, depth, kNext);
  }
  // [bytes] The offset of the first row of a group.
  __host__ __device__ static constexpr int group_offset(int group) { return offset(group * kGroupRows, 0); }
  // [bytes] The size of a tile whose depth is padded to whole slots.
  __host__ __device__ static constexpr int bytes(int depth) {
    return (depth + Traits::kSlotDepth - 1) / Traits::kSlotDepth * Traits::kSlotDepth / Traits::kBlockDepth *
           kNext;
  }
};

// Rounds to tf32, to nearest. The last 13 bits are 0.
__device__ inline float round_to_tf32(float value) {
  uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
  return __uint_as_float(bits);
}

// What rounding to tf32 leaves of a value, as tf32; 0 if `rounded` is not finite.
__device__ inline float rest_of_tf32(float value, float rounded) {
  return isfinite(rounded) ? round_to_tf32(value - rounded) : 0.0f;
}

// Writes element (row, depth) of a slot or a tile.
template <Format kFactor>
__device__ void store_factor(uint8_t* to, float value) {
  if constexpr (kFactor == Format::kF16) {
    *reinterpret_cast<__half*>(to) = __float2half_rn(value);
  } else if constexpr (kFactor == Format::kBF16) {
    *reinterpret_cast<__nv_bfloat16*>(to) = __float2bfloat16_rn(value);
  } else {
    *reinterpret_cast<float*>(to) = kFactor == Format::kTF32 ? round_to_tf32(value) : value;
  }
}

// The calling thread's group. The compiler knows that it is the same for the whole warp.
__device__ inline int group_of_thread() {
  return __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x / kGroupThreads), 0);
}

// The threads of one group wait for each other.
__device__ inline void synchronize_group(int group) {
  asm volatile("bar.sync %0, %1;" ::"r"(1 + group), "n"(kGroupThreads) : "memory");
}

// The ring of slots in shared memory, at a multiple of 16, with its barriers behind the slots.
class SlotRing {
 public:
  __host__ __device__ static constexpr int bytes(int slots) { return slots * (kSlotBytes + 16); }

  // `readers` arrivals free a slot. `source` has `total` slots. __syncthreads() comes before the
  // first wait().
  __device__ SlotRing(uint32_t address, int count, int readers, const uint8_t* source, int total)
      : address_(address), count_(count), source_(source), left_(threadIdx.x == 0 ? total : 0) {
    if (threadIdx.x == 0) {
      for (int i = 0; i < count; ++i) {
        make_barrier(full(i), 1);
        make_barrier(empty(i), readers);
      }
      fence_async_proxy();
      fill_free();
    }
    // Otherwise the compiler may leave this thread apart, and each later shuffle waits for it.
    __syncwarp();
  }

  // Fills the free slots. Whole warps call it, between products.
  __device__ void refill() {
    fill_free();
    __syncwarp();
  }

  // Waits for the next slot to be filled and returns its address.
  __device__ uint32_t wait() {
    if (left_ > 0) {
      fill_free();
      // It is the next one to be filled.
      if (left_ > 0 && fill_at_ == at_ && fill_phase_ == phase_) {
        wait_for_phase(empty(fill_at_), fill_phase_ ^ 1);
        fill_one();
      }
    }
    __syncwarp();
    wait_for_phase(full(at_), phase_);
    return slot(at_);
  }
  __device__ void advance() { step(at_, phase_); }
  // Each reader calls it after advance(), when it is done with the slot before.
  __device__ void free_last() const { arrive(empty(at_ == 0 ? count_ - 1 : at_ - 1)); }

 private:
  __device__ uint32_t slot(int i) const { return address_ + static_cast<uint32_t>(i) * kSlotBytes; }
  __device__ uint32_t full(int i) const { return slot(count_) + static_cast<uint32_t>(i) * 16; }
  __device__ uint32_t empty(int i) const { return full(i) + 8; }
  __device__ void step(int& at, uint32_t& phase) const {
    if (++at < count_) return;
    at = 0;
    phase ^= 1;
  }
  // Only one thread has slots left to fill.
  __device__ void fill_free() {
    while (left_ > 0 && has_completed(empty(fill_at_), fill_phase_ ^ 1)) fill_one();
  }
  __device__ void fill_one() {
    copy_bulk<CacheUse::kAgain>(slot(fill_at_), source_, kSlotBytes, full(fill_at_));
    arrive_with_copies(full(fill_at_), kSlotBytes);
    source_ += kSlotBytes;
    --left_;
    step(fill_at_, fill_phase_);
  }

  uint32_t address_;
  int count_;
  int at_ = 0;
  uint32_t phase_ = 0;
  const uint8_t* source_;
  int left_;  // to fill; 0 in all threads but one
  int fill_at_ = 0;
  uint32_t fill_phase_ = 0;
};

// The sums over the next `slots` slots of the ring, at least one. A group calls it; its rows of the
// tile begin at `rows` in shared memory. The group has called fence_async_proxy() after writing
// them, and has synchronised.
template <Format kFactor, int kGroups>
__device__ void multiply_tile(float (&sums)[64], uint32_t rows, int slots, SlotRing& ring) {
  using Traits = TileFactor<kFactor>;
  constexpr uint32_t kNext = Tile<kFactor, kGroups>::kNext;
  constexpr int kBlocks = Traits::kSlotDepth / Traits::kBlockDepth;  // along the depth of a slot
  if constexpr (!Traits::kIsShort) {
#pragma unroll
    for (float& sum : sums) sum = 0;
  }
  if constexpr (Traits::kIsShort) {
#if ASSAY_HAS_WGMMA
    using F = std::conditional_t<kFactor == Format::kF16, f16, bf16>;
    uint64_t a = SharedFactor{rows, kNext, Traits::kBlockBytes}.descriptor();
    for (int s = 0; s < slots; ++s) {
      const uint64_t b = SharedFactor{ring.wait(), Traits::kSlotNext, Traits::kBlockBytes}.descriptor();
      wgmma_begin();
#pragma unroll
      for (int k = 0; k < kBlocks; k += 2) {
        wgmma<F>(sums, moved(a, k * kNext), moved(b, k * Traits::kSlotNext), k > 0 ? 1 : s);
      }
      a = moved(a, kBlocks * kNext);
      wgmma_commit();
      if (s > 0) {
        wgmma_wait<1>();
        if (threadIdx.x % 32 == 0) ring.free_last();
      }
      ring.advance();
    }
    wgmma_wait<0>();
    if (threadIdx.x % 32 == 0) ring.free_last();
    keep_in_place(sums);
#else
    __trap();  // the host offers short factors only on devices that serve them
#endif
  } else {
    const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32 % 4);
    const uint32_t own = static_cast<uint32_t>(Traits::offset(lane / 4, lane % 4 * 4, 0));
    const auto load = [](float(&to)[4], uint32_t from) {
      asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];"
                   : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
                   : "r"(from)
                   : "memory");
    };
    for (int s = 0; s < slots; ++s) {
      const uint32_t slot = ring.wait();
#pragma unroll
      for (int k = 0; k < kBlocks; ++k) {
        // Two steps of 8. In the first one, lane q passes numbers 4q and 4q + 1 as q and q + 4, in
        // both factors.
        float upper[4], lower[4], upper_rest[4], lower_rest[4];
        const uint32_t from = rows + static_cast<uint32_t>(s * kBlocks + k) * kNext + own +
                              static_cast<uint32_t>(2 * warp * Traits::kBlockBytes);
        load(upper, from);
        load(lower, from + Traits::kBlockBytes);
        if constexpr (Traits::kParts == 2) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const float high = round_to_tf32(upper[i]), low = round_to_tf32(lower[i]);
            upper_rest[i] = rest_of_tf32(upper[i], high);
            lower_rest[i] = rest_of_tf32(lower[i], low);
            upper[i] = high;
            lower[i] = low;
          }
        }
#pragma unroll
        for (int j = 0; j < kSlotColumns / 8; ++j) {
          const uint32_t weights =
              slot + static_cast<uint32_t>(k * Traits::kSlotNext + j * Traits::kBlockBytes) + own;
          float b[4], b_rest[4];
          load(b, weights);
          [[maybe_unused]] float part[4] = {};
          float* const to = Traits::kParts == 2 ? part : &sums[4 * j];
          if constexpr (Traits::kParts == 2) {
            load(b_rest, weights + Traits::kSlotNext);
#pragma unroll
            for (int step = 0; step < 4; step += 2) {
              mma_m16n8k8_tf32(to, upper_rest[step], lower_rest[step], upper_rest[step + 1],
                               lower_rest[step + 1], b[step], b[step + 1]);
              mma_m16n8k8_tf32(to, upper[step], lower[step], upper[step + 1], lower[step + 1], b_rest[step],
                               b_rest[step + 1]);
            }
          }
#pragma unroll
          for (int step = 0; step < 4; step += 2) {
            mma_m16n8k8_tf32(to, upper[step], lower[step], upper[step + 1], lower[step + 1], b[step],
                             b[step + 1]);
          }
          if constexpr (Traits::kParts == 2) {
#pragma unroll
            for (int i = 0; i < 4; ++i) sums[4 * j + i] += part[i];
          }
        }
      }
      ring.advance();
      ring.free_last();
    }
  }
}

}  // namespace assay
