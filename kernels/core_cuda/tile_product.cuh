// SPDX-License-Identifier: Apache-2.0
// Products of a tile of rows with weights of any size. The tile lies in shared memory, and the
// weights stream through shared memory while the products run. 128 columns are computed at a time
// by warpgroups (wgmma.cuh, sm_90a), with f32 sums in registers.
//
//   sums (64 * groups, 128) = tile (64 * groups, depth) * weights (128, depth) transposed
//
// Weights are packed once into slots, in the order of their use: all depths of 128 columns, then
// all depths of the next 128. Groups of 128 threads have 64 rows of the tile each. They consume a
// ring of slots, which one thread refills by bulk copies.
//
// Factors have 16 bits. In two parts (Format::kF16x3), a factor is the nearest f16 plus the f16
// nearest to the rest, and three products add up to one. A tensor core truncates its sums, so their
// loss grows with the depth. With factors in two parts this would be most of the error: sums over
// kPartDepth are then added up in f32.
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
#include "kernels/core_cuda/named_barrier.cuh"
#include "kernels/core_cuda/wgmma.cuh"

namespace assay {

inline constexpr int kSlotColumns = 128;
inline constexpr int kGroupRows = 64;
inline constexpr int kGroupThreads = 128;
inline constexpr int kPartDepth = 128;
// Least slots of a ring: a warpgroup frees a slot when it has begun with the next one.
inline constexpr int kLeastSlots = 2;

template <Format kFactor>
struct TileFactor {
  static_assert(kFactor == Format::kF16 || kFactor == Format::kBF16 || kFactor == Format::kF16x3,
                "factors for which there are products");
  using F = std::conditional_t<kFactor == Format::kBF16, bf16, f16>;
  static constexpr int kParts = kFactor == Format::kF16x3 ? 2 : 1;
  static constexpr int kSlotDepth = kParts == 2 ? 16 : 64;
  static constexpr int kSlotBytes = kSlotColumns * kSlotDepth * kParts * int{sizeof(F)};
  // Elements lie in contiguous blocks of 8 rows by 8 of the depth, row after row. Neighbouring
  // blocks along the rows follow each other. Along the depth come all parts of a block, then those
  // of the next one, `next` bytes apart.
  static constexpr int kBlockDepth = 8, kBlockBytes = 8 * kBlockDepth * int{sizeof(F)};
  static constexpr int kSlotNext = kSlotColumns / 8 * kBlockBytes;

  // [bytes] Of the first part of an element. The second part is `next` bytes behind it.
  __host__ __device__ static constexpr int offset(int row, int depth, int next) {
    return depth / kBlockDepth * kParts * next + row / 8 * kBlockBytes +
           (row % 8 * kBlockDepth + depth % kBlockDepth) * int{sizeof(F)};
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
  static constexpr int kReaders = kGroups * 4;  // arrivals that free a slot, one of each warp
  static constexpr int kNext = kRows / 8 * Traits::kBlockBytes + 16;

  __host__ __device__ static constexpr int offset(int row, int depth) {
    return Traits::offset(row, depth, kNext);
  }
  // [bytes] The offset of the first row of a group.
  __host__ __device__ static constexpr int group_offset(int group) { return offset(group * kGroupRows, 0); }
  // [bytes] The size of a tile whose depth is padded to whole slots.
  __host__ __device__ static constexpr int bytes(int depth) {
    return offset(0, (depth + Traits::kSlotDepth - 1) / Traits::kSlotDepth * Traits::kSlotDepth);
  }
};

// Part number kPart of two values as factors; the first value goes to the low half.
template <Format kFactor, int kPart>
__device__ uint32_t pack_part(float low, float high) {
  using F = typename TileFactor<kFactor>::F;
  const uint32_t packed = pack_factors<F>(low, high);
  if constexpr (kPart == 0) return packed;
  const float2 first = __half22float2(reinterpret_cast<const __half2&>(packed));
  return pack_factors<F>(low - first.x, high - first.y);
}

// The calling thread's group. The compiler knows that it is the same for the whole warp.
__device__ inline int group_of_thread() {
  return __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x / kGroupThreads), 0);
}

// The threads of one group wait for each other.
__device__ inline void synchronize_group(int group) {
  synchronize_some<kGroupThreads>(1 + group);
}

// The ring of slots in shared memory, at a multiple of 16, with its barriers behind the slots. One
// thread fills them: either a reader, in wait() and refill(), or one beside them, by fill_all().
template <Format kFactor>
class SlotRing {
  static constexpr int kSlotBytes = TileFactor<kFactor>::kSlotBytes;

 public:
  __host__ __device__ static constexpr int bytes(int slots) { return slots * (kSlotBytes + 16); }

  // `readers` arrivals free a slot. Thread number `filler` fills slots from `source`, which has
  // `total` of them. __syncthreads() comes before the first wait().
  __device__ SlotRing(uint32_t address, int count, int readers, const uint8_t* source, int total,
                      unsigned filler = 0)
      : address_(address), count_(count), source_(source), left_(threadIdx.x == filler ? total : 0) {
    if (threadIdx.x == filler) {
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

  // Fills what is left to fill, as slots become free. Only a filler that reads no slots calls it.
  __device__ void fill_all() {
    while (left_ > 0) {
      wait_for_phase(empty(fill_at_), fill_phase_ ^ 1);
      fill_one();
    }
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

// Enqueues the product of one step of 16 along the depth, whose rows are fragments in parts.
// `column` describes the weights at this depth. Without on_top sums begin with it.
template <Format kFactor, int kSteps>
__device__ void multiply_step(float (&sums)[64],
                              const uint32_t (&rows)[TileFactor<kFactor>::kParts][kSteps][4], int step,
                              uint64_t column, int on_top) {
#if ASSAY_HAS_WGMMA
  using F = typename TileFactor<kFactor>::F;
  if constexpr (TileFactor<kFactor>::kParts == 2) {
    wgmma<F>(sums, rows[1][step], column, on_top);
    wgmma<F>(sums, rows[0][step], moved(column, TileFactor<kFactor>::kSlotNext), 1);
    wgmma<F>(sums, rows[0][step], column, 1);
  } else {
    wgmma<F>(sums, rows[0][step], column, on_top);
  }
#endif
}

// The sums over the next `slots` slots of the ring, at least one, in a tensor core. `a` describes
// the group's rows of the tile at the depth of the first slot.
template <Format kFactor, int kGroups>
__device__ void multiply_slots(float (&sums)[64], uint64_t a, int slots, SlotRing<kFactor>& ring) {
#if ASSAY_HAS_WGMMA
  using Traits = TileFactor<kFactor>;
  using F = typename Traits::F;
  constexpr uint32_t kNext = Tile<kFactor, kGroups>::kNext, kSlotNext = Traits::kSlotNext;
  constexpr int kParts = Traits::kParts;
  for (int s = 0; s < slots; ++s) {
    const uint64_t b = SharedFactor{ring.wait(), kParts * kSlotNext, Traits::kBlockBytes}.descriptor();
    wgmma_begin();
#pragma unroll
    for (int k = 0; k < Traits::kSlotDepth / Traits::kBlockDepth; k += 2) {
      const uint64_t row = moved(a, k * kParts * kNext), column = moved(b, k * kParts * kSlotNext);
      const int on_top = k > 0 ? 1 : s;
      if constexpr (kParts == 2) {
        wgmma<F>(sums, moved(row, kNext), column, on_top);
        wgmma<F>(sums, row, moved(column, kSlotNext), 1);
        wgmma<F>(sums, row, column, 1);
      } else {
        wgmma<F>(sums, row, column, on_top);
      }
    }
    a = moved(a, Traits::kSlotDepth / Traits::kBlockDepth * kParts * kNext);
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
  __trap();  // the host offers these products only on devices that serve them
#endif
}

// The sums over the next `slots` slots of the ring, at least one. A group calls it; its rows of the
// tile begin at `rows` in shared memory. The group has called fence_async_proxy() after writing
// them, and has synchronised. kMostDepth is the most that the depth can be.
template <Format kFactor, int kGroups, int kMostDepth>
__device__ void multiply_tile(float (&sums)[64], uint32_t rows, int slots, SlotRing<kFactor>& ring) {
#if ASSAY_HAS_WGMMA
  using Traits = TileFactor<kFactor>;
  constexpr uint32_t kNext = Tile<kFactor, kGroups>::kNext;
  const uint64_t a = SharedFactor{rows, Traits::kParts * kNext, Traits::kBlockBytes}.descriptor();
  if constexpr (Traits::kParts == 1 || kMostDepth <= kPartDepth) {
    multiply_slots<kFactor, kGroups>(sums, a, slots, ring);
  } else {
    constexpr int kPartSlots = kPartDepth / Traits::kSlotDepth;
    multiply_slots<kFactor, kGroups>(sums, a, min(slots, kPartSlots), ring);
    for (int first = kPartSlots; first < slots; first += kPartSlots) {
      float part[64];
      const auto at = static_cast<uint32_t>(first * Traits::kSlotDepth / Traits::kBlockDepth);
      multiply_slots<kFactor, kGroups>(part, moved(a, at * Traits::kParts * kNext),
                                       min(slots - first, kPartSlots), ring);
#pragma unroll
      for (int i = 0; i < 64; ++i) sums[i] += part[i];
    }
  }
#endif
}

}  // namespace assay
