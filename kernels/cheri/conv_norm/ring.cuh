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

// Host: depends on the size of an example alone, since it decides the order of sums.
struct Tiling {
  int64_t examples, rows, channels;
  int64_t dilation;  // at most `rows`
  int64_t full;      // rows of each chain; the first `rest` chains have one more
  int64_t rest;
  int columns;            // vectors of a row
  int chains;             // neighbouring ones
  int pieces;             // of a chain: strips
  int length;             // rows of a strip; fewer at the end of a chain
  int halo;               // rows before and after each chain of a tile: 1 or 0
  int64_t ranges;         // tiles along a chain
  int64_t groups;         // tiles beside each other, `chains` wide
  int64_t channel_tiles;  // tiles of a row

  constexpr int span() const { return pieces * length; }
  constexpr int stage_rows() const { return (span() + 2 * halo) * chains; }
  constexpr int row_elements() const { return columns * kTileLanes; }
  constexpr int64_t tiles() const { return channel_tiles * groups * ranges; }  // of an example
};

// L and C are not 0. Of all numbers of chains it takes the one with the least work for all tiles.
// The work of a tile is counted in rows: those that its threads can convolve, those that it loads,
// and one for each copy that loads them.
inline Tiling tiling_of(const Extents& shape, int64_t dilation) {
  const auto parts = [](int64_t whole, int64_t part) { return (whole + part - 1) / part; };
  Tiling best{};
  best.examples = shape[0];
  best.rows = shape[1];
  best.channels = shape[2];
  best.dilation = std::min(dilation, best.rows);
  best.full = best.rows / best.dilation;
  best.rest = best.rows % best.dilation;
  const int64_t vectors = parts(best.channels, kTileLanes);
  best.channel_tiles = parts(vectors, int64_t{kMostColumns});
  best.columns = static_cast<int>(parts(vectors, best.channel_tiles));
  if (best.channel_tiles > 1) best.columns += best.columns % 2;  // tiles begin at 16 bytes
  const int64_t lines = kTileThreads / best.columns, steps = parts(best.rows, best.dilation);
  int64_t least_work = INT64_MAX;
  for (int64_t chains = std::min(lines, best.dilation); chains > 0; --chains) {
    Tiling trial = best;
    const int64_t strips = parts(steps, kTileStrip);  // of a chain
    trial.ranges = parts(strips, lines / chains);
    trial.pieces = static_cast<int>(parts(strips, trial.ranges));
    trial.length = static_cast<int>(parts(steps, trial.ranges * trial.pieces));
    trial.ranges = parts(steps, trial.span());
    trial.chains = static_cast<int>(chains);
    trial.halo = trial.ranges > 1 ? 1 : 0;
    trial.groups = parts(best.dilation, chains);
    const int64_t copies = trial.groups == 1 ? 1 : trial.stage_rows() / chains;
    const int64_t work = trial.ranges * trial.groups * (lines * trial.length + trial.stage_rows() + copies);
    if (work >= least_work) continue;
    least_work = work;
    best = trial;
  }
  return best;
}

// Where a tile of an example begins.
struct Tile {
  int64_t channel, chain, step;  // step: rows of a chain before its first one

  __device__ Tile(const Tiling& tiling, int64_t number) {
    const int64_t along = quotient(number, tiling.ranges), side = quotient(along, tiling.groups);
    step = (number - along * tiling.ranges) * tiling.span();
    chain = (along - side * tiling.groups) * tiling.chains;
    channel = side * tiling.row_elements();
  }

  // The strip of a thread with this place among the chains and the pieces of a tile.
  __device__ Strip strip(const Tiling& tiling, int chain_of_tile, int piece) const {
    const int64_t own = chain + chain_of_tile, done = step + piece * tiling.length;
    if (piece >= tiling.pieces || own >= tiling.dilation) return {};
    const int64_t left = tiling.full + (own < tiling.rest ? 1 : 0) - done;
    if (left <= 0) return {};
    const int count = static_cast<int>(min(int64_t{tiling.length}, left));
    return {own + done * tiling.dilation, static_cast<int>(min(done, int64_t{2})), count,
            static_cast<int>(min(left - count, int64_t{2}))};
  }
};

// Rows of a tile that one copy brings: `count` of them lie together in shared memory from row `to`
// on, and in x from row `from` on.
struct TileCopy {
  int to;
  int64_t from;
  int64_t count;  // may be less than 1: no such rows

  // `rows` is the number of rows of each copy if all are there; `index` counts the copies.
  __device__ TileCopy(const Tiling& tiling, const Tile& tile, int rows, int index) : to(index * rows) {
    const bool is_whole = tiling.groups == 1;  // then all rows of a tile lie together in x
    const int step = to / tiling.chains, beside = to - step * tiling.chains;
    from = tile.chain + beside + (tile.step + step - tiling.halo) * tiling.dilation;
    count = min(int64_t{rows}, int64_t{tiling.stage_rows() - to});
    if (!is_whole) count = min(count, tiling.dilation - tile.chain - beside);
    const int64_t missing = max(int64_t{0}, -from);  // before the first row
    count = min(count, tiling.rows - from) - missing;
    to += static_cast<int>(missing);
    from += missing;
  }
};

}  // namespace assay::cheri
