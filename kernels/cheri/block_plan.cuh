// SPDX-License-Identifier: Apache-2.0
// How block_tile.cuh divides the Cheri block: sizes, layouts in shared memory, the order of rows.
#pragma once

#include <cstdint>

#include "kernels/cheri/conv_norm.cuh"

namespace assay::cheri {

inline constexpr int kTileRows = 64;
inline constexpr int kGroupThreads = 128;  // of a warpgroup
inline constexpr int kHiddenStep = 64;     // hidden units are filled up to a multiple of this
inline constexpr int kMostStages = 4;

// Where a row of a tile lies in x and in out, in elements; -1 if there is none.
struct RowOffsets {
  int64_t x, out;
};

// T: storage. F: factors. kSplit: factors are a sum of two. kColumns: channels, filled up.
template <class T_, class F_, bool kSplit_, int kColumns_>
struct BlockPlan {
  using T = T_;
  using F = F_;
  static constexpr bool kSplit = kSplit_;
  static constexpr int kColumns = kColumns_;
  static constexpr int kParts = kSplit ? 2 : 1;
  static constexpr int kVector = 16 / int{sizeof(T)};                 // [elements] loaded at once
  static constexpr int kVectors = kColumns / (4 * kVector);           // of a lane in a row
  static constexpr int kSteps = kColumns / 16;                        // of the first product
  static constexpr int kChunk = kSplit && kColumns >= 128 ? 32 : 64;  // hidden units at once
  static constexpr int kChunkSteps = kChunk / 16;                     // of the second product
  static constexpr int kPiece = kChunk * kColumns * 2;  // [bytes] of one part of one weight of a chunk
  static constexpr int kUnit = 2 * kParts * kPiece;     // [bytes] of a chunk: w1 in parts, then w2
  static constexpr int kPart = kColumns < 128 ? kColumns : 128;      // columns of out in one product
  static constexpr int kStepBytes = kTileRows * 32;                  // of a step of the first product
  static constexpr int kFactorBytes = kParts * kSteps * kStepBytes;  // of a tile
  static constexpr int kStageBytes = kFactorBytes + kTileRows * int{sizeof(RowOffsets)};

  // Warpgroups of each kind, and registers of their threads.
  static constexpr int kConsumers = kSplit && kColumns == 256 ? 1 : 2;
  static constexpr int kProducers = kColumns == 256 ? 1 : 2;
  static constexpr int kConsumerRegisters = kColumns == 256 ? 208 : 152;
  static constexpr int kProducerRegisters = kColumns == 256 ? 88 : 104;
  static constexpr int kThreads = (kConsumers + kProducers) * kGroupThreads;
  static constexpr int kAhead = kColumns == 256 ? 1 : 2;  // vectors on their way while one is used

  static_assert(kColumns % 32 == 0 && kHiddenStep % kChunk == 0, "whole steps and chunks");
  static_assert(kThreads / kGroupThreads == 4 || kColumns == 256, "registers are shared out among four");
};

// Which channel position `k` of a fragment's columns stands for.
template <int kVector>
__host__ __device__ constexpr int channel_at(int k) {
  constexpr int kBlock = 4 * kVector;
  const int in_block = k % kBlock;
  return k / kBlock * kBlock + in_block % 8 / 2 * kVector + in_block / 16 * 4 + in_block / 8 % 2 * 2 +
         in_block % 2;
}

// Division of numbers below 2^31 by a constant of the launch: x / d = x * m >> 32 + s with m = ceil(2^(32 + s) / d),
// where 2^s < d <= 2^(s + 1). m * d exceeds 2^(32 + s) by less than d <= 2^(s + 1), so that the quotient is right for
// x < 2^31.
struct Divisor {
  uint32_t value, multiplier, shift;

  static Divisor make(int64_t d) {
    Divisor divisor{static_cast<uint32_t>(d), 0, 0};
    while (int64_t{2} << divisor.shift < d) ++divisor.shift;
    const auto power = uint64_t{1} << (32 + divisor.shift);
    divisor.multiplier =
        d <= 1 ? 0 : static_cast<uint32_t>((power + static_cast<uint64_t>(d) - 1) / static_cast<uint64_t>(d));
    return divisor;
  }
  __device__ uint32_t operator()(uint32_t x) const {
    return value == 1 ? x : __umulhi(x, multiplier) >> shift;
  }
};

// Numbers the positions 0 .. length - 1 of an example anew: bands of `band` neighbours, and in each band all that lie
// `dilation` apart one after the other. Position a * dilation + b belongs to band b / band.
struct RowOrder {
  bool is_identity;
  uint32_t dilation, band;
  uint32_t tall_total;  // rows of the bands whose neighbours all have length / dilation + 1 positions
  uint32_t border_first, border_total;  // of the band after them, in which only some do
  uint32_t low_first;                   // of the bands after that one
  uint32_t last_first;                  // of the last band, which may be narrower
  Divisor tall_rows, low_rows;          // of a band
  Divisor by_band, by_border, by_last;  // widths of bands

  static RowOrder make(int64_t length, int64_t dilation, int64_t band) {
    RowOrder order{};
    order.is_identity = dilation <= band || dilation >= length || length > INT32_MAX;
    if (order.is_identity) return order;
    const auto narrow = [](int64_t value) { return static_cast<uint32_t>(value); };
    const int64_t whole = length / dilation, rest = length % dilation;
    const int64_t border = rest / band * band;
    const int64_t width = band < dilation - border ? band : dilation - border;
    const int64_t last = (dilation - 1) / band * band;
    order.dilation = narrow(dilation);
    order.band = narrow(band);
    order.tall_total = narrow((whole + 1) * border);
    order.border_first = narrow(border);
    order.border_total = narrow(whole * width + rest - border);
    order.low_first = narrow(border + width);
    order.last_first = narrow(last);
    order.tall_rows = Divisor::make((whole + 1) * band);
    order.low_rows = Divisor::make(whole * band);
    order.by_band = Divisor::make(band);
    order.by_border = Divisor::make(width);
    order.by_last = Divisor::make(dilation - last);
    return order;
  }

  __device__ int64_t position(int64_t row) const {
    if (is_identity) return row;
    auto in_band = static_cast<uint32_t>(row);
    uint32_t first = border_first;
    Divisor width = by_border;
    if (in_band < tall_total) {
      const uint32_t number = tall_rows(in_band);
      in_band -= number * tall_rows.value;
      first = number * band;
      width = by_band;
    } else if (in_band - tall_total < border_total) {
      in_band -= tall_total;
    } else {
      in_band -= tall_total + border_total;
      const uint32_t number = low_rows(in_band);
      in_band -= number * low_rows.value;
      first = low_first + number * band;
      width = first == last_first ? by_last : by_band;
    }
    const uint32_t step = width(in_band);
    return int64_t{step} * dilation + first + in_band - step * width.value;
  }
};

template <class T>
struct BlockArguments {
  const T* x;
  int64_t x_example, x_row;  // [elements]
  T* out;
  int64_t out_example, out_row;
  const T* taps;
  int64_t tap, tap_channel;
  const Norm* norms;       // (N)
  const uint8_t* weights;  // w1 in parts, then w2 in parts, as pack_weights() leaves them
  int64_t weight_bytes;    // of each part of each
  int64_t examples, length, rows, dilation;
  Divisor by_length;  // if there are fewer than 2^31 rows
  int channels;
  int tiles;
  int stage_log;  // log2 of how many tiles of factors are in shared memory
  int chunks;     // of hidden units
  RowOrder order;
};

}  // namespace assay::cheri
