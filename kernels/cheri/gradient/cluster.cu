// SPDX-License-Identifier: Apache-2.0
// The gradient of conv_norm, one example to a cluster of blocks. The blocks read x and dy, exchange
// the sums over the example, and go through x and dy once more. What shared memory holds is not
// read again. The rest comes from the L2 cache, where the few examples in flight fit. A second
// kernel adds up the shares of dw.
#include "kernels/cheri/gradient/cluster.cuh"
#include "kernels/cheri/gradient/gradient.cuh"
#include "kernels/cheri/tunables.h"
#include "kernels/core/specialise.h"

namespace assay::cheri {
namespace {

enum Hold : int { kNothing, kOnlyX, kXAndDy };  // what shared memory holds

constexpr int kRowsBesideX = 4, kRowsBesideDy = 2;  // rows that a thread needs beside a strip

template <class T>
struct Arguments {
  Strided<const T> dy, x, w;
  Strided<T> dx;
  double* shares;  // (N, groups, 3, C)
  Cut cut;
  int size, rounds;
  int64_t ahead_x,
      ahead_dy;  // [bytes] Prefetched to the L2 cache, of the cluster's next example.
};

template <class T, int kPiece, Hold kHold>
__global__ void __launch_bounds__(kClusterThreads, 2) cluster_grad_kernel(const Arguments<T> a) {
  constexpr int kAhead = kHold == kXAndDy ? 2 : 4;  // rows; shared memory answers sooner
  using Held = Slots<T, kGradLanes>;
  constexpr bool kMasked = kPiece < kGradLanes * int{sizeof(T)};
  extern __shared__ uint4 held[];
  __shared__ double shared[32][kGradSums], all[2][kMostClusterBlocks][kGradSums];
  __shared__ NormGrad grad_of_example;
  __shared__ TileSums<kClusterThreads> tile_sums;
  cluster_arrive();
  const int rank = cluster_rank();
  const int64_t clusters = gridDim.x / static_cast<unsigned>(a.size);
  int64_t example = blockIdx.x / static_cast<unsigned>(a.size);
  const Place first(a.cut, rank);
  const int x_slots = a.cut.chunk + kRowsBesideX, dy_slots = a.cut.chunk + kRowsBesideDy;
  void* const held_dy =
      reinterpret_cast<typename Held::Slot*>(held) + a.rounds * x_slots * static_cast<int>(blockDim.x);

  // Calls visit(place, rows of x, rows of dy, slots of x, slots of dy) for each of the block's
  // units.
  const auto for_each = [&](auto&& visit) {
    for_each_unit(a.cut, a.size, a.rounds, rank, first, [&](int round, const Place& place) {
      visit(place, Rows<kPiece, const T, kGradLanes>(a.x, example, place.lane, place.strip, a.cut.dilation),
            Rows<kPiece, const T, kGradLanes>(a.dy, example, place.lane, place.strip, a.cut.dilation),
            Held(held, round, x_slots, 2), Held(held_dy, round, dy_slots, 1));
    });
  };
  // Calls visit(place, x, dy) with the sources of the rows.
  const auto for_each_from_sources = [&](auto&& visit) {
    for_each([&](const Place& place, const auto& x, const auto& dy, const Held& held_x, const Held& held_dy) {
      if constexpr (kHold == kNothing) {
        visit(place, x, dy);
      } else if constexpr (kHold == kOnlyX) {
        visit(place, held_x, dy);
      } else {
        visit(place, held_x, held_dy);
      }
    });
  };
  for (int turn = 0; example < a.cut.examples; turn ^= 1, example += clusters) {
    if constexpr (kHold != kNothing) {
      for_each(
          [&](const Place& place, const auto& x, const auto& dy, const Held& held_x, const Held& held_dy) {
            const Strip& strip = place.strip;
            if (strip.count == 0) return;
            held_x.fetch(x, -strip.before, strip.count + strip.after);
            if (kHold == kXAndDy) held_dy.fetch(dy, -min(strip.before, 1), strip.count + min(strip.after, 1));
          });
    }

    const double reference = reference_of(a.cut, a.x, a.w, example);
    double sums[kGradSums]{};
    wait_for_copies();
    if (example + clusters < a.cut.examples) {
      prefetch_example(a.x, example + clusters, a.ahead_x, rank, a.size);
      prefetch_example(a.dy, example + clusters, a.ahead_dy, rank, a.size);
    }
    for_each_from_sources([&](const Place& place, const auto& x, const auto& dy) {
      const Weights<kGradLanes> w(a.w, place.lane);
      add_to_sums<kAhead, kMasked>(sums, place.strip, place.lane, w, reference, x, dy);
    });
    sum_over_block(sums, shared);
    if (example < clusters) cluster_wait();  // once: all blocks have started
    sum_over_cluster(sums, all[turn], a.size);
    if (threadIdx.x == 0) {
      grad_of_example = norm_grad(reference, sums, Average(a.cut));
    }
    __syncthreads();
    const NormGrad grad = grad_of_example;

    for_each_from_sources([&](const Place& place, const auto& x, const auto& dy) {
      const Weights<kGradLanes> w(a.w, place.lane);
      const Rows<kPiece, T, kGradLanes> dx(a.dx, example, place.lane, place.strip, a.cut.dilation);
      float dw[3][kGradLanes]{};
      march_back<kAhead, T>(dw, place.strip, w, grad, x, dy, dx);
      tile_sums.clear();
      tile_sums.add(a.cut, dw);
      tile_sums.store(a.cut, place.tile,
                      a.shares + (example * a.cut.groups + place.group) * 3 * a.cut.channels);
      __syncthreads();
    });
  }
  let_next_kernel_start();
}

// How a call is divided.
template <class T>
struct Plan {
  Spread spread;
  int64_t share_rows;

  Plan(const Extents& shape, int64_t dilation)
      : spread(cheri::spread(shape, dilation, kGradLanes,
                             shape[1] * shape[2] * int64_t{sizeof(T)} * (sizeof(T) == 4 ? 1 : 2), kSumGroup,
                             kRowsBesideX)),
        share_rows(spread.cut.examples * spread.cut.groups) {}

  // [bytes]
  int64_t workspace() const {
    return (share_rows + rows_between(share_rows)) * 3 * spread.cut.channels * int64_t{sizeof(double)};
  }
  int64_t held(Hold hold) const {
    const int64_t x = spread.cut.chunk + kRowsBesideX, dy = spread.cut.chunk + kRowsBesideDy;
    const int64_t rows = hold == kNothing ? 0 : hold == kOnlyX ? x : x + dy;
    return rows * spread.rounds * spread.cut.threads() * kGradLanes * int64_t{sizeof(T)};
  }
  std::optional<std::string> unsupported() const { return misfit(spread, held(kOnlyX) + declared()); }
  static int64_t declared() {
    return int64_t{sizeof(TileSums<kClusterThreads>)} + int64_t{sizeof(NormGrad)} + 64 +
           (32 + 2 * kMostClusterBlocks) * kGradSums * int64_t{sizeof(double)};
  }
};

template <class T, int kPiece, Hold kHold>
void enqueue(const ConvNormGradTensors& t, const Run& run, const Plan<T>& plan, const Config& config,
             std::span<void* const> data) {
  const int capability = run.context.device().info().compute_capability;
  const auto stream = static_cast<cudaStream_t>(run.stream);
  ConvNormGradTensors moved = t;
  moved.dx.data = data[3];
  moved.dw.data = data[4];
  const Arguments<T> a{.dy = Strided<const T>(t.dy),
                       .x = Strided<const T>(t.x),
                       .w = Strided<const T>(t.w),
                       .dx = Strided<T>(moved.dx),
                       .shares = static_cast<double*>(data[5]),
                       .cut = plan.spread.cut,
                       .size = plan.spread.size,
                       .rounds = plan.spread.rounds,
                       .ahead_x = config["next"] >= 1 ? bytes_in_one_piece(t.x) : 0,
                       .ahead_dy = config["next"] >= 2 ? bytes_in_one_piece(t.dy) : 0};
  auto* const kernel = cluster_grad_kernel<T, kPiece, kHold>;
  const ClusterLaunch launch{.name = "cluster_grad_kernel",
                             .compute_capability = capability,
                             .size = a.size,
                             .threads = a.cut.threads(),
                             .shared_bytes = plan.held(kHold),
                             .stream = stream};
  launch_clusters(launch, kernel,
                  config["next"] > 0 ? at_once(a.cut.examples, launch, kernel) : a.cut.examples, a);
  enqueue_column_sums<T>(capability >= 90, a.shares, plan.share_rows, moved.dw, stream);
}

}  // namespace

const Tunable& conv_norm_grad_cluster_tunable() {
  static const Tunable tunable{.name = "cheri_conv_norm_grad_cluster",
                               .version = 1,
                               .configs = {{{"hold", kOnlyX}, {"next", 0}},
                                           {{"hold", kOnlyX}, {"next", 1}},
                                           {{"hold", kXAndDy}, {"next", 2}},
                                           {{"hold", kNothing}, {"next", 0}}}};
  return tunable;
}

std::optional<std::string> conv_norm_grad_cluster_unsupported(const Extents& shape, int64_t dilation,
                                                              DType storage) {
  std::optional<std::string> why;
  if (element_count(shape) == 0) return why;
  visit_storage(storage,
                [&]<class T>(std::type_identity<T>) { why = Plan<T>(shape, dilation).unsupported(); });
  return why;
}

void conv_norm_grad_cluster(const ConvNormGradTensors& t, const Run& run) {
  require_valid(t, run.dilation);
  if (t.dw.size() == 0) return;
  visit_storage(t.x.dtype, [&]<class T>(std::type_identity<T>) {
    if (t.dx.size() == 0)
      return enqueue_column_sums<T>(false, nullptr, 0, t.dw, static_cast<cudaStream_t>(run.stream));
    constexpr int kElement = int{sizeof(T)};
    const Plan<T> plan(t.x.shape, run.dilation);
    if (const auto why = plan.unsupported()) throw unsupported_error("{}", *why);
    const int64_t bytes = plan.workspace();
    const Workspace::Lease workspace = run.context.workspace().lease(bytes, run.stream);
    const auto vectors = [](const ConstTensorView& view) { return has_vectors(view, kGradLanes * kElement); };
    const bool all_vectors = vectors(t.dy) && vectors(t.x) && vectors(t.dx);
    run.context.tuner().run(
        {.tunable = &conv_norm_grad_cluster_tunable(),
         .key = key_of(t.x.shape, run.dilation, {t.dy, t.x, t.w}, {t.dx, t.dw}),
         .unfit = [&](const Config& config) -> std::optional<std::string> {
           const int64_t needed = plan.held(static_cast<Hold>(config["hold"])) + plan.declared();
           if (needed <= kMostBlockShared) return std::nullopt;
           return fmt::format("it takes {} bytes of shared memory in each block, which has {}", needed,
                              kMostBlockShared);
         },
         .buffers = conv_norm_grad_buffers(t, {{"shares", Role::kScratch, workspace.data(), bytes}}),
         .run =
             [&](const Config& config, std::span<void* const> data) {
               visit_integer<kNothing, kXAndDy>(
                   config["hold"], [&]<int kHold>(std::integral_constant<int, kHold>) {
                     constexpr auto hold = static_cast<Hold>(kHold);
                     all_vectors ? enqueue<T, kGradLanes * kElement, hold>(t, run, plan, config, data)
                                 : enqueue<T, kElement, hold>(t, run, plan, config, data);
                   });
             },
         .stream = run.stream});
  });
}

}  // namespace assay::cheri
