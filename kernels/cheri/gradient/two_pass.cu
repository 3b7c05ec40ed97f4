// SPDX-License-Identifier: Apache-2.0
// The gradient of conv_norm in two passes over x and dy. The first pass sums up each part of an
// example. The second pass finishes the sums, stores dx and sums up shares of dw; it starts with
// the parts that the first one has left in the L2 cache. A third kernel adds up the shares. The
// convolution is computed twice, which is cheaper than moving it.
#include "kernels/cheri/gradient/gradient.cuh"
#include "kernels/cheri/tunables.h"
#include "kernels/core/specialise.h"
#include "kernels/core/threshold.h"
#include "kernels/core_cuda/limits.h"

namespace assay::cheri {
namespace {

constexpr int kThreads = 256;             // most threads of a block
constexpr int64_t kLongestStrip = 14;     // [rows]
constexpr Threshold kMostParts{1024, 2};  // of an example; each block of pass 2 adds up all
constexpr Threshold kManyJobs{2048, 4};   // blocks of the second pass; each makes a share of dw

// A part is the work of one block: some groups of strips in one tile.
struct Parts {
  int64_t groups;  // of a part
  int64_t slices;  // parts of a tile
  int64_t count;   // of an example
};

Parts parts_of(const Cut& cut, int64_t groups) {
  const int64_t slices = (cut.groups + groups - 1) / groups;
  return {groups, slices, cut.tiles * slices};
}

template <class T>
struct Arguments {
  Strided<const T> dy, x, w;
  Strided<T> dx;
  double* sums;    // (N, sum_parts, kGradSums)
  double* shares;  // (N, slices of grad_parts, 3, C)
  Cut cut;
  Parts sum_parts, grad_parts;
};

// The job's place.
struct Job {
  int64_t example, tile, slice, begin, end;

  __device__ Job(int64_t job, const Parts& parts, const Cut& cut) {
    example = quotient(job, parts.count);
    const int64_t part = job - example * parts.count;
    tile = quotient(part, parts.slices);
    slice = part - tile * parts.slices;
    begin = slice * parts.groups;
    end = min(begin + parts.groups, cut.groups);
  }
};

template <class T, int kPiece>
__global__ void __launch_bounds__(kThreads, 3) grad_sums_kernel(const Arguments<T> a) {
  __shared__ double shared[32][kGradSums];
  let_next_kernel_start();
  for (int64_t index = blockIdx.x; index < a.cut.examples * a.sum_parts.count; index += gridDim.x) {
    const Job job(index, a.sum_parts, a.cut);
    const double reference = reference_of(a.cut, a.x, a.w, job.example);
    const Lane lane = lane_of_thread(a.cut, job.tile);
    const Weights<kGradLanes> w(a.w, lane);
    double sums[kGradSums]{};
    for (int64_t group = job.begin; group < job.end; ++group) {
      const Strip strip = strip_of(a.cut, lane, group);
      const Rows<kPiece, const T, kGradLanes> x(a.x, job.example, lane, strip, a.cut.dilation);
      const Rows<kPiece, const T, kGradLanes> dy(a.dy, job.example, lane, strip, a.cut.dilation);
      add_to_sums<4, (kPiece < kGradLanes * int{sizeof(T)})>(sums, strip, lane, w, reference, x, dy);
    }
    sum_over_block(sums, shared);
    if (threadIdx.x == 0) {
      for (int i = 0; i < kGradSums; ++i) a.sums[index * kGradSums + i] = sums[i];
    }
    __syncthreads();
  }
}

template <class T, int kPiece, int kAhead, int kMinBlocks>
__global__ void __launch_bounds__(kThreads, kMinBlocks) grad_kernel(const Arguments<T> a) {
  __shared__ NormGrad shared;
  __shared__ TileSums<kThreads> tile_sums;
  const int64_t jobs = a.cut.examples * a.grad_parts.count;
  for (int64_t index = jobs - 1 - blockIdx.x; index >= 0; index -= gridDim.x) {
    const Job job(index, a.grad_parts, a.cut);
    const Lane lane = lane_of_thread(a.cut, job.tile);
    const Weights<kGradLanes> w(a.w, lane);
    tile_sums.clear();
    wait_for_kernel_before();
    if (threadIdx.x < kWarp) {
      double sums[kGradSums];
      const double reference = reference_of(a.cut, a.x, a.w, job.example);
      sum_over_memory(a.sums + job.example * a.sum_parts.count * kGradSums, a.sum_parts.count, sums);
      if (threadIdx.x == 0) {
        shared = norm_grad(reference, sums, Average(a.cut));
      }
    }
    __syncthreads();
    const NormGrad grad = shared;
    for (int64_t group = job.begin; group < job.end; ++group) {
      const Strip strip = strip_of(a.cut, lane, group);
      const Rows<kPiece, const T, kGradLanes> x(a.x, job.example, lane, strip, a.cut.dilation);
      const Rows<kPiece, const T, kGradLanes> dy(a.dy, job.example, lane, strip, a.cut.dilation);
      const Rows<kPiece, T, kGradLanes> dx(a.dx, job.example, lane, strip, a.cut.dilation);
      float dw[3][kGradLanes]{};
      march_back<kAhead, T>(dw, strip, w, grad, x, dy, dx);
      tile_sums.add(a.cut, dw);
    }
    let_next_kernel_start();
    const int64_t row = job.example * a.grad_parts.slices + job.slice;
    tile_sums.store(a.cut, job.tile, a.shares + row * 3 * a.cut.channels);
    __syncthreads();
  }
}

// How a call is divided, and where its parts lie in the workspace.
struct Plan {
  Cut cut;
  Parts sums, grad;
  int64_t share_rows;

  Plan(const Extents& shape, int64_t dilation) : cut(), sums(), grad(), share_rows(0) {
    cut = cheri::cut(shape, dilation, kGradLanes, kThreads, kLongestStrip);
    sums = parts_of(cut, (cut.units() + kMostParts.value() - 1) / kMostParts.value());
    grad = parts_of(cut, std::clamp<int64_t>(cut.examples * cut.units() / kManyJobs.value(), 1, cut.groups));
    share_rows = cut.examples * grad.slices;
  }
  int64_t sums_count() const { return cut.examples * sums.count * kGradSums; }
  int64_t shares_count() const { return (share_rows + rows_between(share_rows)) * 3 * cut.channels; }
  int64_t bytes() const { return (sums_count() + shares_count()) * int64_t{sizeof(double)}; }
};

template <class T, int kPiece>
void enqueue(const ConvNormGradTensors& t, const Run& run, const Config& config,
             std::span<void* const> data) {
  const auto stream = static_cast<cudaStream_t>(run.stream);
  const bool can = run.context.device().info().compute_capability >= 90;
  ConvNormGradTensors moved = t;
  moved.dx.data = data[3];
  moved.dw.data = data[4];
  auto* const workspace = static_cast<double*>(data[5]);
  const Plan plan(t.x.shape, run.dilation);
  const Arguments<T> a{.dy = Strided<const T>(t.dy),
                       .x = Strided<const T>(t.x),
                       .w = Strided<const T>(t.w),
                       .dx = Strided<T>(moved.dx),
                       .sums = workspace,
                       .shares = workspace + plan.sums_count(),
                       .cut = plan.cut,
                       .sum_parts = plan.sums,
                       .grad_parts = plan.grad};
  const dim3 block(static_cast<unsigned>(plan.cut.threads()));
  const auto grid_of = [&](const Parts& parts) {
    return dim3(static_cast<unsigned>(std::min(plan.cut.examples * parts.count, kMostBlocks.value())));
  };
  grad_sums_kernel<T, kPiece><<<grid_of(plan.sums), block, 0, stream>>>(a);
  cuda_check_launch("grad_sums_kernel");
  auto* const kernel = config["ahead"] == 2    ? grad_kernel<T, kPiece, 2, 3>
                       : config["blocks"] == 2 ? grad_kernel<T, kPiece, 4, 2>
                                               : grad_kernel<T, kPiece, 4, 3>;
  launch_dependent(can, "grad_kernel", kernel, grid_of(plan.grad), block, 0, stream, a);
  enqueue_column_sums<T>(can, a.shares, plan.share_rows, moved.dw, stream);
}

}  // namespace

const Tunable& conv_norm_grad_two_pass_tunable() {
  static const Tunable tunable{
      .name = "cheri_conv_norm_grad_two_pass",
      .version = 1,
      .configs = {
          {{"ahead", 4}, {"blocks", 2}}, {{"ahead", 4}, {"blocks", 3}}, {{"ahead", 2}, {"blocks", 3}}}};
  return tunable;
}

void conv_norm_grad_two_pass(const ConvNormGradTensors& t, const Run& run) {
  require_valid(t, run.dilation);
  if (t.dw.size() == 0) return;
  visit_storage(t.x.dtype, [&]<class T>(std::type_identity<T>) {
    if (t.dx.size() == 0)
      return enqueue_column_sums<T>(false, nullptr, 0, t.dw, static_cast<cudaStream_t>(run.stream));
    constexpr int kElement = int{sizeof(T)};
    const int64_t bytes = Plan(t.x.shape, run.dilation).bytes();
    const Workspace::Lease workspace = run.context.workspace().lease(bytes, run.stream);
    const auto vectors = [](const ConstTensorView& view) { return has_vectors(view, kGradLanes * kElement); };
    const bool all_vectors = vectors(t.dy) && vectors(t.x) && vectors(t.dx);
    run.context.tuner().run(
        {.tunable = &conv_norm_grad_two_pass_tunable(),
         .key = key_of(t.x.shape, run.dilation, {t.dy, t.x, t.w}, {t.dx, t.dw}),
         .unfit = {},
         .buffers = conv_norm_grad_buffers(t, {{"sums and shares", Role::kScratch, workspace.data(), bytes}}),
         .run =
             [&](const Config& config, std::span<void* const> data) {
               all_vectors ? enqueue<T, kGradLanes * kElement>(t, run, config, data)
                           : enqueue<T, kElement>(t, run, config, data);
             },
         .stream = run.stream});
  });
}

}  // namespace assay::cheri
