// SPDX-License-Identifier: Apache-2.0
// How conv_norm in one pass over x cuts an example into tiles. A tile is `chains` neighbouring
// chains (conv_norm.cuh) of `span` rows each, in some neighbouring channels. In shared memory its
// rows lie in the order of x: first row of each chain, second row of each chain. If a chain goes on
// in other tiles, the tile also holds one row before and one row after it: the halo.
//
// Threads divide a tile into strips, a vector of channels wide. The chains of a tile lie side by
// side, and so do the `pieces` of a chain.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cheri/conv_norm/conv_norm.cuh"

namespace assay::cheri {

inline constexpr int kTileThreads = 256;  // that convolve
inline constexpr int kTileLanes = 4;      // channels of a vector
inline constexpr int kTileStrip = 9;      // most rows of a strip

// Host: depends on the size of an example alone, since it decides the order of sums. All but the
// counts of examples and tiles fit into 32 bits if a ring can hold an example.
struct Tiling {
  int64_t examples;
  int64_t tiles;  // of an example
  int rows, channels;
  int dilation;  // at most `rows`
  int full;      // rows of each chain; the first `rest` chains have one more
  int rest;
  int columns;  // vectors of a row
  int chains;   // neighbouring ones
  int pieces;   // of a chain: strips
  int length;   // rows of a strip; fewer at the end of a chain
  int halo;     // rows before and after each chain of a tile: 1 or 0
  int ranges;   // tiles along a chain
  int groups;   // tiles beside each other, `chains` wide

  constexpr int span() const { return pieces * length; }
  constexpr int stage_rows() const { return (span() + 2 * halo) * chains; }
  constexpr int row_elements() const { return columns * kTileLanes; }
};

// L and C are not 0. Of all numbers of chains it takes the one with the least work for all tiles.
// The work of a tile is counted in rows: those that its threads can convolve, those that it loads,
// and one for each copy that loads them.
inline Tiling tiling_of(const Extents& shape, int64_t dilation) {
  const auto parts = [](int64_t whole, int64_t part) { return (whole + part - 1) / part; };
  const auto narrow = [](int64_t value) { return static_cast<int>(value); };
  const int64_t rows = shape[1], steps = parts(rows, std::min(dilation, rows));
  dilation = std::min(dilation, rows);
  const int64_t vectors = parts(shape[2], kTileLanes), side = parts(vectors, kMostColumns);
  int64_t columns = parts(vectors, side);
  if (side > 1) columns += columns % 2;  // tiles begin at 16 bytes
  const int64_t lines = kTileThreads / columns;
  Tiling best{};
  int64_t least_work = INT64_MAX;
  for (int64_t chains = std::min(lines, dilation); chains > 0; --chains) {
    const int64_t strips = parts(steps, kTileStrip);  // of a chain
    const int64_t pieces = parts(strips, parts(strips, lines / chains));
    const int64_t length = parts(steps, parts(strips, pieces) * pieces);
    const int64_t ranges = parts(steps, pieces * length), groups = parts(dilation, chains);
    const Tiling trial{.examples = shape[0],
                       .tiles = side * groups * ranges,
                       .rows = narrow(rows),
                       .channels = narrow(shape[2]),
                       .dilation = narrow(dilation),
                       .full = narrow(rows / dilation),
                       .rest = narrow(rows % dilation),
                       .columns = narrow(columns),
                       .chains = narrow(chains),
                       .pieces = narrow(pieces),
                       .length = narrow(length),
                       .halo = ranges > 1 ? 1 : 0,
                       .ranges = narrow(ranges),
                       .groups = narrow(groups)};
    const int64_t copies = groups == 1 ? 1 : trial.stage_rows() / chains;
    const int64_t work = trial.tiles * (lines * length + trial.stage_rows() + copies);
    if (work >= least_work) continue;
    least_work = work;
    best = trial;
  }
  return best;
}

// Where a tile begins.
struct Tile {
  int64_t example;
  int channel, chain, step;  // step: rows of a chain before its first one

  Tile() = default;
  __device__ Tile(const Tiling& tiling, int64_t number) : example(quotient(number, tiling.tiles)) {
    const int of_example = static_cast<int>(number - example * tiling.tiles);
    const int along = of_example / tiling.ranges, side = along / tiling.groups;
    step = (of_example - along * tiling.ranges) * tiling.span();
    chain = (along - side * tiling.groups) * tiling.chains;
    channel = side * tiling.row_elements();
  }

  // The strip of a thread with this place among the chains and the pieces of a tile.
  __device__ Strip strip(const Tiling& tiling, int chain_of_tile, int piece) const {
    const int own = chain + chain_of_tile, done = step + piece * tiling.length;
    const int left = tiling.full + (own < tiling.rest ? 1 : 0) - done;
    if (piece >= tiling.pieces || own >= tiling.dilation || left <= 0) return {};
    const int count = min(tiling.length, left);
    return {own + int64_t{done} * tiling.dilation, min(done, 2), count, min(left - count, 2)};
  }
};

// Rows of a tile that one copy brings: `count` of them lie together in shared memory from row `to`
// on, and in x from row `from` on.
struct TileCopy {
  int to;
  int from;
  int count;  // may be less than 1: no such rows

  // `rows` is the number of rows of each copy if all are there; `index` counts the copies.
  __device__ TileCopy(const Tiling& tiling, const Tile& tile, int rows, int index) : to(index * rows) {
    const int step = to / tiling.chains, beside = to - step * tiling.chains;
    from = tile.chain + beside + (tile.step + step - tiling.halo) * tiling.dilation;
    count = min(rows, tiling.stage_rows() - to);
    // A tile of all chains lies in one piece.
    if (tiling.groups > 1) count = min(count, tiling.dilation - tile.chain - beside);
    const int missing = max(0, -from);  // before the first row
    count = min(count, tiling.rows - from) - missing;
    to += missing;
    from += missing;
  }
};

}  // namespace assay::cheri
