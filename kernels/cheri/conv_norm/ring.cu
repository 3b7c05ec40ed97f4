// SPDX-License-Identifier: Apache-2.0
// conv_norm in one pass: blocks hold tiles of x in a ring (ring_roles.cuh) until the statistics of
// their examples are there.
#include "kernels/cheri/conv_norm/ring_roles.cuh"
#include "kernels/core/specialise.h"

namespace assay::cheri {
namespace {

constexpr int kStages = 5, kLag = 3;
constexpr int kTileStrip = 9;   // most rows of a strip
constexpr int kConvolvers = 8;  // [warps]
constexpr int kSums = kSquares + 1;
constexpr TileLimits kLimits{.threads = kConvolvers * kWarp,
                             .strip = kTileStrip,
                             .tensors = 1,
                             .elements = int64_t{kTileStrip + 2} * kConvolvers * kWarp * kTileLanes};

template <class T>
constexpr int kBlocksOfUnit = 4 / int{sizeof(T)};
template <class T, int kPiece>
using Warps = RingWarps<kConvolvers, T, kPiece>;
template <bool kIsHeld>
using NormRing = Ring<kStages, kConvolvers, kSums, Norm, kIsHeld>;

template <class T>
struct Arguments {
  StagedTensor<T> x;
  Strided<const T> w;
  Strided<T> y;
  RingJob job;
};

// Calls visit(conv) for each row of the strip, `strip.count` of them. kInside promises that there
// are kTileStrip of them, with neighbours on both sides.
template <bool kInside, class T, class Visit>
__device__ void convolve_each(const StageRows<T>& rows, const Strip& strip, const Weights<kTileLanes>& w,
                              Visit&& visit) {
  typename StageRows<T>::Cursor::Values left{}, middle, right{};
  if (kInside || strip.before > 0) rows.from(-1).load(left);
  rows.from(0).load(middle);
#pragma unroll
  for (int row = 0; row < kTileStrip; ++row) {
    if (!kInside && row >= strip.count) break;
    const bool has_left = kInside || strip.holds(row - 1), has_right = kInside || strip.holds(row + 1);
    if (has_right) rows.from(row + 1).load(right);
    float conv[kTileLanes];
    convolve(conv, w, left, middle, right, has_left, has_right);
    left = middle;
    middle = right;
    visit(conv);
  }
}

template <class T, int kPiece, bool kIsHeld>
__device__ void convolve_tiles(const Arguments<T>& a, NormRing<kIsHeld>& ring, const T* stages) {
  const Tiling& tiling = a.job.tiling;
  const int thread = static_cast<int>(threadIdx.x) - Warps<T, kPiece>::kConvolver * kWarp;
  const Convolver own(tiling, thread);
  const Weights<kTileLanes> w(a.w, own.lane);
  const auto for_each_row = [&](int stage, const Strip& strip, auto&& visit) {
    if (strip.count == 0) return;
    const StageRows<T> rows(tiling, own, stages + stage * a.x.elements(tiling), a.x.reach);
    if (strip.count == kTileStrip && strip.before > 0 && strip.after > 0) {
      convolve_each<true>(rows, strip, w, visit);
    } else {
      convolve_each<false>(rows, strip, w, visit);
    }
  };
  typename NormRing<kIsHeld>::Turn adds, ends;
  for (int turn = 0; ends.number < a.job.turns; ++turn) {
    if (adds.number < a.job.turns) {
      double sums[kSums]{};
      wait_for_phase(shared_address(&ring.full[adds.stage]), adds.parity);
      const double reference = ring.references[adds.stage];
      for_each_row(adds.stage, own.strip(tiling, ring.added(tiling, adds.stage)),
                   [&](const float(&conv)[kTileLanes]) {
#pragma unroll
                     for (int e = 0; e < kTileLanes; ++e) {
                       if (!Warps<T, kPiece>::kCopiesRows && e >= own.lane.valid) continue;
                       const double deviation = conv[e] - reference;
                       sums[kDeviations] += deviation;
                       sums[kSquares] = fma(deviation, deviation, sums[kSquares]);
                     }
                   });
      __syncwarp();
      sum_over_warp(sums);
      ring.hand_over(adds.stage, thread / kWarp, sums);
      adds.next();
    }
    if (turn < kLag) continue;
    wait_for_phase(shared_address(&ring.normed[ends.stage]), ends.parity);
    const Norm norm = ring.statistics[ends.stage];
    const Tile tile = ring.ended(tiling, ends.stage);
    const Strip strip = own.strip(tiling, tile);
    auto y = Rows<kPiece, T, kTileLanes>(a.y, tile.example, own.lane, strip, tiling.dilation).from(0);
    for_each_row(ends.stage, strip, [&](float(&values)[kTileLanes]) {
#pragma unroll
      for (int e = 0; e < kTileLanes; ++e) values[e] = norm(values[e]);
      y.store(round_to<T>(values));
      y.next();
    });
    arrive_after_loads(shared_address(&ring.empty[ends.stage]));
    ends.next();
  }
}

template <class T, int kPiece, bool kIsHeld>
__global__ void __launch_bounds__(Warps<T, kPiece>::kThreads, kBlocksOfUnit<T>)
    ring_kernel(const Arguments<T> a) {
  extern __shared__ uint4 dynamic[];
  __shared__ NormRing<kIsHeld> ring;
  if (threadIdx.x == 0) ring.make_barriers(Warps<T, kPiece>::kBringers);
  __syncthreads();
  T* const stages = reinterpret_cast<T*>(dynamic);
  const int role = static_cast<int>(threadIdx.x) / kWarp;
  if (role >= Warps<T, kPiece>::kConvolver) {
    convolve_tiles<T, kPiece>(a, ring, stages);
  } else if (role == 0) {
    ring.publish_sums(a.job);
  } else if (role == 1) {
    const Average average(a.job.tiling);
    ring.finish_sums(a.job, [&](double reference, const double(&sums)[kSums]) {
      return Moments(reference, sums[kDeviations], sums[kSquares], average).norm();
    });
  } else {
    const int warp = role - Warps<T, kPiece>::kLoader;
    ring.template load<Warps<T, kPiece>>(
        a.job, warp, a.x.from, a.w, [&](const Tile& tile, int stage, uint32_t barrier) {
          return copy_rows<Warps<T, kPiece>>(a.job.tiling, tile, a.x,
                                             stages + stage * a.x.elements(a.job.tiling), warp, barrier);
        });
  }
}

template <class T, int kPiece>
void enqueue(const ConvNormTensors& t, const Run& run, const Tiling& tiling) {
  constexpr std::string_view kName = "ring_kernel";
  constexpr int kThreads = Warps<T, kPiece>::kThreads;
  const StagedTensor<T> x(t.x, tiling, kLimits.tensors);
  const int64_t shared_bytes = kStages * int64_t{x.elements(tiling)} * int64_t{sizeof(T)};
  // As many for each layout: the blocks decide the order of sums of an example that they do not
  // hold.
  const int64_t fixed = int64_t{kBlocksOfUnit<T>} * run.context.device().info().units;
  const bool holds = is_held(tiling, blocks_of_ring(tiling, fixed), kLag);
  auto* const kernel = holds ? ring_kernel<T, kPiece, true> : ring_kernel<T, kPiece, false>;
  const int64_t resident = holds ? resident_blocks(kName, kernel, kThreads, shared_bytes) : 0;
  const int64_t blocks = blocks_of_ring(tiling, std::max(fixed, resident));
  const RingMemory memory("cheri_conv_norm_ring", tiling, blocks, holds, kSums, run);
  const Arguments<T> a{.x = x, .w = Strided<const T>(t.w), .y = Strided<T>(t.y), .job = memory.job()};
  launch_cooperative(kName, kernel, blocks, kThreads, shared_bytes, static_cast<cudaStream_t>(run.stream), a);
}

}  // namespace

std::optional<std::string> ring_unsupported(const Extents& shape) {
  // All tiles of a block have the same channels, and the smallest GPU with compute capability 9.0
  // (H20) has 78 multiprocessors.
  constexpr int64_t kMostChannels = int64_t{78} * kMostColumns * kTileLanes;
  // Rows are counted in 32 bits, also beyond the end: up to 3 times the steps of a chain and 4
  // more, so up to 14 times the rows.
  constexpr int64_t kMostRows = int64_t{1} << 27;
  if (element_count(shape) == 0 || (shape[1] <= kMostRows && shape[2] <= kMostChannels)) return std::nullopt;
  return fmt::format("an example of {} rows and {} channels; {} and {} are served", shape[1], shape[2],
                     kMostRows, kMostChannels);
}

void conv_norm_ring(const ConvNormTensors& t, const Run& run) {
  require_valid(t, run.dilation);
  if (t.y.size() == 0) return;
  require_ring(t.x.shape, run.context.device());
  visit_storage(t.x.dtype, [&]<class T>(std::type_identity<T>) {
    constexpr int kElement = int{sizeof(T)}, kVector = kTileLanes * kElement;
    const Tiling tiling = tiling_of(t.x.shape, run.dilation, kLimits);
    has_vectors(t.x, 16) && has_vectors(t.y, kVector) ? enqueue<T, kVector>(t, run, tiling)
                                                      : enqueue<T, kElement>(t, run, tiling);
  });
}

}  // namespace assay::cheri
