// SPDX-License-Identifier: Apache-2.0
// How conv_norm in one pass over x, and its gradient in one pass over x and dy, cut an example into
// tiles. A tile is `chains` neighbouring chains (conv_norm.cuh) of `span` rows each, in some
// neighbouring channels. In shared memory its rows lie in the order of x: first row of each chain,
// second row of each chain. If a chain goes on in other tiles, the tile also holds the rows before
// and after it that its taps reach: the halo.
//
// Threads divide a tile into strips, a vector of channels wide. The chains of a tile lie side by
// side, and so do the `pieces` of a chain.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cheri/conv_norm/conv_norm.cuh"

namespace assay::cheri {

inline constexpr int kTileLanes = 4;  // channels of a vector

// Host: what a tile may take.
struct TileLimits {
  int threads;       // that convolve
  int strip;         // most rows of a strip
  int tensors;       // in a stage; taps reach one row of the last one, two rows of the one before
  int64_t elements;  // of a stage
};

// Host: depends on the size of an example and the limits alone, since it decides the order of sums.
// All but the counts of examples and tiles fit into 32 bits where ring_unsupported() says nothing.
struct Tiling {
  int64_t examples;
  int64_t tiles;  // of an example
  int rows, channels;
  int dilation;  // at most `rows`
  int full;      // rows of each chain; the first `rest` chains have one more
  int rest;
  int sides;    // tiles beside each other along the channels
  int columns;  // vectors of a row
  int chains;   // neighbouring ones
  int pieces;   // of a chain: strips
  int length;   // rows of a strip; fewer at the end of a chain
  int halo;     // 1 if chains go on in other tiles, else 0
  int groups;   // tiles beside each other, `chains` wide
  int ranges;   // tiles along a chain

  constexpr int span() const { return pieces * length; }
  // Of a tensor whose taps reach this far.
  constexpr int stage_rows(int reach) const { return (span() + 2 * halo * reach) * chains; }
  constexpr int row_elements() const { return columns * kTileLanes; }
};

// L and C are not 0. Of all numbers of chains it takes the one with the least work for all tiles.
// The work of a tile is counted in rows: those that its threads can convolve, those that it loads,
// and one for each copy that loads them.
inline Tiling tiling_of(const Extents& shape, int64_t dilation, const TileLimits& limits) {
  const auto parts = [](int64_t whole, int64_t part) { return (whole + part - 1) / part; };
  const auto narrow = [](int64_t value) { return static_cast<int>(value); };
  const int64_t rows = shape[1], steps = parts(rows, std::min(dilation, rows));
  dilation = std::min(dilation, rows);
  const int64_t vectors = parts(shape[2], kTileLanes), sides = parts(vectors, kMostColumns);
  int64_t columns = parts(vectors, sides);
  if (sides > 1) columns += columns % 2;  // tiles begin at 16 bytes
  const int64_t lines = limits.threads / columns, tensors = limits.tensors;
  Tiling best{};
  int64_t least_work = INT64_MAX;
  for (int64_t chains = std::min(lines, dilation); chains > 0; --chains) {
    // Rows of each chain that all tensors have room for, halos included.
    const int64_t room = limits.elements / (chains * columns * kTileLanes);
    int64_t most_pieces = lines / chains, strip = limits.strip;
    if (steps > std::min(most_pieces * strip, room / tensors)) {
      const int64_t most_span = (room - tensors * (tensors + 1)) / tensors;
      if (most_span < 1) continue;
      most_pieces = std::min(most_pieces, most_span);
      strip = std::min(strip, most_span / most_pieces);
    }
    const int64_t strips = parts(steps, strip);  // of a chain
    const int64_t pieces = parts(strips, parts(strips, most_pieces));
    const int64_t length = parts(steps, parts(strips, pieces) * pieces);
    const int64_t ranges = parts(steps, pieces * length), groups = parts(dilation, chains);
    const Tiling trial{.examples = shape[0],
                       .tiles = sides * groups * ranges,
                       .rows = narrow(rows),
                       .channels = narrow(shape[2]),
                       .dilation = narrow(dilation),
                       .full = narrow(rows / dilation),
                       .rest = narrow(rows % dilation),
                       .sides = narrow(sides),
                       .columns = narrow(columns),
                       .chains = narrow(chains),
                       .pieces = narrow(pieces),
                       .length = narrow(length),
                       .halo = ranges > 1 ? 1 : 0,
                       .groups = narrow(groups),
                       .ranges = narrow(ranges)};
    int64_t work = lines * (tensors * length + 2 * (tensors - 1));
    for (int reach = 1; reach <= limits.tensors; ++reach)
      work += trial.stage_rows(reach) + (groups == 1 ? 1 : trial.stage_rows(reach) / chains);
    work *= trial.tiles;
    if (work >= least_work) continue;
    least_work = work;
    best = trial;
  }
  return best;
}

// Where a tile begins. All tiles of a block have the same channels if the number of blocks is a
// multiple of `sides`.
struct Tile {
  int64_t example;
  int channel, chain, step;  // step: rows of a chain before its first one

  Tile() = default;
  __device__ Tile(const Tiling& tiling, int64_t number) : example(quotient(number, tiling.tiles)) {
    const int of_example = static_cast<int>(number - example * tiling.tiles);
    const int of_side = of_example / tiling.sides, group = of_side / tiling.ranges;
    step = (of_side - group * tiling.ranges) * tiling.span();
    chain = group * tiling.chains;
    channel = (of_example - of_side * tiling.sides) * tiling.row_elements();
  }

  // All its strips are empty.
  __device__ Tile without_rows(const Tiling& tiling) const {
    Tile none = *this;
    none.step = tiling.rows;
    return none;
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

  // Taps reach `reach` rows. `rows` is the number of rows of each copy if all are there; `index`
  // counts the copies.
  __device__ TileCopy(const Tiling& tiling, const Tile& tile, int reach, int rows, int index)
      : to(index * rows) {
    const int step = to / tiling.chains, beside = to - step * tiling.chains;
    from = tile.chain + beside + (tile.step + step - tiling.halo * reach) * tiling.dilation;
    count = min(rows, tiling.stage_rows(reach) - to);
    // A tile of all chains lies in one piece.
    if (tiling.groups > 1) count = min(count, tiling.dilation - tile.chain - beside);
    const int missing = max(0, -from);  // before the first row
    count = min(count, tiling.rows - from) - missing;
    to += missing;
    from += missing;
  }
};

}  // namespace assay::cheri
