// SPDX-License-Identifier: Apache-2.0
// conv_norm in one pass: the blocks of a cluster hold one example while they sum it up, and read x
// from memory once. For f32 they hold the convolution. For 16-bit types they hold x, which is half
// as long, and compute the convolution a second time. A cluster that processes several examples
// prefetches the next one to the L2 cache while it works on one.
#include "kernels/cheri/conv_norm/cluster.cuh"
#include "kernels/cheri/tunables.h"
#include "kernels/core/specialise.h"

namespace assay::cheri {
namespace {

template <class T>
struct Arguments {
  Strided<const T> x, w;
  Strided<T> y;
  Cut cut;
  int size, rounds;
  int slots;      // of a strip
  int64_t ahead;  // [bytes] prefetched to the L2 cache, of the cluster's next example
};

template <class T>
constexpr bool kHoldsConv = sizeof(T) == sizeof(float);

__device__ uint4 packed(const float (&values)[4]) {
  return {__float_as_uint(values[0]), __float_as_uint(values[1]), __float_as_uint(values[2]),
          __float_as_uint(values[3])};
}

template <class T, int kPiece>
__global__ void __launch_bounds__(kClusterThreads, 3) cluster_kernel(const Arguments<T> a) {
  constexpr int kLanes = 16 / int{sizeof(T)};
  using Vector = Bits<T, kLanes>;
  extern __shared__ uint4 held[];
  __shared__ double shared[32][2], all[2][kMostClusterBlocks][2];
  __shared__ Norm norm_of_example;
  cluster_arrive();
  const int rank = cluster_rank();
  const int64_t clusters = gridDim.x / static_cast<unsigned>(a.size);
  int64_t example = blockIdx.x / static_cast<unsigned>(a.size);
  const Place first(a.cut, rank);

  // Calls visit(place, slots) for each of the thread's strips.
  const auto for_each_strip = [&](auto&& visit) {
    for_each_unit(a.cut, a.size, a.rounds, rank, first, [&](int round, const Place& place) {
      if (place.strip.count > 0) visit(place, Slots<T, kLanes>(held, round, a.slots, kHoldsConv<T> ? 0 : 1));
    });
  };
  for (int turn = 0; example < a.cut.examples; turn ^= 1, example += clusters) {
    for_each_strip([&](const Place& place, const Slots<T, kLanes>& slots) {
      const Strip& strip = place.strip;
      const Rows<kPiece, const T, kLanes> x(a.x, example, place.lane, strip, a.cut.dilation);
      const bool ends = !kHoldsConv<T>;
      slots.fetch(x, ends && strip.before > 0 ? -1 : 0, strip.count + (ends && strip.after > 0 ? 1 : 0));
    });

    const double reference = reference_of(a.cut, a.x, a.w, example);
    double sums[2]{};
    if (example + clusters < a.cut.examples) prefetch_example(a.x, example + clusters, a.ahead, rank, a.size);
    for_each_strip([&](const Place& place, const Slots<T, kLanes>& slots) {
      const Strip& strip = place.strip;
      const Weights<kLanes> w(a.w, place.lane);
      const auto add = [&](const float(&conv)[kLanes]) {
#pragma unroll
        for (int e = 0; e < kLanes; ++e) {
          if (kPiece < 16 && e >= place.lane.valid) continue;
          const double deviation = conv[e] - reference;
          sums[kDeviations] += deviation;
          sums[kSquares] = fma(deviation, deviation, sums[kSquares]);
        }
      };
      if constexpr (kHoldsConv<T>) {
        // The rows at the ends have no slots. The convolution replaces each row once it is not
        // needed any more.
        const Rows<kPiece, const T, kLanes> x(a.x, example, place.lane, strip, a.cut.dilation);
        Vector left{}, middle, right{}, behind{};
        if (strip.before > 0) x.from(-1).load(left);
        if (strip.after > 0) x.from(strip.count).load(behind);
        wait_for_copies();
        auto slot = slots.from(0);
        auto ahead = slots.from(1);
        slot.load(middle);
        const auto step = [&](bool has_left, bool has_right) {
          float conv[kLanes];
          convolve(conv, w, left, middle, right, has_left, has_right);
          *slot.at = packed(conv);
          slot.next();
          add(conv);
          left = middle;
          middle = right;
        };
        for (int row = 0; row + 1 < strip.count; ++row) {
          ahead.load(right);
          ahead.next();
          if (row > 0 || strip.before > 0) {
            step(true, true);
          } else {
            step(false, true);
          }
        }
        right = behind;
        step(strip.count > 1 || strip.before > 0, strip.after > 0);
      } else {
        wait_for_copies();
        march<2, T, kLanes>(
            strip, slots, NoRows{},
            [&](auto inside, int row, const auto& left, const auto& middle, const auto& right, auto&) {
              float conv[kLanes];
              convolve(conv, w, left, middle, right, inside || strip.holds(row - 1),
                       inside || strip.holds(row + 1));
              add(conv);
            });
      }
    });
    sum_over_block(sums, shared);
    if (example < clusters) cluster_wait();  // once: all blocks have started
    sum_over_cluster(sums, all[turn], a.size);
    if (threadIdx.x == 0) {
      const double count = static_cast<double>(a.cut.rows) * static_cast<double>(a.cut.channels);
      norm_of_example = Moments(reference, sums[kDeviations], sums[kSquares], count).norm();
    }
    __syncthreads();
    const Norm norm = norm_of_example;

    for_each_strip([&](const Place& place, const Slots<T, kLanes>& slots) {
      const Strip& strip = place.strip;
      auto y = Rows<kPiece, T, kLanes>(a.y, example, place.lane, strip, a.cut.dilation).from(0);
      const auto normalise = [&](float(&values)[kLanes]) {
#pragma unroll
        for (int e = 0; e < kLanes; ++e) values[e] = norm(values[e]);
        y.store(round_to<T>(values));
        y.next();
      };
      if constexpr (kHoldsConv<T>) {
        auto slot = slots.from(0);
#pragma unroll 4
        for (int row = 0; row < strip.count; ++row) {
          Vector bits;
          slot.load(bits);
          slot.next();
          float values[kLanes];
#pragma unroll
          for (int e = 0; e < kLanes; ++e) values[e] = bits[e];
          normalise(values);
        }
      } else {
        const Weights<kLanes> w(a.w, place.lane);
        march<2, T, kLanes>(
            strip, slots, NoRows{},
            [&](auto inside, int row, const auto& left, const auto& middle, const auto& right, auto&) {
              float values[kLanes];
              convolve(values, w, left, middle, right, inside || strip.holds(row - 1),
                       inside || strip.holds(row + 1));
              normalise(values);
            });
      }
    });
  }
}

// How a cluster holds an example.
struct Plan {
  Spread spread;
  int slots;      // of a strip
  int64_t bytes;  // of shared memory in a block

  std::optional<std::string> unsupported() const {
    constexpr int64_t kDeclared = 2048;  // [bytes] not less than the kernel declares
    return misfit(spread, bytes + kDeclared);
  }
};

template <class T>
Plan plan_of(const Extents& shape, int64_t dilation) {
  constexpr int kExtra = kHoldsConv<T> ? 0 : 2;
  constexpr int64_t kLongest = 1 << 20;  // [rows] of a strip: more never fit
  const int64_t example = shape[1] * shape[2] * int64_t{sizeof(T)};
  const Spread held = spread(shape, dilation, 16 / int{sizeof(T)}, example, kLongest, kExtra);
  const int slots = held.cut.chunk + kExtra;
  return {held, slots, int64_t{16} * held.cut.threads() * held.rounds * slots};
}

template <class T, int kPiece>
void enqueue(const ConvNormTensors& t, const Run& run, const Plan& plan, const Config& config, void* y) {
  ConvNormTensors moved = t;
  moved.y.data = y;
  const Arguments<T> a{.x = Strided<const T>(t.x),
                       .w = Strided<const T>(t.w),
                       .y = Strided<T>(moved.y),
                       .cut = plan.spread.cut,
                       .size = plan.spread.size,
                       .rounds = plan.spread.rounds,
                       .slots = plan.slots,
                       .ahead = config["next"] > 0 ? bytes_in_one_piece(t.x) : 0};
  const ClusterLaunch launch{.name = "cluster_kernel",
                             .compute_capability = run.context.device().info().compute_capability,
                             .size = a.size,
                             .threads = a.cut.threads(),
                             .shared_bytes = plan.bytes,
                             .stream = static_cast<cudaStream_t>(run.stream)};
  auto* const kernel = cluster_kernel<T, kPiece>;
  launch_clusters(launch, kernel,
                  config["next"] > 0 ? at_once(a.cut.examples, launch, kernel) : a.cut.examples, a);
}

}  // namespace

const Tunable& conv_norm_cluster_tunable() {
  static const Tunable tunable{
      .name = "cheri_conv_norm_cluster", .version = 1, .configs = {{{"next", 0}}, {{"next", 1}}}};
  return tunable;
}

std::optional<std::string> conv_norm_cluster_unsupported(const Extents& shape, int64_t dilation,
                                                         DType storage) {
  std::optional<std::string> why;
  if (element_count(shape) == 0) return why;
  visit_storage(storage,
                [&]<class T>(std::type_identity<T>) { why = plan_of<T>(shape, dilation).unsupported(); });
  return why;
}

void conv_norm_cluster(const ConvNormTensors& t, const Run& run) {
  require_valid(t, run.dilation);
  if (t.y.size() == 0) return;
  visit_storage(t.x.dtype, [&]<class T>(std::type_identity<T>) {
    const Plan plan = plan_of<T>(t.x.shape, run.dilation);
    if (const auto why = plan.unsupported()) throw unsupported_error("{}", *why);
    const bool vectors = has_vectors(t.x, 16) && has_vectors(t.y, 16);
    run.context.tuner().run({.tunable = &conv_norm_cluster_tunable(),
                             .key = key_of(t.x.shape, run.dilation, {t.x, t.w}, {t.y}),
                             .unfit = {},
                             .buffers = {buffer_of("x", Role::kRead, t.x), buffer_of("w", Role::kRead, t.w),
                                         buffer_of("y", Role::kWrite, t.y)},
                             .run =
                                 [&](const Config& config, std::span<void* const> data) {
                                   vectors ? enqueue<T, 16>(t, run, plan, config, data[2])
                                           : enqueue<T, int{sizeof(T)}>(t, run, plan, config, data[2]);
                                 },
                             .stream = run.stream});
  });
}

}  // namespace assay::cheri
