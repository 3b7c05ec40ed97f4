// SPDX-License-Identifier: Apache-2.0
// conv_norm in two passes over x: the first one sums up each part of an example, the second one, which starts with the
// parts that the first one has left in the L2 cache, finishes the sums and normalises. The convolution is computed
// twice, which is cheaper than moving it.
#include "kernels/cheri/conv_norm.cuh"
#include "kernels/cheri/conv_norm_tunables.h"
#include "kernels/cheri/statistics.h"
#include "kernels/core/specialise.h"
#include "kernels/core_cuda/dependent_launch.cuh"

namespace assay::cheri {
namespace {

constexpr int kThreads = 256;          // of a block at most
constexpr int64_t kLongestStrip = 12;  // [rows]
constexpr int64_t kMostParts = 1024;   // of an example: each block of the second pass adds all of them up
constexpr int64_t kMostBlocks = INT32_MAX;

// A part is the work of one block of the first pass: some groups of strips in one tile.
struct Parts {
  int64_t groups;  // of a part
  int64_t slices;  // parts of a tile
  int64_t count;   // of an example
};

Parts parts_of(const Cut& cut) {
  const int64_t groups = (cut.units() + kMostParts - 1) / kMostParts;
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

template <class T, int kPiece>
__global__ void __launch_bounds__(kThreads, sizeof(T) == 4 ? 4 : 3) sums_kernel(const Arguments<T> a) {
  constexpr int kLanes = 16 / int{sizeof(T)};
  __shared__ double shared[32][2];
  let_next_kernel_start();
  for (int64_t job = blockIdx.x; job < a.cut.examples * a.parts.count; job += gridDim.x) {
    const int64_t example = quotient(job, a.parts.count);
    const int64_t part = job - example * a.parts.count;
    const int64_t tile = quotient(part, a.parts.slices);
    const int64_t begin = (part - tile * a.parts.slices) * a.parts.groups;
    const int64_t end = min(begin + a.parts.groups, a.cut.groups);
    const double reference = reference_of(a.cut, a.x, a.w, example);
    const Lane lane = lane_of_thread(a.cut, tile);
    const Weights<kLanes> w(a.w, lane);
    double sums[2]{};
    for (int64_t group = begin; group < end; ++group) {
      const Strip strip = strip_of(a.cut, lane, group);
      const Rows<kPiece, const T, kLanes> x(a.x, example, lane, strip, a.cut.dilation);
      const auto add = [&](auto inside, int row, const auto& left, const auto& middle, const auto& right,
                           auto&) {
        float conv[kLanes];
        convolve(conv, w, left, middle, right, inside || strip.holds(row - 1),
                 inside || strip.holds(row + 1));
#pragma unroll
        for (int e = 0; e < kLanes; ++e) {
          if (kPiece < 16 && e >= lane.valid) continue;
          const double deviation = conv[e] - reference;
          sums[kDeviations] += deviation;
          sums[kSquares] = fma(deviation, deviation, sums[kSquares]);
        }
      };
      march<4, T, kLanes>(strip, x, NoRows{}, add);
    }
    sum_over_block(sums, shared);
    if (threadIdx.x == 0) reinterpret_cast<double2*>(a.sums)[job] = {sums[kDeviations], sums[kSquares]};
    __syncthreads();
  }
}

// Finishes the sums of an example in each block.
template <class T>
__global__ void __launch_bounds__(kWarp) norms_kernel(const Arguments<T> a, Norm* norms) {
  wait_for_kernel_before();
  for (int64_t example = blockIdx.x; example < a.cut.examples; example += gridDim.x) {
    double sums[2];
    const double reference = reference_of(a.cut, a.x, a.w, example);
    sum_over_memory(a.sums + example * a.parts.count * 2, a.parts.count, sums);
    if (threadIdx.x == 0) {
      const double count = static_cast<double>(a.cut.rows) * static_cast<double>(a.cut.channels);
      norms[example] = Moments(reference, sums[kDeviations], sums[kSquares], count).norm();
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
        const double count = static_cast<double>(a.cut.rows) * static_cast<double>(a.cut.channels);
        shared = Moments(reference, sums[kDeviations], sums[kSquares], count).norm();
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
    march<4, T, kLanes>(strip, x, NoRows{}, normalise);
    __syncthreads();
  }
}

unsigned grid_of(int64_t jobs) {
  return static_cast<unsigned>(std::min(jobs, kMostBlocks));
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
                 .cut = cut(t.x.shape, run.dilation, kLanes, kThreads, kLongestStrip),
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
                               .version = 1,
                               .configs = {{{"threads", 256}, {"rows", 12}},
                                           {{"threads", 256}, {"rows", 16}},
                                           {{"threads", 256}, {"rows", 8}},
                                           {{"threads", 128}, {"rows", 32}}}};
  return tunable;
}

void conv_norm_two_pass(const ConvNormTensors& t, const Run& run) {
  require_valid(t, run.dilation);
  if (t.y.size() == 0) return;
  visit_storage(t.x.dtype, [&]<class T>(std::type_identity<T>) {
    constexpr int kElement = int{sizeof(T)};
    const Cut first = cut(t.x.shape, run.dilation, 16 / kElement, kThreads, kLongestStrip);
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
    static_assert(sizeof(Norm) == kNormBytes);
    const auto stream = static_cast<cudaStream_t>(run.stream);
    const Cut first = cut(x.shape, run.dilation, 16 / kElement, kThreads, kLongestStrip);
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
