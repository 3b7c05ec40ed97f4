// SPDX-License-Identifier: Apache-2.0
// How tile.cuh divides the Cheri block: sizes, layouts in shared memory, the order of rows.
#pragma once

#include <cstdint>

#include "kernels/cheri/conv_norm/conv_norm.cuh"

namespace assay::cheri {

inline constexpr int kTileRows = 64;
inline constexpr int kHalo = 4;  // most rows that a tile needs on each side
// Rows of half a tile with their neighbours.
inline constexpr int kHalfRows = kTileRows / 2 + 2 * kHalo;
inline constexpr int kGroupThreads = 128;  // of a warpgroup
inline constexpr int kHiddenStep = 64;     // hidden units are padded to a multiple of this

// What a consumer has to know about a row of its tile.
struct RowInfo {
  int64_t x, out;     // [elements] its place; -1 if there is no such row
  int before, after;  // [bytes] to its neighbours in shared memory; 0 without one
  Norm norm;
};

// T is the storage type, F the type of factors. kSplit: a factor is the sum of two. kColumns:
// padded channels.
template <class T_, class F_, bool kSplit_, int kColumns_>
struct BlockPlan {
  using T = T_;
  using F = F_;
  static constexpr bool kSplit = kSplit_;
  static constexpr int kColumns = kColumns_;
  static constexpr int kParts = kSplit ? 2 : 1;
  static constexpr int kVector = 16 / int{sizeof(T)};  // [elements] loaded at once
  static constexpr int kSteps = kColumns / 16;         // of the first product

  // x comes in pieces of kPieceColumns columns. The rows of a lane's fragment lie in one half of
  // the tile; the next rows, which neighbouring lanes have, lie in the other half. The other half
  // begins 64 bytes beyond a multiple of 128. So the 8 lanes that load vectors of two rows at a
  // time find them in different banks, while rows follow each other as they do in x.
  static constexpr int kPieceColumns = kColumns < 128 ? kColumns : 128;
  static constexpr int kPieces = kColumns / kPieceColumns;
  static constexpr int kPieceVectors = kPieceColumns / (4 * kVector);  // of a lane in a row
  static constexpr int kMostPitch = kPieceColumns * int{sizeof(T)};    // [bytes]
  static constexpr int kHalfBytes = (kHalfRows * kMostPitch + 127) / 128 * 128 + 64;
  static constexpr int kPieceBytes = 2 * kHalfBytes;

  // Columns of out that are summed at once. A lane has one accumulator for each two of them.
  // Fragments of 256 channels in two parts leave registers for 128 only, so the tile is done once
  // for each 128.
  static constexpr int kOutColumns = kSplit && kColumns == 256 ? 128 : kColumns;
  static constexpr int kOuts = kColumns / kOutColumns;
  // Columns of out in one product.
  static constexpr int kPart = kOutColumns < 128 ? kOutColumns : 128;

  // Warpgroups of consumers, and the registers of their threads. There is one warpgroup of
  // producers. With 128 channels a third consumer has registers if x is not kept (kKeepsX).
  static constexpr int kConsumers =
      !kSplit && (kColumns <= 64 || (kColumns == 128 && sizeof(T) == 2)) ? 3 : 2;
  static constexpr int kConsumerRegisters = kConsumers == 3 ? 152 : 232;
  static constexpr int kProducerRegisters = 40;
  static constexpr int kThreads = (kConsumers + 1) * kGroupThreads;

  // Hidden units at once. If both products of a chunk had equally many steps, the assembler of nvcc
  // 13.0 would forget that the next chunk needs the fragments of y again, and would reuse their
  // registers.
  static constexpr int kChunk = kColumns == 32 || (kColumns == 128 && !kSplit && kConsumers == 2) ? 64 : 32;
  static_assert(kChunk != kColumns, "the products of a chunk must differ in their steps");
  static constexpr int kChunkSteps = kChunk / 16;                // of the second product
  static constexpr int kFirstBytes = kChunk * kColumns * 2;      // of one part of w1 of a chunk
  static constexpr int kSecondBytes = kChunk * kOutColumns * 2;  // of one part of w2
  static constexpr int kUnit = kParts * (kFirstBytes + kSecondBytes);

  // Whether x stays in registers until it is added to the sums. If not, it is loaded again.
  static constexpr int kElementsOfLane = kColumns / 2;
  static constexpr bool kKeepsX =
      kElementsOfLane * int{sizeof(T)} / 4 + kParts * kColumns / 4 + kOutColumns / 2 + kChunk / 2 <=
      kConsumerRegisters - 32;

  // Slots for pieces of x in shared memory. A warp of its own fills each slot.
  static constexpr int kSlots = kPieceBytes > 32768 ? 2 : 3;

  static_assert(kColumns % 32 == 0 && kHiddenStep % kChunk == 0, "whole steps and chunks");
};

// The channel that position `k` of a fragment's columns stands for.
template <int kVector>
__host__ __device__ constexpr int channel_at(int k) {
  constexpr int kBlock = 4 * kVector;
  const int in_block = k % kBlock;
  return k / kBlock * kBlock + in_block % 8 / 2 * kVector + in_block / 16 * 4 + in_block / 8 % 2 * 2 +
         in_block % 2;
}

// Division by a constant d of the launch. Let 2^s < d <= 2^(s + 1) and m = ceil(2^(32 + s) / d).
// For x < 2^31, x / d is x * m >> (32 + s): m * d exceeds 2^(32 + s) by less than d <= 2^(s + 1),
// so the quotient is right.
struct Divisor {
  int64_t value;
  uint32_t multiplier, shift;

  static Divisor make(int64_t d) {
    Divisor divisor{d, 0, 0};
    if (d <= 1 || d > INT32_MAX) return divisor;
    while (int64_t{2} << divisor.shift < d) ++divisor.shift;
    const auto power = uint64_t{1} << (32 + divisor.shift);
    divisor.multiplier =
        static_cast<uint32_t>((power + static_cast<uint64_t>(d) - 1) / static_cast<uint64_t>(d));
    return divisor;
  }
  __device__ int64_t operator()(int64_t x) const {
    if (value == 1) return x;
    if (((x | value) >> 31) != 0) return x / value;
    return __umulhi(static_cast<uint32_t>(x), multiplier) >> shift;
  }
};

// Gives the positions 0 .. length - 1 of an example new numbers. kHalo neighbouring residues modulo
// `dilation` form a band: position a * dilation + b belongs to band b / kHalo. Bands are numbered
// one after the other. Within a band the numbers follow a, and then b. So the taps of a row are at
// most kHalo numbers away from it.
struct RowOrder {
  bool is_identity;
  int64_t dilation;
  // Rows of the first bands, in which each residue has length / dilation + 1 positions.
  int64_t tall_total;
  int64_t border_first, border_total;  // of the band after them, in which only some residues do
  int64_t low_first;                   // of the bands after that
  int64_t last_first;                  // of the last band, which may be narrower
  Divisor tall_rows, low_rows;         // of a band
  Divisor by_border, by_last;          // widths of bands
  int halo;                            // the most numbers to a tap

  struct Number {
    int64_t position;
    int width;  // how many numbers its taps are away
  };

  static RowOrder make(int64_t length, int64_t dilation) {
    RowOrder order{};
    order.is_identity = dilation <= kHalo || dilation >= length;
    order.dilation = dilation;
    order.halo = dilation >= length ? 0 : static_cast<int>(dilation < kHalo ? dilation : kHalo);
    if (order.is_identity) return order;
    const int64_t whole = length / dilation, rest = length % dilation;
    const int64_t border = rest / kHalo * kHalo;
    const int64_t width = kHalo < dilation - border ? kHalo : dilation - border;
    order.tall_total = (whole + 1) * border;
    order.border_first = border;
    order.border_total = whole * width + rest - border;
    order.low_first = border + width;
    order.last_first = (dilation - 1) / kHalo * kHalo;
    order.tall_rows = Divisor::make((whole + 1) * kHalo);
    order.low_rows = Divisor::make(whole * kHalo);
    order.by_border = Divisor::make(width);
    order.by_last = Divisor::make(dilation - order.last_first);
    return order;
  }

  __device__ Number operator()(int64_t number) const {
    if (is_identity) return {number, halo};
    int64_t in_band = number, first = border_first;
    int64_t width = by_border.value;
    Divisor by_width = by_border;
    if (in_band < tall_total) {
      const int64_t band = tall_rows(in_band);
      in_band -= band * tall_rows.value;
      first = band * kHalo;
      width = kHalo;
    } else if (in_band - tall_total < border_total) {
      in_band -= tall_total;
    } else {
      in_band -= tall_total + border_total;
      const int64_t band = low_rows(in_band);
      in_band -= band * low_rows.value;
      first = low_first + band * kHalo;
      width = kHalo;
      if (first == last_first) {
        width = by_last.value;
        by_width = by_last;
      }
    }
    const int64_t step = width == kHalo ? in_band / kHalo : by_width(in_band);
    return {step * dilation + first + in_band - step * width, static_cast<int>(width)};
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
  const uint8_t* weights;  // w1 in parts, then w2 in parts, as packed by pack_weights()
  int64_t weight_bytes;    // of each part of each
  int64_t examples, length, rows, dilation;
  Divisor by_length;
  int channels;
  int tiles;
  int pitch;     // [bytes] from a row of a piece to the next
  int chunks;    // of hidden units
  int slots;     // how many of them are in shared memory
  bool streams;  // whether a tile uses more chunks
  RowOrder order;
};

}  // namespace assay::cheri
