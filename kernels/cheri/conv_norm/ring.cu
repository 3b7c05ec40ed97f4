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
// Blocks wait for each other, so all of them run at the same time. None waits for ever: if the
// first of all tiles that wait could not go on, a tile of the same example would not be published.
// The block of that tile would wait with a later tile, and would have published kLag more. So the
// two tiles of the example would be more than kLag tiles of each block apart.
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
  Published* sums;  // (N, tiles, 2)
  Tiling tiling;
  int tiles;                              // of an example
  int64_t examples_a_turn, tiles_a_turn;  // all blocks together move on by as many
  int rows_of_copy;
};

struct Shared {
  double sums[kStages][kConvolvers][2];
  double references[kStages];
  Norm norms[kStages];
  uint64_t empty[kStages], full[kStages], summed[kStages], normed[kStages];
};

__device__ uint32_t address_of(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

// Moves over the tiles of a block. `parity` is that of the barriers of its stage.
struct Walk {
  int64_t example;
  int64_t tile;
  int stage = 0;
  uint32_t parity = 0;

  template <class T>
  __device__ explicit Walk(const Arguments<T>& a)
      : example(quotient(blockIdx.x, a.tiles)), tile(blockIdx.x - example * a.tiles) {}

  template <class T>
  __device__ bool is_inside(const Arguments<T>& a) const {
    return example < a.tiling.examples;
  }

  template <class T>
  __device__ void next(const Arguments<T>& a) {
    tile += a.tiles_a_turn;
    example += a.examples_a_turn;
    if (tile >= a.tiles) {
      tile -= a.tiles;
      ++example;
    }
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

// The rows of a strip in a stage, for march().
template <class T>
struct StageRows {
  using Vector = Piece<kTileLanes* int{sizeof(T)}>;
  const Vector* row0;
  int step;  // [vectors] to the next row of a chain

  struct Cursor {
    const Vector* at;
    int step;

    __device__ void load(Bits<T, kTileLanes>& bits) const { *reinterpret_cast<Vector*>(bits.words) = *at; }
    __device__ void next() { at += step; }
  };
  __device__ Cursor from(int row) const { return {row0 + row * step, step}; }
};

template <class T, int kPiece>
__device__ void load_tiles(const Arguments<T>& a, Shared& shared, T* stages, int warp) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int row_elements = a.tiling.row_elements(), stage_rows = a.tiling.stage_rows();
  for (Walk at(a); at.is_inside(a); at.next(a)) {
    const uint32_t full = address_of(&shared.full[at.stage]);
    wait_for_phase(address_of(&shared.empty[at.stage]), at.parity ^ 1);
    const Tile tile(a.tiling, at.tile);
    const int valid = static_cast<int>(min(int64_t{row_elements}, a.tiling.channels - tile.channel));
    const T* const x = a.x.data + at.example * a.x.example + tile.channel * a.x.channel;
    T* const stage = stages + int64_t{at.stage} * stage_rows * row_elements;
    if constexpr (kCopiesRows<T, kPiece>) {
      uint32_t bytes = 0;
      for (int copy = lane; copy * a.rows_of_copy < stage_rows; copy += kWarp) {
        const TileCopy rows(a.tiling, tile, a.rows_of_copy, copy);
        if (rows.count <= 0) continue;
        const auto length = static_cast<uint32_t>(rows.count) * static_cast<uint32_t>(valid * int{sizeof(T)});
        copy_bulk<CacheUse::kOnce>(address_of(stage + rows.to * row_elements), x + rows.from * a.x.row,
                                   length, full);
        bytes += length;
      }
      if (lane == kWarp - 1) shared.references[at.stage] = reference_of(a.tiling, a.x, a.w, at.example);
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
      if (warp == 0 && lane == kWarp - 1)
        shared.references[at.stage] = reference_of(a.tiling, a.x, a.w, at.example);
      wait_for_copies();
      arrive(full);
    }
  }
}

template <class T>
__device__ void publish_sums(const Arguments<T>& a, Shared& shared) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (Walk at(a); at.is_inside(a); at.next(a)) {
    wait_for_phase(address_of(&shared.summed[at.stage]), at.parity);
    if (lane < 2) {
      double sum = 0;
#pragma unroll
      for (int warp = 0; warp < kConvolvers; ++warp) sum += shared.sums[at.stage][warp][lane];
      publish(a.sums + (at.example * a.tiles + at.tile) * 2 + lane, sum);
    }
    __syncwarp();
    if (lane == 0) arrive(address_of(&shared.empty[at.stage]));
  }
}

template <class T>
__device__ void finish_sums(const Arguments<T>& a, Shared& shared, int warp) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const double count = static_cast<double>(a.tiling.rows) * static_cast<double>(a.tiling.channels);
  int turn = 0;
  for (Walk at(a); at.is_inside(a); at.next(a)) {
    if (turn++ % kFinishers != warp) continue;
    wait_for_phase(address_of(&shared.full[at.stage]), at.parity);
    double sums[2]{};
    for (int tile = lane; tile < a.tiles; tile += kWarp) {
      double part[2];
      wait_for_published(a.sums + (at.example * a.tiles + tile) * 2, part);
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
  const int row0 = (piece * a.tiling.length + a.tiling.halo) * a.tiling.chains + chain;  // of the stage
  const int row_elements = a.tiling.row_elements();
  int64_t channel = 0;
  const auto lane_at = [&](int64_t first) {
    channel = first + column * kTileLanes;
    return Lane{line, channel,
                static_cast<int>(max(int64_t{0}, min(a.tiling.channels - channel, int64_t{kTileLanes})))};
  };
  Lane lane = lane_at(0);
  Weights<kTileLanes> w(a.w, lane);
  // Calls visit(strip, conv, row) for each row of the thread's strip.
  const auto for_each_row = [&](const Walk& at, auto&& begin, auto&& visit) {
    const Tile tile(a.tiling, at.tile);
    if (tile.channel + column * kTileLanes != channel) {
      lane = lane_at(tile.channel);
      w = Weights<kTileLanes>(a.w, lane);
    }
    Strip strip = tile.strip(a.tiling, chain, piece);
    if (lane.valid == 0) strip.count = 0;
    begin(strip);
    const T* const first = stages + (int64_t{at.stage} * a.tiling.stage_rows() + row0) * row_elements;
    const StageRows<T> rows{reinterpret_cast<const typename StageRows<T>::Vector*>(first) + column,
                            a.tiling.chains * a.tiling.columns};
    march<3, T, kTileLanes>(
        strip, rows, NoRows{},
        [&](auto inside, int row, const auto& left, const auto& middle, const auto& right, auto&) {
          float conv[kTileLanes];
          convolve(conv, w, left, middle, right, inside || strip.holds(row - 1),
                   inside || strip.holds(row + 1));
          visit(conv);
        });
  };
  Walk adds(a), ends(a);
  for (int turn = 0; ends.is_inside(a); ++turn) {
    if (adds.is_inside(a)) {
      double sums[2]{};
      wait_for_phase(address_of(&shared.full[adds.stage]), adds.parity);
      const double reference = shared.references[adds.stage];
      for_each_row(
          adds, [](const Strip&) {},
          [&](const float(&conv)[kTileLanes]) {
#pragma unroll
            for (int e = 0; e < kTileLanes; ++e) {
              if (!kCopiesRows<T, kPiece> && e >= lane.valid) continue;
              const double deviation = conv[e] - reference;
              sums[kDeviations] += deviation;
              sums[kSquares] = fma(deviation, deviation, sums[kSquares]);
            }
          });
      sum_over_warp(sums);
      if (thread % kWarp == 0) {
        shared.sums[adds.stage][thread / kWarp][kDeviations] = sums[kDeviations];
        shared.sums[adds.stage][thread / kWarp][kSquares] = sums[kSquares];
        arrive(address_of(&shared.summed[adds.stage]));
      }
      adds.next(a);
    }
    if (turn < kLag) continue;
    wait_for_phase(address_of(&shared.normed[ends.stage]), ends.parity);
    const Norm norm = shared.norms[ends.stage];
    typename Rows<kPiece, T, kTileLanes>::Cursor y;
    for_each_row(
        ends,
        [&](const Strip& strip) {
          y = Rows<kPiece, T, kTileLanes>(a.y, ends.example, lane, strip, a.tiling.dilation).from(0);
        },
        [&](float(&values)[kTileLanes]) {
#pragma unroll
          for (int e = 0; e < kTileLanes; ++e) values[e] = norm(values[e]);
          y.store(round_to<T>(values));
          y.next();
        });
    __syncwarp();
    if (thread % kWarp == 0) arrive(address_of(&shared.empty[ends.stage]));
    ends.next(a);
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
  const int64_t shared_bytes = kStages * stage_bytes<T>(tiling), tiles = tiling.tiles();
  const int64_t resident = resident_blocks(kName, kernel, kThreads<T, kPiece>, shared_bytes);
  const int64_t fewest = (tiles + kLag) / (kLag + 1);
  if (resident < fewest) {
    throw unsupported_error("an example of {} tiles needs {} blocks that run at a time; this device has {}",
                            tiles, fewest, resident);
  }
  const int64_t blocks = std::min({resident, tiling.examples * tiles, std::max(fewest, kMostBlocks.value())});

  const int64_t bytes = tiling.examples * tiles * 2 * int64_t{sizeof(Published)};
  const Workspace::Lease sums = run.context.workspace().lease(bytes, run.stream);
  cuda_check(cudaMemsetAsync(sums.data(), 0, static_cast<size_t>(bytes), stream), "cudaMemsetAsync");
  const bool is_dense = t.x.strides[1] == t.x.shape[2] && t.x.shape[2] == tiling.row_elements();
  const Arguments<T> a{.x = Strided<const T>(t.x),
                       .w = Strided<const T>(t.w),
                       .y = Strided<T>(t.y),
                       .sums = sums.as<Published>(),
                       .tiling = tiling,
                       .tiles = static_cast<int>(tiles),
                       .examples_a_turn = blocks / tiles,
                       .tiles_a_turn = blocks % tiles,
                       .rows_of_copy = !is_dense            ? 1
                                       : tiling.groups == 1 ? tiling.stage_rows()
                                                            : tiling.chains};
  launch_cooperative(kName, kernel, blocks, kThreads<T, kPiece>, shared_bytes, stream, a);
}

}  // namespace

std::optional<std::string> conv_norm_ring_unsupported(const Extents& shape, int64_t dilation, DType storage) {
  if (element_count(shape) == 0) return std::nullopt;
  const int64_t tiles = tiling_of(shape, dilation).tiles();
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
