// SPDX-License-Identifier: Apache-2.0
// The gradient of conv_norm in one pass: blocks hold tiles of x and dy in a ring (ring_roles.cuh)
// until the statistics of their examples are there. Each block adds up its share of dw, strip by
// strip, and a second kernel adds up the shares.
#include "kernels/cheri/conv_norm/ring_roles.cuh"
#include "kernels/cheri/gradient/gradient.cuh"
#include "kernels/core/specialise.h"
#include "kernels/core_cuda/named_barrier.cuh"
#include "kernels/core_cuda/shared_memory.cuh"
#include "kernels/core_cuda/wgmma.cuh"

namespace assay::cheri {
namespace {

constexpr int kWorkers = 8;  // [warps] that add, and as many that end
// [bytes] Of the stages of a block; it also has the state of its ring.
constexpr int64_t kAllStages = int64_t{222} << 10;
constexpr int kReachX = 2, kReachDy = 1;  // dx needs dconv of the next row, and that needs x
// Of each thread, for the roles that end and add and for all others.
constexpr int kEndRegisters = 120, kAddRegisters = 88, kOtherRegisters = 64;

template <class T>
constexpr int kStages = sizeof(T) == 4 ? 3 : 4;
template <class T>
constexpr int kLag = kStages<T> - 1;  // those that add are ahead as far as there are stages
template <class T>
constexpr TileLimits kLimits{.threads = kWorkers * kWarp,
                             .strip = 9,
                             .tensors = 2,
                             .elements = kAllStages / kStages<T> / int64_t{sizeof(T)} / 16 * 16};
template <class T, int kPiece>
using Warps = RingWarps<2 * kWorkers, T, kPiece>;
template <class T, bool kIsHeld>
using GradRing = Ring<kStages<T>, kWorkers, kGradSums, NormGrad, kIsHeld>;
// That a thread ends. With 128 channels most strips have 7 rows in f32 and 9 in 16 bits. The 6 or 8
// inside them take two steps. Where elements are copied one by one, four rows spill more registers.
template <class T, int kPiece>
constexpr int kRowsAtOnce = Warps<T, kPiece>::kCopiesRows && sizeof(T) == 2 ? 4 : 3;

template <class T>
struct Arguments {
  StagedTensor<T> dy, x;
  Strided<const T> w;
  Strided<T> dx;
  double* shares;  // (blocks / sides, 3, C)
  RingJob job;

  __device__ int stage_elements() const { return x.elements(job.tiling) + dy.elements(job.tiling); }
};

// The threads that end wait for each other.
__device__ void synchronize_ends() {
  synchronize_some<kWorkers * kWarp>(1);
}

// Adds up dw over the lines of a block, of two halves line by line until one line is left, and
// stores the block's share. `shared` has room for half of the lines.
template <class T>
__device__ void store_share(const Arguments<T>& a, const Convolver& own, double (&dw)[3][kTileLanes],
                            double* shared) {
  constexpr int kOutputs = 3 * kTileLanes;
  const int columns = a.job.tiling.columns;
  const auto slot = [&](int line, int output) {
    return shared + (line * kOutputs + output) * columns + own.column;
  };
  for (int lines = kWorkers * kWarp / columns; lines > 1;) {
    const int half = (lines + 1) / 2;
    synchronize_ends();
    if (own.line >= half && own.line < lines) {
#pragma unroll
      for (int i = 0; i < kOutputs; ++i) *slot(own.line - half, i) = dw[i / kTileLanes][i % kTileLanes];
    }
    synchronize_ends();
    if (own.line + half < lines) {
#pragma unroll
      for (int i = 0; i < kOutputs; ++i) dw[i / kTileLanes][i % kTileLanes] += *slot(own.line, i);
    }
    lines = half;
  }
  if (own.line != 0) return;
  const int channels = a.job.tiling.channels;
  double* const share = a.shares + int64_t{blockIdx.x} / a.job.tiling.sides * 3 * channels;
#pragma unroll
  for (int i = 0; i < kOutputs; ++i) {
    if (i % kTileLanes < own.lane.valid)
      share[i / kTileLanes * channels + own.lane.channel + i % kTileLanes] =
          dw[i / kTileLanes][i % kTileLanes];
  }
}

// The rows of a thread's strip in a stage.
template <class T>
struct StripRows {
  Strip strip;
  StageRows<T> x, dy;

  __device__ StripRows(const Arguments<T>& a, const Convolver& own, const Tile& tile, const T* stage)
      : strip(own.strip(a.job.tiling, tile)),
        x(a.job.tiling, own, stage, kReachX),
        dy(a.job.tiling, own, stage + a.x.elements(a.job.tiling), kReachDy) {}
};

template <class T, int kPiece, bool kIsHeld>
__device__ void add_tiles(const Arguments<T>& a, GradRing<T, kIsHeld>& ring, const T* stages, int thread) {
  const Convolver own(a.job.tiling, thread);
  const Weights<kTileLanes> w(a.w, own.lane);
  for (typename GradRing<T, kIsHeld>::Turn at; at.number < a.job.turns; at.next()) {
    double sums[kGradSums]{};
    wait_for_phase(shared_address(&ring.full[at.stage]), at.parity);
    const StripRows<T> rows(a, own, ring.added(a.job.tiling, at.stage),
                            stages + at.stage * a.stage_elements());
    add_to_sums<3, !Warps<T, kPiece>::kCopiesRows>(sums, rows.strip, own.lane, w, ring.references[at.stage],
                                                   rows.x, rows.dy);
    __syncwarp();
    sum_over_warp(sums);
    ring.hand_over(at.stage, thread / kWarp, sums);
  }
}

template <class T, int kPiece, bool kIsHeld>
__device__ void end_tiles(const Arguments<T>& a, GradRing<T, kIsHeld>& ring, T* stages, int thread) {
  const Convolver own(a.job.tiling, thread);
  const Weights<kTileLanes> w(a.w, own.lane);
  double dw[3][kTileLanes]{};
  for (typename GradRing<T, kIsHeld>::Turn at; at.number < a.job.turns; at.next()) {
    wait_for_phase(shared_address(&ring.normed[at.stage]), at.parity);
    const NormGrad grad = ring.statistics[at.stage];
    const Tile tile = ring.ended(a.job.tiling, at.stage);
    const StripRows<T> rows(a, own, tile, stages + at.stage * a.stage_elements());
    const Rows<kPiece, T, kTileLanes> dx(a.dx, tile.example, own.lane, rows.strip, a.job.tiling.dilation);
    float of_strip[3][kTileLanes]{};
    march_back<kRowsAtOnce<T, kPiece>, T>(of_strip, rows.strip, w, grad, rows.x, rows.dy, dx);
    arrive_after_loads(shared_address(&ring.empty[at.stage]));
#pragma unroll
    for (int k = 0; k < 3; ++k) {
#pragma unroll
      for (int e = 0; e < kTileLanes; ++e) dw[k][e] += of_strip[k][e];
    }
  }
  store_share(a, own, dw, reinterpret_cast<double*>(stages));
}

template <class T, int kPiece, bool kIsHeld>
__global__ void __launch_bounds__(Warps<T, kPiece>::kThreads, 1) grad_ring_kernel(const Arguments<T> a) {
  extern __shared__ uint4 dynamic[];
  __shared__ GradRing<T, kIsHeld> ring;
  if (threadIdx.x == 0) ring.make_barriers(Warps<T, kPiece>::kBringers);
  __syncthreads();
  T* const stages = reinterpret_cast<T*>(dynamic);
  // Warps that copy rows are few enough to give some of their registers to those that end.
  const auto set_registers = []<int kRegisters>(std::integral_constant<int, kRegisters>) {
#if ASSAY_HAS_WGMMA
    if constexpr (Warps<T, kPiece>::kCopiesRows) {
      static_assert(Warps<T, kPiece>::kConvolver == 4, "registers are those of a warpgroup");
      if constexpr (kRegisters == kEndRegisters) {
        take_registers<kRegisters>();
      } else {
        give_registers<kRegisters>();
      }
    }
#endif
  };
  const int role = static_cast<int>(threadIdx.x) / kWarp;
  const int thread = static_cast<int>(threadIdx.x) - Warps<T, kPiece>::kConvolver * kWarp;
  if (thread >= kWorkers * kWarp) {
    set_registers(std::integral_constant<int, kEndRegisters>{});
    end_tiles<T, kPiece>(a, ring, stages, thread - kWorkers * kWarp);
  } else if (thread >= 0) {
    set_registers(std::integral_constant<int, kAddRegisters>{});
    add_tiles<T, kPiece>(a, ring, stages, thread);
  } else {
    set_registers(std::integral_constant<int, kOtherRegisters>{});
    if (role == 0) {
      ring.publish_sums(a.job);
    } else if (role == 1) {
      const Average average(a.job.tiling);
      ring.finish_sums(a.job, [&](double reference, const double(&sums)[kGradSums]) {
        return norm_grad(reference, sums, average);
      });
    } else {
      const int warp = role - Warps<T, kPiece>::kLoader;
      ring.template load<Warps<T, kPiece>>(
          a.job, warp, a.x.from, a.w, [&](const Tile& tile, int stage, uint32_t barrier) {
            const Tiling& tiling = a.job.tiling;
            T* const x = stages + stage * a.stage_elements();
            return copy_rows<Warps<T, kPiece>>(tiling, tile, a.x, x, warp, barrier) +
                   copy_rows<Warps<T, kPiece>>(tiling, tile, a.dy, x + a.x.elements(tiling), warp, barrier);
          });
    }
  }
  let_next_kernel_start();
}

template <class T, int kPiece>
void enqueue(const ConvNormGradTensors& t, const Run& run, const Tiling& tiling) {
  constexpr std::string_view kName = "grad_ring_kernel";
  constexpr int kThreads = Warps<T, kPiece>::kThreads;
  const auto stream = static_cast<cudaStream_t>(run.stream);
  const StagedTensor<T> dy(t.dy, tiling, kReachDy), x(t.x, tiling, kReachX);
  const int64_t elements = x.elements(tiling) + dy.elements(tiling);
  const int64_t sums_of_dw = int64_t{kWorkers * kWarp} * 3 * kTileLanes * int64_t{sizeof(double)} / 2;
  const int64_t shared_bytes = std::max(kStages<T> * elements * int64_t{sizeof(T)}, sums_of_dw);
  // One on each multiprocessor, whatever the layout is, since the blocks decide the order of sums.
  const int64_t blocks = blocks_of_ring(tiling, run.context.device().info().units);
  const bool holds = is_held(tiling, blocks, kLag<T>);
  auto* const kernel = holds ? grad_ring_kernel<T, kPiece, true> : grad_ring_kernel<T, kPiece, false>;
  const RingMemory memory("cheri_conv_norm_grad_ring", tiling, blocks, holds, kGradSums, run);
  const int64_t share_rows = blocks / tiling.sides;
  const int64_t bytes =
      (share_rows + rows_between(share_rows)) * 3 * tiling.channels * int64_t{sizeof(double)};
  const Workspace::Lease workspace = run.context.workspace().lease(bytes, run.stream);
  const Arguments<T> a{.dy = dy,
                       .x = x,
                       .w = Strided<const T>(t.w),
                       .dx = Strided<T>(t.dx),
                       .shares = static_cast<double*>(workspace.data()),
                       .job = memory.job()};
  launch_cooperative(kName, kernel, blocks, kThreads, shared_bytes, stream, a);
  enqueue_column_sums<T>(true, a.shares, share_rows, t.dw, stream);
}

}  // namespace

void conv_norm_grad_ring(const ConvNormGradTensors& t, const Run& run) {
  require_valid(t, run.dilation);
  if (t.dw.size() == 0) return;
  require_ring(t.x.shape, run.context.device());
  visit_storage(t.x.dtype, [&]<class T>(std::type_identity<T>) {
    if (t.dx.size() == 0)
      return enqueue_column_sums<T>(false, nullptr, 0, t.dw, static_cast<cudaStream_t>(run.stream));
    constexpr int kElement = int{sizeof(T)}, kVector = kTileLanes * kElement;
    const Tiling tiling = tiling_of(t.x.shape, run.dilation, kLimits<T>);
    has_vectors(t.x, 16) && has_vectors(t.dy, 16) && has_vectors(t.dx, kVector)
        ? enqueue<T, kVector>(t, run, tiling)
        : enqueue<T, kElement>(t, run, tiling);
  });
}

}  // namespace assay::cheri
