// SPDX-License-Identifier: Apache-2.0
// What the CUDA kernels of dynamic_conv share: how the work is cut, and how elements get to registers and
// back.
//
// A thread owns a few neighbouring channels of one example and marches along t through a chunk of rows, with
// what the taps reach back to in registers. It loads several rows before it uses the first, so that enough
// loads are in flight. Chunks are short: blocks that run at the same time then work on neighbouring memory,
// which DRAM serves faster than the same accesses far apart. Where the layout allows it, a thread's taps of
// one row are whole 16-byte vectors; elsewhere it owns one channel and loads elements one by one, with the
// same arithmetic in the same order.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <type_traits>

#include "kernels/core/error.h"
#include "kernels/core_cuda/cuda_check.h"
#include "kernels/dynamic_conv/dynamic_conv.h"

namespace assay::dynamic_conv {

// How one kernel divides its work; each number is the fastest of those measured on an H200.
template <class T, int kTaps, bool kVectors, int kActivations, int kWordsInFlight>
struct Division {
  static constexpr int kBytesOfTaps = kTaps * int{sizeof(T)};

  // Channels of a thread: whole 16-byte vectors of taps if that takes at most 32 bytes, else as many as fit
  // there. More would leave too few registers, fewer would leave 16-bit activations without a whole word.
  static constexpr int channels() {
    if (!kVectors) return 1;
    const int whole = std::lcm(16, kBytesOfTaps) / kBytesOfTaps;
    int channels = 4 / int{sizeof(T)};
    while (2 * channels <= whole && 2 * channels * kBytesOfTaps <= 32) channels *= 2;
    return channels;
  }
  static constexpr int kChannels = channels();

  // Rows that a thread loads before it uses the first: as many as kWordsInFlight 4-byte words hold.
  static constexpr int kRows =
      std::clamp(kWordsInFlight / ((kChannels * (kTaps + kActivations) * int{sizeof(T)} + 3) / 4), 1, 8);
};

// Chunks of rows times groups of channels, one thread each.
struct Chunking {
  int64_t rows;     // T
  int64_t chunk;    // [rows] of one thread; the last one may be shorter
  int64_t chunks;   // of one example
  int64_t columns;  // groups of channels of one example
  int64_t threads;  // in all

  std::string to_string() const {
    return fmt::format("{} rows in {} chunks of {}, {} columns, {} threads", rows, chunks, chunk, columns,
                       threads);
  }
};

// Chunks of `chunk` rows.
inline Chunking cut(const Extents& shape, int channels_of_thread, int64_t chunk) {
  const int64_t columns = (shape[2] + channels_of_thread - 1) / channels_of_thread;
  const int64_t chunks = (shape[1] + chunk - 1) / chunk;
  return {shape[1], chunk, chunks, columns, shape[0] * chunks * columns};
}

inline unsigned blocks_of(const Chunking& chunking, int threads) {
  const int64_t blocks = (chunking.threads + threads - 1) / threads;
  if (blocks > INT32_MAX) throw unsupported_error("{} blocks for {}", blocks, chunking.to_string());
  return static_cast<unsigned>(blocks);
}

// A tensor (B,T,D) or (B,T,D,W). Strides in elements.
template <class T>
struct Strided {
  T* data;
  int64_t batch, row, channel, tap;

  template <class Void>
  explicit Strided(const BasicTensorView<Void>& view)
      : data(view.template as<std::remove_const_t<T>>()),
        batch(view.strides[0]),
        row(view.strides[1]),
        channel(view.strides[2]),
        tap(view.shape.rank() == 4 ? view.strides[3] : 0) {}
};

// Whether the elements of `channels` neighbours are packed, in each row at a multiple of 16 bytes or of their
// size.
template <class Void>
bool has_vectors(const BasicTensorView<Void>& view, int channels) {
  const int64_t taps = view.shape.rank() == 4 ? view.shape[3] : 1;
  const int64_t bytes = static_cast<int64_t>(size_of(view.dtype));
  const int64_t alignment = std::gcd(channels * taps * bytes, int64_t{16});
  const auto aligned = [&](int64_t offset) { return offset % alignment == 0; };
  return view.shape[2] % channels == 0 && view.strides[2] == taps && (taps == 1 || view.strides[3] == 1) &&
         aligned(static_cast<int64_t>(reinterpret_cast<uintptr_t>(view.data) % 16)) &&
         aligned(view.strides[0] * bytes) && aligned(view.strides[1] * bytes);
}

// Calls fn(std::integral_constant<int, taps>{}).
template <class Fn>
void visit_taps(int64_t taps, Fn&& fn) {
  const auto visit_from = [&]<int kTaps>(const auto& self,
                                         std::integral_constant<int, kTaps> candidate) -> void {
    if (taps == kTaps) return fn(candidate);
    if constexpr (kTaps < kMaxTaps) return self(self, std::integral_constant<int, kTaps + 1>{});
    throw Error("{} taps passed require_valid", taps);
  };
  visit_from(visit_from, std::integral_constant<int, 1>{});
}

// The part of the work that belongs to the calling thread. Rows are counted from the first one of its chunk.
struct Place {
  int64_t batch;
  int64_t column;
  int64_t begin;  // t of the first row
  int rows;       // of the chunk; 0 if the thread has no work
};

__device__ inline Place place_of_thread(const Chunking& chunking) {
  const uint64_t thread = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (thread >= static_cast<uint64_t>(chunking.threads)) return {};
  const uint64_t columns = static_cast<uint64_t>(chunking.columns);
  const uint64_t chunks = static_cast<uint64_t>(chunking.chunks);
  const uint64_t piece = thread / columns;
  const int64_t begin = static_cast<int64_t>(piece % chunks) * chunking.chunk;
  return {.batch = static_cast<int64_t>(piece / chunks),
          .column = static_cast<int64_t>(thread % columns),
          .begin = begin,
          .rows = static_cast<int>(min(chunking.chunk, chunking.rows - begin))};
}

// A pointer that marches along t. One addition a row takes fewer registers than an address for each row in
// flight.
template <class T>
struct Cursor {
  T* row;
  int64_t step;  // [elements]

  __device__ Cursor(const Strided<T>& tensor, const Place& place, int channels, int64_t shift = 0)
      : row(tensor.data + place.batch * tensor.batch + place.column * channels * tensor.channel +
            (place.begin + shift) * tensor.row),
        step(tensor.row) {}

  __device__ T* next() {
    T* const current = row;
    row += step;
    return current;
  }
};

// Elements as they are stored, several to a register where they are short.
template <class T, int kCount>
struct Bits {
  static constexpr int kBytes = kCount * int{sizeof(T)};
  alignas(16) uint32_t words[(kBytes + 3) / 4];

  __device__ float operator[](int i) const {
    if constexpr (std::is_same_v<T, float>) {
      return __uint_as_float(words[i]);
    } else {
      const uint32_t word = words[i / 2];
      if constexpr (std::is_same_v<T, bf16>) return __uint_as_float(i % 2 ? word & 0xFFFF0000u : word << 16);
      return __half2float(__ushort_as_half(static_cast<unsigned short>(i % 2 ? word >> 16 : word)));
    }
  }
};

// The one rounding: to nearest, ties to even.
template <class T, int kCount>
__device__ Bits<T, kCount> round_to(const float (&values)[kCount]) {
  Bits<T, kCount> bits;
#pragma unroll
  for (int i = 0; i < kCount; i += 4 / int{sizeof(T)}) {
    if constexpr (std::is_same_v<T, float>) {
      bits.words[i] = __float_as_uint(values[i]);
    } else {
      const float second = i + 1 < kCount ? values[i + 1] : 0.0f;
      if constexpr (std::is_same_v<T, bf16>) {
        const __nv_bfloat162 pair = __floats2bfloat162_rn(values[i], second);
        bits.words[i / 2] = reinterpret_cast<const uint32_t&>(pair);
      } else {
        const __half2 pair = __floats2half2_rn(values[i], second);
        bits.words[i / 2] = reinterpret_cast<const uint32_t&>(pair);
      }
    }
  }
  return bits;
}

template <int kBytes>
using Vector =
    std::conditional_t<kBytes % 16 == 0, uint4, std::conditional_t<kBytes % 8 == 0, uint2, unsigned>>;
template <class T>
using Element = std::conditional_t<sizeof(T) == 4, unsigned, unsigned short>;

// Loads through L1, where the chunks on both sides find the rows that they share. `stride` is the distance of
// the elements unless they are vectors.
template <bool kVectors, class T, int kCount>
__device__ void load(Bits<T, kCount>& bits, const T* from, int64_t stride) {
  if constexpr (kVectors) {
    using V = Vector<Bits<T, kCount>::kBytes>;
#pragma unroll
    for (int i = 0; i < Bits<T, kCount>::kBytes / int{sizeof(V)}; ++i) {
      reinterpret_cast<V*>(bits.words)[i] = __ldg(reinterpret_cast<const V*>(from) + i);
    }
  } else {
    bits = {};
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const uint32_t element = __ldg(reinterpret_cast<const Element<T>*>(from + i * stride));
      constexpr int kPerWord = 4 / int{sizeof(T)};
      bits.words[i / kPerWord] |= element << (8 * int{sizeof(T)} * (i % kPerWord));
    }
  }
}

// Stores what nobody reads soon.
template <bool kVectors, class T, int kCount>
__device__ void store(T* to, int64_t stride, const Bits<T, kCount>& bits) {
  if constexpr (kVectors) {
    using V = Vector<Bits<T, kCount>::kBytes>;
#pragma unroll
    for (int i = 0; i < Bits<T, kCount>::kBytes / int{sizeof(V)}; ++i) {
      __stcs(reinterpret_cast<V*>(to) + i, reinterpret_cast<const V*>(bits.words)[i]);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      constexpr int kPerWord = 4 / int{sizeof(T)};
      const uint32_t word = bits.words[i / kPerWord] >> (8 * int{sizeof(T)} * (i % kPerWord));
      __stcs(reinterpret_cast<Element<T>*>(to + i * stride), static_cast<Element<T>>(word));
    }
  }
}

}  // namespace assay::dynamic_conv
