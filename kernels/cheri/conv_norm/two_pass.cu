// SPDX-License-Identifier: Apache-2.0
// conv_norm in two passes over x. The first pass sums up each part of an example. The second pass
// finishes the sums and normalises; it starts with the parts that the first one has left in the L2
// cache. The convolution is computed twice, which is cheaper than moving it.
#include "kernels/cheri/conv_norm/conv_norm.cuh"
#include "kernels/cheri/tunables.h"
#include "kernels/core/specialise.h"
#include "kernels/core/threshold.h"
#include "kernels/core_cuda/dependent_launch.cuh"
#include "kernels/core_cuda/global_memory.cuh"
#include "kernels/core_cuda/limits.h"

namespace assay::cheri {
namespace {

constexpr int kThreads = 256;  // most threads of a block of the second pass
// Threads of a block of the first pass. Many small blocks: some wait for memory while others
// compute.
constexpr int kSumThreads = 128;
constexpr int kSumRows = 8;               // most rows of a strip
constexpr Threshold kMostParts{1024, 2};  // of an example; each block of pass 2 adds up all

// A part is the work of one block of the first pass: some groups of strips in one tile.
struct Parts {
  int64_t groups;  // of a part
  int64_t slices;  // parts of a tile
  int64_t count;   // of an example
};

Parts parts_of(const Cut& cut) {
  const int64_t most = kMostParts.value(), groups = (cut.units() + most - 1) / most;
  const int64_t slices = (cut.groups + groups - 1) / groups;
  return {groups, slices, cut.tiles * slices};
}

template <class T>
struct Arguments {
  Strided<const T> x, w;
  Strided<T> y;
  double* sums;  // (N, parts, 2)
  Cut cut;       // of the pass
  Parts parts;   // of the first pass
};

// The taps of a vector of channels, loaded at once if they lie together. A block of the first pass
// is so short that this matters.
template <class T, int kLanes>
struct Taps {
  float values[3][kLanes];

  __device__ Taps(const Strided<const T>& w, const Lane& lane) {
    const T* const first = w.data + lane.channel * w.channel;
    const bool is_vector =
        lane.valid == kLanes && w.channel == 1 &&
        (reinterpret_cast<uintptr_t>(first) | static_cast<uintptr_t>(w.row) * sizeof(T)) % 16 == 0;
#pragma unroll
    for (int k = 0; k < 3; ++k) {
      Bits<T, kLanes> bits{};
      if (is_vector) {
        load_pieces<16>(bits, first + k * w.row, kLanes);
      } else {
        load_pieces<int{sizeof(T)}>(bits, first + k * w.row, w.channel, lane.valid);
      }
#pragma unroll
      for (int e = 0; e < kLanes; ++e) values[k][e] = bits[e];
    }
  }
};

// A strip and the row at each end of it, with all loads in flight at once.
template <int kPiece, class T, int kLanes>
struct StripRows {
  Strip strip;
  Bits<T, kLanes> rows[kSumRows + 2]{};  // rows[i] is row i - 1 of the strip

  __device__ StripRows(const Arguments<T>& a, const Lane& lane, int64_t example, int64_t group)
      : strip(strip_of(a.cut, lane, group)) {
    if (strip.count == 0) return;
    auto next = Rows<kPiece, const T, kLanes>(a.x, example, lane, strip, a.cut.dilation).from(-1);
#pragma unroll
    for (int i = 0; i < kSumRows + 2; ++i) {
      if (strip.holds(i - 1) && i <= strip.count + 1) {
        if constexpr (kPiece == 16) {
          load_past_l1(rows[i].words, next.at);
        } else {
          next.load(rows[i]);
        }
      }
      next.next();
    }
  }

  __device__ void add_to(double (&sums)[2], const Taps<T, kLanes>& w, int valid, double reference) const {
    const auto add = [&](int row, bool has_left, bool has_right) {
#pragma unroll
      for (int e = 0; e < kLanes; ++e) {
        if (kPiece < 16 && e >= valid) continue;
        const float conv = convolve(rows[row][e], rows[row + 1][e], rows[row + 2][e], has_left, has_right,
                                    w.values[0][e], w.values[1][e], w.values[2][e]);
        const double deviation = conv - reference;
        sums[kDeviations] += deviation;
        sums[kSquares] = fma(deviation, deviation, sums[kSquares]);
      }
    };
    // A strip of full length has no branches between its rows, so the compiler can mix their
    // instructions.
    if (strip.count == kSumRows) {
#pragma unroll
      for (int row = 0; row < kSumRows; ++row)
        add(row, row > 0 || strip.before > 0, row + 1 < kSumRows || strip.after > 0);
    } else {
#pragma unroll
      for (int row = 0; row < kSumRows - 1; ++row) {
        if (row < strip.count) add(row, strip.holds(row - 1), strip.holds(row + 1));
      }
    }
  }
};

template <class T, int kPiece>
__global__ void __launch_bounds__(kSumThreads, sizeof(T) == 4 ? 6 : 5) sums_kernel(const Arguments<T> a) {
  constexpr int kLanes = 16 / int{sizeof(T)};
  using Work = StripRows<kPiece, T, kLanes>;
  __shared__ double shared[32][2];
  let_next_kernel_start();
  for (int64_t job = blockIdx.x; job < a.cut.examples * a.parts.count; job += gridDim.x) {
    const int64_t example = quotient(job, a.parts.count);
    const int64_t part = job - example * a.parts.count;
    const int64_t tile = quotient(part, a.parts.slices);
    int64_t group = (part - tile * a.parts.slices) * a.parts.groups;
    const int64_t end = min(group + a.parts.groups, a.cut.groups);
    const Lane lane = lane_of_thread(a.cut, tile);
    Work work(a, lane, example, group);
    const Taps<T, kLanes> w(a.w, lane);
    const double reference = reference_of(a.cut, a.x, a.w, example);
    double sums[2]{};
    for (;;) {
      work.add_to(sums, w, lane.valid, reference);
      if (++group >= end) break;
      work = Work(a, lane, example, group);
    }
    sum_over_block(sums, shared);
    if (threadIdx.x == 0) reinterpret_cast<double2*>(a.sums)[job] = {sums[kDeviations], sums[kSquares]};
    __syncthreads();
  }
}

// Each block finishes the sums of an example.
template <class T>
__global__ void __launch_bounds__(kWarp) norms_kernel(const Arguments<T> a, Norm* norms) {
  let_next_kernel_start();
  for (int64_t example = blockIdx.x; example < a.cut.examples; example += gridDim.x) {
    double sums[2];
    const double reference = reference_of(a.cut, a.x, a.w, example);
    wait_for_kernel_before();
    sum_over_memory(a.sums + example * a.parts.count * 2, a.parts.count, sums);
    if (threadIdx.x == 0) {
      norms[example] = Moments(reference, sums[kDeviations], sums[kSquares], Average(a.cut)).norm();
    }
  }
}

template <class T, int kPiece>
__global__ void __launch_bounds__(kThreads, sizeof(T) == 4 ? 4 : 3) normalise_kernel(const Arguments<T> a) {
  constexpr int kLanes = 16 / int{sizeof(T)};
  __shared__ Norm shared;
  const int64_t jobs = a.cut.examples * a.cut.units();
  for (int64_t job = jobs - 1 - blockIdx.x; job >= 0; job -= gridDim.x) {
    const int64_t example = quotient(job, a.cut.units());
    const int64_t unit = job - example * a.cut.units();
    const int64_t tile = quotient(unit, a.cut.groups);
    const Lane lane = lane_of_thread(a.cut, tile);
    const Weights<kLanes> w(a.w, lane);
    const Strip strip = strip_of(a.cut, lane, unit - tile * a.cut.groups);
    const Rows<kPiece, const T, kLanes> x(a.x, example, lane, strip, a.cut.dilation);
    const Rows<kPiece, T, kLanes> y(a.y, example, lane, strip, a.cut.dilation);
    wait_for_kernel_before();
    if (threadIdx.x < kWarp) {
      double sums[2];
      const double reference = reference_of(a.cut, a.x, a.w, example);
      sum_over_memory(a.sums + example * a.parts.count * 2, a.parts.count, sums);
      if (threadIdx.x == 0) {
        shared = Moments(reference, sums[kDeviations], sums[kSquares], Average(a.cut)).norm();
      }
    }
    __syncthreads();
    const Norm norm = shared;
    auto y_next = y.from(0);
    const auto normalise = [&](auto inside, int row, const auto& left, const auto& middle, const auto& right,
                               auto&) {
      float values[kLanes];
      convolve(values, w, left, middle, right, inside || strip.holds(row - 1),
               inside || strip.holds(row + 1));
#pragma unroll
      for (int e = 0; e < kLanes; ++e) values[e] = norm(values[e]);
      y_next.store(round_to<T>(values));
      y_next.next();
    };
    march<4>(strip, x, NoRows{}, normalise);
    __syncthreads();
  }
}

unsigned grid_of(int64_t jobs) {
  return static_cast<unsigned>(std::min(jobs, kMostBlocks.value()));
}

template <class T, int kPiece>
void enqueue(const ConvNormTensors& t, const Run& run, const Config& config, std::span<void* const> data) {
  constexpr int kLanes = 16 / int{sizeof(T)};
  const auto stream = static_cast<cudaStream_t>(run.stream);
  const bool can = run.context.device().info().compute_capability >= 90;
  ConvNormTensors moved = t;
  moved.y.data = data[2];
  Arguments<T> a{.x = Strided<const T>(t.x),
                 .w = Strided<const T>(t.w),
                 .y = Strided<T>(moved.y),
                 .sums = static_cast<double*>(data[3]),
                 .cut = cut(t.x.shape, run.dilation, kLanes, kSumThreads, kSumRows),
                 .parts = {}};
  a.parts = parts_of(a.cut);
  const auto block_of = [](const Cut& cut) { return dim3(static_cast<unsigned>(cut.threads())); };
  sums_kernel<T, kPiece><<<grid_of(a.cut.examples * a.parts.count), block_of(a.cut), 0, stream>>>(a);
  cuda_check_launch("sums_kernel");
  a.cut = cut(t.x.shape, run.dilation, kLanes, static_cast<int>(config["threads"]), config["rows"]);
  auto* const kernel = normalise_kernel<T, kPiece>;
  launch_dependent(can, "normalise_kernel", kernel, grid_of(a.cut.examples * a.cut.units()), block_of(a.cut),
                   0, stream, a);
}

}  // namespace

const Tunable& conv_norm_two_pass_tunable() {
  static const Tunable tunable{.name = "cheri_conv_norm_two_pass",
                               .version = 2,
                               .configs = {{{"threads", 256}, {"rows", 12}},
                                           {{"threads", 256}, {"rows", 16}},
                                           {{"threads", 128}, {"rows", 12}},
                                           {{"threads", 128}, {"rows", 24}}}};
  return tunable;
}

void conv_norm_two_pass(const ConvNormTensors& t, const Run& run) {
  require_valid(t, run.dilation);
  if (t.y.size() == 0) return;
  visit_storage(t.x.dtype, [&]<class T>(std::type_identity<T>) {
    constexpr int kElement = int{sizeof(T)};
    const Cut first = cut(t.x.shape, run.dilation, 16 / kElement, kSumThreads, kSumRows);
    const int64_t bytes = t.x.shape[0] * parts_of(first).count * 2 * int64_t{sizeof(double)};
    const Workspace::Lease sums = run.context.workspace().lease(bytes, run.stream);
    const bool vectors = has_vectors(t.x, 16) && has_vectors(t.y, 16);
    run.context.tuner().run({.tunable = &conv_norm_two_pass_tunable(),
                             .key = key_of(t.x.shape, run.dilation, {t.x, t.w}, {t.y}),
                             .unfit = {},
                             .buffers = {buffer_of("x", Role::kRead, t.x),
                                         buffer_of("w", Role::kRead, t.w),
                                         buffer_of("y", Role::kWrite, t.y),
                                         {"sums", Role::kScratch, sums.data(), bytes}},
                             .run =
                                 [&](const Config& config, std::span<void* const> data) {
                                   vectors ? enqueue<T, 16>(t, run, config, data)
                                           : enqueue<T, kElement>(t, run, config, data);
                                 },
                             .stream = run.stream});
  });
}

void enqueue_norms(const ConstTensorView& x, const ConstTensorView& w, const Run& run, void* norms) {
  if (x.size() == 0) return;
  visit_storage(x.dtype, [&]<class T>(std::type_identity<T>) {
    constexpr int kElement = int{sizeof(T)};
    const auto stream = static_cast<cudaStream_t>(run.stream);
    const Cut first = cut(x.shape, run.dilation, 16 / kElement, kSumThreads, kSumRows);
    const Parts parts = parts_of(first);
    const Workspace::Lease sums =
        run.context.workspace().lease(x.shape[0] * parts.count * 2 * int64_t{sizeof(double)}, run.stream);
    const TensorView nothing{nullptr, x.dtype, x.shape, x.strides};
    const Arguments<T> a{.x = Strided<const T>(x),
                         .w = Strided<const T>(w),
                         .y = Strided<T>(nothing),
                         .sums = sums.as<double>(),
                         .cut = first,
                         .parts = parts};
    auto* const kernel = has_vectors(x, 16) ? sums_kernel<T, 16> : sums_kernel<T, kElement>;
    kernel<<<grid_of(first.examples * parts.count), static_cast<unsigned>(first.threads()), 0, stream>>>(a);
    cuda_check_launch("sums_kernel");
    launch_dependent(run.context.device().info().compute_capability >= 90, "norms_kernel", norms_kernel<T>,
                     grid_of(first.examples), kWarp, 0, stream, a, static_cast<Norm*>(norms));
  });
}

}  // namespace assay::cheri
