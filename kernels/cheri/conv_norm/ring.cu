// SPDX-License-Identifier: Apache-2.0
// conv_norm in one pass: each block holds some tiles of x in a ring of stages in shared memory. It
// adds up a tile as soon as it is there, and normalises it kLag tiles later. By then the blocks
// that hold the other tiles of the example have published their sums, too. So x is read from memory
// once, and all multiprocessors work on examples of any size.
//
// Warps have roles, and barriers hand the stages on:
//   loads       empty -> full     brings the next tile
//   convolves   full -> summed    adds up conv - reference and its square
//   publishes   summed            hands the sums of a tile to all blocks
//   finishes    full -> normed    waits for the sums of all tiles of the example
//   convolves   normed -> empty   normalises the tile
//
// Blocks wait for each other, so all of them run at the same time. None waits for ever. Say tile t
// is the first of all that wait to be normalised, and tile u of its example is not published. Then
// the block of u waits with a tile v >= t, and has published v and its next kLag tiles. So
// u >= v + (kLag + 1) * blocks. But an example has at most (kLag + 1) * blocks tiles.
#include "kernels/cheri/conv_norm/ring.cuh"
#include "kernels/core/specialise.h"
#include "kernels/core_cuda/async_copy.cuh"
#include "kernels/core_cuda/bulk_copy.cuh"
#include "kernels/core_cuda/cooperative.cuh"
#include "kernels/core_cuda/limits.h"
#include "kernels/core_cuda/published.cuh"

namespace assay::cheri {
namespace {

constexpr int kStages = 5, kLag = 3;
constexpr int kConvolvers = kTileThreads / kWarp;  // [warps]
constexpr int kFinishers = 2;                      // [warps] take turns: most of the time they wait
// Multiprocessors of the smallest GPU with compute capability 9.0 (H20).
constexpr int64_t kFewestUnits = 78;

// Rows are copied whole if kPiece is a vector of channels, else one element after the other.
template <class T, int kPiece>
constexpr bool kCopiesRows = kPiece == kTileLanes* int{sizeof(T)};
template <class T, int kPiece>
constexpr int kLoaders = kCopiesRows<T, kPiece> ? 1 : 4;  // [warps]
template <class T, int kPiece>
constexpr int kThreads = (kConvolvers + 1 + kFinishers + kLoaders<T, kPiece>)*kWarp;
template <class T>
constexpr int kBlocksOfUnit = 4 / int{sizeof(T)};

template <class T>
struct Arguments {
  Strided<const T> x, w;
  Strided<T> y;
  LaunchCount* count;
  Published* sums;  // (N, tiles, 2)
  Tiling tiling;
  int64_t tiles;  // of all examples
  int rows_of_copy;
};

struct Shared {
  double sums[kStages][kConvolvers][2];
  Tile tiles[kStages];
  double references[kStages];
  Norm norms[kStages];
  uint64_t empty[kStages], full[kStages], summed[kStages], normed[kStages];
};

__device__ uint32_t address_of(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

// Moves over the tiles of a block. `parity` is that of the barriers of its stage.
struct Turn {
  int64_t tile = blockIdx.x;
  int stage = 0;
  uint32_t parity = 0;

  __device__ void next() {
    tile += gridDim.x;
    if (++stage < kStages) return;
    stage = 0;
    parity ^= 1;
  }
};

// The rows of a strip in a stage and the next row at each end.
template <class T>
struct StageRows {
  using Vector = Piece<kTileLanes* int{sizeof(T)}>;
  const Vector* row0;
  int step;  // [vectors] to the next row of a chain

  __device__ void load(float (&values)[kTileLanes], int row) const {
    Bits<T, kTileLanes> bits;
    *reinterpret_cast<Vector*>(bits.words) = row0[row * step];
#pragma unroll
    for (int e = 0; e < kTileLanes; ++e) values[e] = bits[e];
  }

  // Calls visit(conv) for each row of the strip, `strip.count` of them. kInside promises that there
  // are kTileStrip of them, with neighbours on both sides.
  template <bool kInside, class Visit>
  __device__ void convolve_each(const Strip& strip, const Weights<kTileLanes>& w, Visit&& visit) const {
    float left[kTileLanes]{}, middle[kTileLanes], right[kTileLanes]{};
    if (kInside || strip.before > 0) load(left, -1);
    load(middle, 0);
#pragma unroll
    for (int row = 0; row < kTileStrip; ++row) {
      if (!kInside && row >= strip.count) break;
      const bool has_left = kInside || strip.holds(row - 1), has_right = kInside || strip.holds(row + 1);
      if (has_right) load(right, row + 1);
      float conv[kTileLanes];
#pragma unroll
      for (int e = 0; e < kTileLanes; ++e) {
        conv[e] = convolve(left[e], middle[e], right[e], has_left, has_right, w.taps[0][e], w.taps[1][e],
                           w.taps[2][e]);
        left[e] = middle[e];
        middle[e] = right[e];
      }
      visit(conv);
    }
  }
};

template <class T, int kPiece>
__device__ void load_tiles(const Arguments<T>& a, Shared& shared, T* stages, int warp) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int row_elements = a.tiling.row_elements(), stage_rows = a.tiling.stage_rows();
  for (Turn at; at.tile < a.tiles; at.next()) {
    const uint32_t full = address_of(&shared.full[at.stage]);
    wait_for_phase(address_of(&shared.empty[at.stage]), at.parity ^ 1);
    const Tile tile(a.tiling, at.tile);
    const int valid = min(row_elements, a.tiling.channels - tile.channel);
    const T* const x = a.x.data + tile.example * a.x.example + tile.channel * a.x.channel;
    T* const stage = stages + at.stage * stage_rows * row_elements;
    const auto describe = [&](const Tile& own) {
      shared.tiles[at.stage] = own;
      shared.references[at.stage] = reference_of(a.tiling, a.x, a.w, own.example);
    };
    if constexpr (kCopiesRows<T, kPiece>) {
      uint32_t bytes = 0;
      for (int copy = lane; copy * a.rows_of_copy < stage_rows; copy += kWarp) {
        const TileCopy rows(a.tiling, tile, a.rows_of_copy, copy);
        if (rows.count <= 0) continue;
        const auto length = static_cast<uint32_t>(rows.count) * static_cast<uint32_t>(valid * int{sizeof(T)});
        copy_bulk<CacheUse::kAgain>(address_of(stage + rows.to * row_elements), x + rows.from * a.x.row,
                                    length, full);
        bytes += length;
      }
      if (lane == kWarp - 1) describe(tile);
      arrive_with_copies(full, bytes);
    } else {
      for (int row = warp; row < stage_rows; row += kLoaders<T, kPiece>) {
        const TileCopy one(a.tiling, tile, 1, row);
        if (one.count <= 0) continue;
        const T* const from = x + one.from * a.x.row;
#pragma unroll 4
        for (int e = lane; e < valid; e += kWarp)
          copy_async<int{sizeof(T)}>(stage + row * row_elements + e, from + e * a.x.channel);
      }
      if (warp == 0 && lane == kWarp - 1) describe(tile);
      wait_for_copies();
      arrive(full);
    }
  }
}

template <class T>
__device__ uint32_t flag_of(const Arguments<T>& a) {
  return flag_of_launch(a.count, gridDim.x * (1 + kFinishers));
}

template <class T>
__device__ void publish_sums(const Arguments<T>& a, Shared& shared) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const uint32_t flag = flag_of(a);
  for (Turn at; at.tile < a.tiles; at.next()) {
    wait_for_phase(address_of(&shared.summed[at.stage]), at.parity);
    if (lane < 2) {
      double sum = 0;
#pragma unroll
      for (int warp = 0; warp < kConvolvers; ++warp) sum += shared.sums[at.stage][warp][lane];
      publish(a.sums + at.tile * 2 + lane, sum, flag);
    }
    __syncwarp();
    if (lane == 0) arrive(address_of(&shared.empty[at.stage]));
  }
}

template <class T>
__device__ void finish_sums(const Arguments<T>& a, Shared& shared, int warp) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const double count = static_cast<double>(a.tiling.rows) * static_cast<double>(a.tiling.channels);
  const uint32_t flag = flag_of(a);
  int turn = 0;
  for (Turn at; at.tile < a.tiles; at.next()) {
    if (turn++ % kFinishers != warp) continue;
    wait_for_phase(address_of(&shared.full[at.stage]), at.parity);
    const Published* const published = a.sums + shared.tiles[at.stage].example * a.tiling.tiles * 2;
    double sums[2]{};
    for (int tile = lane; tile < a.tiling.tiles; tile += kWarp) {
      double part[2];
      wait_for_published(published + tile * 2, flag, part);
      sums[kDeviations] += part[kDeviations];
      sums[kSquares] += part[kSquares];
    }
    __syncwarp();
    sum_over_warp(sums);
    if (lane == 0) {
      shared.norms[at.stage] =
          Moments(shared.references[at.stage], sums[kDeviations], sums[kSquares], count).norm();
      arrive(address_of(&shared.normed[at.stage]));
    }
  }
}

template <class T, int kPiece>
__device__ void convolve_tiles(const Arguments<T>& a, Shared& shared, const T* stages) {
  const int thread = static_cast<int>(threadIdx.x);
  const int line = thread / a.tiling.columns, column = thread - line * a.tiling.columns;
  const int piece = line / a.tiling.chains, chain = line - piece * a.tiling.chains;
  // In the stage.
  const int row0 = (piece * a.tiling.length + a.tiling.halo) * a.tiling.chains + chain;
  const int row_elements = a.tiling.row_elements();
  Lane lane{};
  const auto move_to = [&](int channel) {
    lane = {line, channel, max(0, min(a.tiling.channels - channel, kTileLanes))};
  };
  move_to(column * kTileLanes);
  Weights<kTileLanes> w(a.w, lane);
  // Calls begin(strip) and then visit(conv) for each row of the thread's strip.
  const auto for_each_row = [&](int stage, auto&& begin, auto&& visit) {
    const Tile& tile = shared.tiles[stage];
    if (tile.channel + column * kTileLanes != lane.channel) {
      move_to(tile.channel + column * kTileLanes);
      w = Weights<kTileLanes>(a.w, lane);
    }
    const Strip strip = tile.strip(a.tiling, chain, piece);
    if (strip.count == 0 || lane.valid == 0) return;
    begin(tile, strip);
    const T* const first = stages + (stage * a.tiling.stage_rows() + row0) * row_elements;
    const StageRows<T> rows{reinterpret_cast<const typename StageRows<T>::Vector*>(first) + column,
                            a.tiling.chains * a.tiling.columns};
    if (strip.count == kTileStrip && strip.before > 0 && strip.after > 0) {
      rows.template convolve_each<true>(strip, w, visit);
    } else {
      rows.template convolve_each<false>(strip, w, visit);
    }
  };
  Turn adds, ends;
  for (int turn = 0; ends.tile < a.tiles; ++turn) {
    if (adds.tile < a.tiles) {
      double sums[2]{};
      wait_for_phase(address_of(&shared.full[adds.stage]), adds.parity);
      const double reference = shared.references[adds.stage];
      for_each_row(
          adds.stage, [](const Tile&, const Strip&) {},
          [&](const float(&conv)[kTileLanes]) {
#pragma unroll
            for (int e = 0; e < kTileLanes; ++e) {
              if (!kCopiesRows<T, kPiece> && e >= lane.valid) continue;
              const double deviation = conv[e] - reference;
              sums[kDeviations] += deviation;
              sums[kSquares] = fma(deviation, deviation, sums[kSquares]);
            }
          });
      __syncwarp();
      sum_over_warp(sums);
      if (thread % kWarp == 0) {
        shared.sums[adds.stage][thread / kWarp][kDeviations] = sums[kDeviations];
        shared.sums[adds.stage][thread / kWarp][kSquares] = sums[kSquares];
        arrive(address_of(&shared.summed[adds.stage]));
      }
      adds.next();
    }
    if (turn < kLag) continue;
    wait_for_phase(address_of(&shared.normed[ends.stage]), ends.parity);
    const Norm norm = shared.norms[ends.stage];
    typename Rows<kPiece, T, kTileLanes>::Cursor y;
    for_each_row(
        ends.stage,
        [&](const Tile& tile, const Strip& strip) {
          y = Rows<kPiece, T, kTileLanes>(a.y, tile.example, lane, strip, a.tiling.dilation).from(0);
        },
        [&](float(&values)[kTileLanes]) {
#pragma unroll
          for (int e = 0; e < kTileLanes; ++e) values[e] = norm(values[e]);
          y.store(round_to<T>(values));
          y.next();
        });
    __syncwarp();
    if (thread % kWarp == 0) arrive(address_of(&shared.empty[ends.stage]));
    ends.next();
  }
}

template <class T, int kPiece>
__global__ void __launch_bounds__(kThreads<T, kPiece>, kBlocksOfUnit<T>) ring_kernel(const Arguments<T> a) {
  extern __shared__ uint4 stages[];
  __shared__ Shared shared;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      make_barrier(address_of(&shared.empty[stage]), kConvolvers + 1);
      make_barrier(address_of(&shared.full[stage]), kLoaders<T, kPiece> * kWarp);
      make_barrier(address_of(&shared.summed[stage]), kConvolvers);
      make_barrier(address_of(&shared.normed[stage]), 1);
    }
    fence_async_proxy();
  }
  __syncthreads();
  T* const rows = reinterpret_cast<T*>(stages);
  const int role = static_cast<int>(threadIdx.x) / kWarp - kConvolvers;
  if (role < 0) {
    convolve_tiles<T, kPiece>(a, shared, rows);
  } else if (role == 0) {
    publish_sums(a, shared);
  } else if (role <= kFinishers) {
    finish_sums(a, shared, role - 1);
  } else {
    load_tiles<T, kPiece>(a, shared, rows, role - 1 - kFinishers);
  }
}

template <class T>
int64_t stage_bytes(const Tiling& tiling) {
  return int64_t{tiling.stage_rows()} * tiling.row_elements() * int64_t{sizeof(T)};
}

template <class T, int kPiece>
void enqueue(const ConvNormTensors& t, const Run& run, const Tiling& tiling) {
  constexpr std::string_view kName = "ring_kernel";
  auto* const kernel = ring_kernel<T, kPiece>;
  const auto stream = static_cast<cudaStream_t>(run.stream);
  const int64_t shared_bytes = kStages * stage_bytes<T>(tiling), tiles = tiling.examples * tiling.tiles;
  const int64_t resident = resident_blocks(kName, kernel, kThreads<T, kPiece>, shared_bytes);
  const int64_t fewest = (tiling.tiles + kLag) / (kLag + 1);
  if (resident < fewest) {
    throw unsupported_error("an example of {} tiles needs {} blocks that run at a time; this device has {}",
                            tiling.tiles, fewest, resident);
  }
  const int64_t blocks = std::min({resident, tiles, std::max(fewest, kMostBlocks.value())});

  // Memory that each call leaves as the next one needs it.
  const int64_t bytes = int64_t{sizeof(LaunchCount)} + tiles * 2 * int64_t{sizeof(Published)};
  const auto published = run.context.derived().get(
      "cheri_conv_norm_ring", bytes, {{.version = 1, .data = nullptr}}, run.stream, [&](void* data) {
        cuda_check(cudaMemsetAsync(data, 0, static_cast<size_t>(bytes), stream), "cudaMemsetAsync");
      });
  const bool is_dense = t.x.strides[1] == t.x.shape[2] && t.x.shape[2] == tiling.row_elements();
  const Arguments<T> a{.x = Strided<const T>(t.x),
                       .w = Strided<const T>(t.w),
                       .y = Strided<T>(t.y),
                       .count = static_cast<LaunchCount*>(published.data()),
                       .sums = reinterpret_cast<Published*>(static_cast<LaunchCount*>(published.data()) + 1),
                       .tiling = tiling,
                       .tiles = tiles,
                       .rows_of_copy = !is_dense            ? 1
                                       : tiling.groups == 1 ? tiling.stage_rows()
                                                            : tiling.chains};
  launch_cooperative(kName, kernel, blocks, kThreads<T, kPiece>, shared_bytes, stream, a);
}

}  // namespace

std::optional<std::string> conv_norm_ring_unsupported(const Extents& shape, int64_t dilation, DType storage) {
  if (element_count(shape) == 0) return std::nullopt;
  const int64_t tiles = tiling_of(shape, dilation).tiles;
  const int64_t most = kFewestUnits * (4 / static_cast<int64_t>(size_of(storage))) * (kLag + 1);
  if (tiles <= most) return std::nullopt;
  return fmt::format("an example of {} rows and {} channels takes {} tiles; {} are held at a time", shape[1],
                     shape[2], tiles, most);
}

void conv_norm_ring(const ConvNormTensors& t, const Run& run) {
  require_valid(t, run.dilation);
  if (t.y.size() == 0) return;
  if (const auto why = conv_norm_ring_unsupported(t.x.shape, run.dilation, t.x.dtype))
    throw unsupported_error("{}", *why);
  const int capability = run.context.device().info().compute_capability;
  if (capability < 90)
    throw unsupported_error("copies of rows need compute capability 90, this device has {}", capability);
  visit_storage(t.x.dtype, [&]<class T>(std::type_identity<T>) {
    constexpr int kElement = int{sizeof(T)}, kVector = kTileLanes * kElement;
    const Tiling tiling = tiling_of(t.x.shape, run.dilation);
    has_vectors(t.x, 16) && has_vectors(t.y, kVector) ? enqueue<T, kVector>(t, run, tiling)
                                                      : enqueue<T, kElement>(t, run, tiling);
  });
}

}  // namespace assay::cheri
