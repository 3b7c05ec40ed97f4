// SPDX-License-Identifier: Apache-2.0
// What the CUDA kernels of dynamic_conv share: how the work is cut, and how elements get to
// registers and back.
//
// A thread owns a few neighbouring channels of one example and marches along t through a chunk of
// rows. It keeps in registers what the taps reach back to. It loads several rows before it uses the
// first, so that enough loads are in flight. Chunks are short, so blocks that run at the same time
// work on neighbouring memory; DRAM serves this faster than accesses far apart. Where the layout
// allows it, a thread's taps of one row are whole 16-byte vectors. Elsewhere it owns one channel
// and loads single elements, with the same arithmetic in the same order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <type_traits>

#include "kernels/core/error.h"
#include "kernels/core/specialise.h"
#include "kernels/core_cuda/cuda_check.h"
#include "kernels/core_cuda/packed.cuh"
#include "kernels/dynamic_conv/dynamic_conv.h"

namespace assay::dynamic_conv {

// How one kernel divides its work. Each number was the fastest on an H200.
template <class T, int kTaps, bool kVectors, int kActivations, int kWordsInFlight>
struct Division {
  static constexpr int kBytesOfTaps = kTaps * int{sizeof(T)};

  // Channels of a thread: whole 16-byte vectors of taps if that takes at most 32 bytes, else as
  // many as fit into 32 bytes. More would leave too few registers; fewer would leave 16-bit
  // activations without a whole word.
  static constexpr int channels() {
    if (!kVectors) return 1;
    const int whole = std::lcm(16, kBytesOfTaps) / kBytesOfTaps;
    int channels = 4 / int{sizeof(T)};
    while (2 * channels <= whole && 2 * channels * kBytesOfTaps <= 32) channels *= 2;
    return channels;
  }
  static constexpr int kChannels = channels();

  // Rows that a thread loads before it uses the first: those that fit into kWordsInFlight words of
  // 4 bytes.
  static constexpr int kRows =
      std::clamp(kWordsInFlight / ((kChannels * (kTaps + kActivations) * int{sizeof(T)} + 3) / 4), 1, 8);
};

// One thread for each chunk of rows and group of channels.
struct Chunking {
  int64_t rows;     // T
  int64_t chunk;    // [rows] of one thread; the last chunk may be shorter
  int64_t chunks;   // of one example
  int64_t columns;  // groups of channels of one example
  int64_t threads;  // in all

  std::string to_string() const {
    return fmt::format("{} rows in {} chunks of {}, {} columns, {} threads", rows, chunks, chunk, columns,
                       threads);
  }
};

// Cuts a problem into chunks of `chunk` rows.
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

// Whether the elements of `channels` neighbours are packed in each row, at a multiple of 16 bytes
// or, if they are shorter, of their size.
inline bool has_vectors(int channels, const ConstTensorView& view) {
  const int64_t taps = view.shape.rank() == 4 ? view.shape[3] : 1;
  const int64_t bytes = channels * taps * static_cast<int64_t>(size_of(view.dtype));
  return view.shape[2] % channels == 0 && view.strides[2] == taps && (taps == 1 || view.strides[3] == 1) &&
         is_aligned_across(view, 0, 2, std::gcd(bytes, int64_t{16}));
}

template <class... Views>
bool have_vectors(int channels, const Views&... views) {
  return (has_vectors(channels, views) && ...);
}

// Calls launch.operator()<T, kTaps>() for the tensors' dtype and number of taps.
template <class Launch>
void specialise(const ConstTensorView& k, Launch&& launch) {
  visit_storage(k.dtype, [&]<class T>(std::type_identity<T>) {
    visit_integer<1, kMaxTaps>(k.shape[3], [&]<int kTaps>(std::integral_constant<int, kTaps>) {
      launch.template operator()<T, kTaps>();
    });
  });
}

// The calling thread's part of the work. Rows are counted from the first row of its chunk.
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

// A pointer that marches along t. One addition per row takes fewer registers than an address for
// each row in flight.
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

// [bytes] The size of the pieces that are loaded and stored: the longest vectors that `bits`
// consists of, or single elements.
template <bool kVectors, class T, int kCount>
constexpr int kPieceOf = kVectors ? longest_vector(Bits<T, kCount>::kBytes) : int{sizeof(T)};

// Loads elements: side by side if there are vectors, else `stride` elements apart. Loads go through
// L1, where neighbouring chunks find the rows that they share.
template <bool kVectors, class T, int kCount>
__device__ void load(Bits<T, kCount>& bits, const T* from, int64_t stride) {
  constexpr int kPiece = kPieceOf<kVectors, T, kCount>;
  load_pieces<kPiece>(bits, from, kVectors ? kPiece / int64_t{sizeof(T)} : stride);
}

template <bool kVectors, class T, int kCount>
__device__ void store(T* to, int64_t stride, const Bits<T, kCount>& bits) {
  constexpr int kPiece = kPieceOf<kVectors, T, kCount>;
  store_pieces<kPiece>(to, kVectors ? kPiece / int64_t{sizeof(T)} : stride, bits);
}

}  // namespace assay::dynamic_conv
