// SPDX-License-Identifier: Apache-2.0
// Packs the weights of trimul as its CUDA kernels read them, and computes the scales of
// factors in f16, in one part or in two.
#include <fmt/format.h>

#include <cstdint>

#include "kernels/core_cuda/cuda_check.h"
#include "kernels/trimul/cuda_gates.cuh"
#include "kernels/trimul/cuda_plan.cuh"
#include "kernels/trimul/cuda_resident.cuh"
#include "kernels/trimul/cuda_streamed.cuh"

namespace assay::trimul {
namespace {

constexpr int kThreads = 256, kScalesThreads = 1024;

struct Matrix {
  const float* data;
  int64_t row, column;  // [elements]
};

struct Vector {
  const float* data;
  int64_t stride;  // [elements]
};

Matrix matrix_of(const ConstTensorView& view) {
  return {view.as<float>(), view.strides[0], view.strides[1]};
}

Vector vector_of(const ConstTensorView& view) {
  return {view.as<float>(), view.strides[0]};
}

template <Format kFactor>
Order order_of(int64_t channels, const Planes& planes) {
  if (is_resident<kFactor>(channels, planes)) return Order::kResident;
  return is_streamed<kFactor>(channels, planes) ? Order::kStreamed : Order::kSlots;
}

struct Arguments {
  Matrix weights[6];  // (H, C), except the last one, to_out
  Vector norms[4];    // weight and bias of that of x (C), of that of hidden (H)
  int channels, hidden;
  Order order;
  uint8_t *projections, *to_out;
  int64_t projection_slots, out_slots;
  int depth_slots, out_depth_slots;  // of the projections, of to_out
  PackedNorms* packed_norms;
  Scales* scales;
};

// Of a vector: its largest magnitude and the sum of its squares. Of a matrix: the largest ones of
// its rows. Values that are not finite have no magnitude, and a sum that is NaN is not the largest:
// whatever such a value touches is not finite, either.
struct Extent {
  double magnitude, squares;
};

__device__ Extent larger(const Extent& a, const Extent& b) {
  return {fmax(a.magnitude, b.magnitude), fmax(a.squares, b.squares)};
}

__device__ Extent of_other_lane(const Extent& own, int distance) {
  return {__shfl_xor_sync(0xFFFFFFFFu, own.magnitude, distance),
          __shfl_xor_sync(0xFFFFFFFFu, own.squares, distance)};
}

__device__ Extent largest_of_warp(Extent own) {
  for (int distance = 16; distance > 0; distance /= 2) own = larger(own, of_other_lane(own, distance));
  return own;
}

// By kLanes neighbouring lanes; all of a warp call it.
template <int kLanes>
__device__ Extent extent_of(const Vector& v, int count) {
  constexpr int kAhead = 12;  // loads
  Extent own{};
  for (int first = static_cast<int>(threadIdx.x) % kLanes; first < count; first += kAhead * kLanes) {
    float values[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int at = first + i * kLanes;
      values[i] = at < count ? v.data[at * v.stride] : 0.0f;
    }
#pragma unroll
    for (const double value : values) {
      if (isfinite(value)) own.magnitude = fmax(own.magnitude, fabs(value));
      own.squares += value * value;
    }
  }
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    const Extent other = of_other_lane(own, distance);
    own = {fmax(own.magnitude, other.magnitude), own.squares + other.squares};
  }
  return own;
}

// There is a block for each weight. Those of left_proj and right_proj also compute how large left
// and right may be.
__global__ void __launch_bounds__(kScalesThreads) scales_kernel(const Arguments a) {
  constexpr int kWarps = kScalesThreads / 32, kLanes = 8;
  static_assert(kWarps == 32, "each lane of the first warp reads the extent of one warp");
  __shared__ Extent of_norms[4], of_warps[kWarps];
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32;
  const int which = static_cast<int>(blockIdx.x);
  const bool is_out = which == 5;
  const int rows = is_out ? a.channels : a.hidden, columns = is_out ? a.hidden : a.channels;
  const Matrix& w = a.weights[which];
  if (warp < 4) {
    const Extent of_norm = extent_of<32>(a.norms[warp], warp < 2 ? a.channels : a.hidden);
    if (thread % 32 == 0) of_norms[warp] = of_norm;
  }
  Extent own{};
  for (int first = 0; first < rows; first += kScalesThreads / kLanes) {
    const int row = first + thread / kLanes;
    own = larger(own, extent_of<kLanes>({w.data + row * w.row, w.column}, row < rows ? columns : 0));
  }
  own = largest_of_warp(own);
  if (thread % 32 == 0) of_warps[warp] = own;
  __syncthreads();
  if (warp != 0) return;
  own = largest_of_warp(of_warps[thread]);
  if (thread != 0) return;
  const auto [weight, bias, out_weight, out_bias] = of_norms;
  const double root = sqrt(double(a.channels));
  a.scales->weights[which] = exponent_for(own.magnitude);
  if (which < 2) {
    const double largest = sqrt(own.squares) * (root * weight.magnitude + sqrt(bias.squares));
    (which == 0 ? a.scales->left : a.scales->right) = largest;
    (which == 0 ? a.scales->sides.left : a.scales->sides.right) = exponent_for(largest);
  }
  if (which == 2) a.scales->xn = exponent_for(root * weight.magnitude + bias.magnitude);
  if (which == 3)
    a.scales->z = exponent_for(sqrt(double(a.hidden)) * out_weight.magnitude + out_bias.magnitude);
}

// The weight, and the row of it, that a column of the projections stands for.
struct Place {
  int weight, row;
};
__device__ Place place_of(int chunk, int column, int hidden, Order order) {
  const int side = (hidden + kStagedHidden - 1) / kStagedHidden;
  if (chunk >= 2 * side) return {4, (chunk - 2 * side) * kSlotColumns + column};
  const int first = chunk % side * kStagedHidden;
  if (order == Order::kSlots) {
    return {chunk / side + 2 * (column / kStagedHidden), first + column % kStagedHidden};
  }
  return {chunk / side + 2 * (column / 8 % 2), first + column / 16 * 8 + column % 8};
}

// The channel of out for a column. Column 8j + 2q + e stands for channel 16 (j/2) + 4q + 2
// (j%2) + e. So a thread has four neighbours.
__device__ int in_fours(int column) {
  return column / 16 * 16 + column % 8 / 2 * 4 + column / 8 % 2 * 2 + column % 2;
}

__device__ void copy_norms(const Arguments& a) {
  const auto copy = [](const Vector& from, int count, float* to, int64_t size) {
    for (int i = static_cast<int>(threadIdx.x); i < size; i += kThreads) {
      to[i] = i < count ? from.data[i * from.stride] : 0.0f;
    }
  };
  copy(a.norms[0], a.channels, a.packed_norms->weight, kMostChannels);
  copy(a.norms[1], a.channels, a.packed_norms->bias, kMostChannels);
  copy(a.norms[2], a.hidden, a.packed_norms->out_weight, kMostHidden);
  copy(a.norms[3], a.hidden, a.packed_norms->out_bias, kMostHidden);
}

// The first block copies the norms. Others have a thread for each element of the slots.
template <Format kFactor>
__global__ void __launch_bounds__(kThreads) pack_kernel(const Arguments a) {
  using Traits = TileFactor<kFactor>;
  constexpr int kElements = kSlotColumns * Traits::kSlotDepth;
  if (blockIdx.x == 0) return copy_norms(a);
  const int64_t i = int64_t{blockIdx.x - 1} * kThreads + threadIdx.x;
  const int64_t slot = i / kElements;
  if (slot >= a.projection_slots + a.out_slots) return;
  const bool is_out = slot >= a.projection_slots;
  const int inner = static_cast<int>(is_out ? slot - a.projection_slots : slot);
  // Slots of the same columns.
  const int slots = is_out ? a.out_depth_slots : a.depth_slots;
  const int in_slot = static_cast<int>(i % kElements);
  const int column = in_slot / Traits::kSlotDepth, k = in_slot % Traits::kSlotDepth;
  Place place = is_out ? Place{5, inner / slots * kSlotColumns + in_fours(column)}
                       : place_of(inner / slots, column, a.hidden, a.order);
  // The last of an odd number of hidden channels shares its division with itself (cuda_gates.cuh).
  if (kInPairs<kFactor> && !is_out && place.row == a.hidden && a.hidden % 2 == 1) --place.row;
  const bool in_order = is_out || a.order != Order::kResident;
  const int at = inner % slots * Traits::kSlotDepth + (in_order ? k : in_fours(k));
  float value = 0;
  if (place.row < (is_out ? a.channels : a.hidden) && at < (is_out ? a.hidden : a.channels)) {
    const Matrix& w = a.weights[place.weight];
    value = w.data[place.row * w.row + at * w.column];
    if constexpr (kIsScaled<kFactor>) value = Power(a.scales->weights[place.weight])(value);
  }
  uint8_t* const to = (is_out ? a.to_out : a.projections) + int64_t{inner} * Traits::kSlotBytes +
                      Traits::offset(column, k, Traits::kSlotNext);
  const auto store = [&](uint8_t* place, uint32_t packed) {
    *reinterpret_cast<uint16_t*>(place) = static_cast<uint16_t>(packed);
  };
  store(to, pack_part<kFactor, 0>(value, 0));
  if constexpr (Traits::kParts == 2) store(to + Traits::kSlotNext, pack_part<kFactor, 1>(value, 0));
}

}  // namespace

template <Format kFactor>
PackedWeights pack_weights(const Tensors& t, const Planes& planes, const Run& run,
                           DerivedTensors::Held& memory) {
  constexpr int kSlotBytes = TileFactor<kFactor>::kSlotBytes;
  const int64_t channels = t.x.shape[3], hidden = planes.hidden;
  const Order order = order_of<kFactor>(channels, planes);
  const int64_t depth = order == Order::kStreamed ? streamed_depth<kFactor>(channels) : channels;
  const int64_t sides = 2 * ((hidden + kStagedHidden - 1) / kStagedHidden) * kSlotColumns;
  const int64_t projection_slots = slots_of<kFactor>(sides, depth) + slots_of<kFactor>(hidden, depth);
  const int64_t out_slots = slots_of<kFactor>(channels, depth_of_out(hidden));
  constexpr int64_t kScales = 256, kHeader = kScales + int64_t{sizeof(PackedNorms)};  // [bytes]
  static_assert(sizeof(Scales) <= kScales, "the scales lie before the norms");
  const std::vector<DerivedTensors::Source> sources{run.source(kNormWeight, t.norm.weight),
                                                    run.source(kNormBias, t.norm.bias),
                                                    run.source(kLeftProj, t.left.proj),
                                                    run.source(kRightProj, t.right.proj),
                                                    run.source(kLeftGate, t.left.gate),
                                                    run.source(kRightGate, t.right.gate),
                                                    run.source(kOutGate, t.out_gate),
                                                    run.source(kToOutNormWeight, t.to_out_norm.weight),
                                                    run.source(kToOutNormBias, t.to_out_norm.bias),
                                                    run.source(kToOut, t.to_out)};
  const auto make = [&](void* data) {
    auto* const bytes = static_cast<uint8_t*>(data);
    const Arguments a{.weights = {matrix_of(t.left.proj), matrix_of(t.right.proj), matrix_of(t.left.gate),
                                  matrix_of(t.right.gate), matrix_of(t.out_gate), matrix_of(t.to_out)},
                      .norms = {vector_of(t.norm.weight), vector_of(t.norm.bias),
                                vector_of(t.to_out_norm.weight), vector_of(t.to_out_norm.bias)},
                      .channels = static_cast<int>(channels),
                      .hidden = static_cast<int>(hidden),
                      .order = order,
                      .projections = bytes + kHeader,
                      .to_out = bytes + kHeader + projection_slots * kSlotBytes,
                      .projection_slots = projection_slots,
                      .out_slots = out_slots,
                      .depth_slots = static_cast<int>(slots_of<kFactor>(1, depth)),
                      .out_depth_slots = static_cast<int>(slots_of<kFactor>(1, depth_of_out(hidden))),
                      .packed_norms = reinterpret_cast<PackedNorms*>(bytes + kScales),
                      .scales = reinterpret_cast<Scales*>(bytes)};
    const auto stream = static_cast<cudaStream_t>(run.stream);
    if constexpr (kIsScaled<kFactor>) {
      scales_kernel<<<6, kScalesThreads, 0, stream>>>(a);
      cuda_check_launch("scales_kernel");
    }
    const int64_t elements = (projection_slots + out_slots) * kSlotColumns * TileFactor<kFactor>::kSlotDepth;
    const int64_t blocks = 1 + (elements + kThreads - 1) / kThreads;
    pack_kernel<kFactor><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(a);
    cuda_check_launch("pack_kernel");
  };
  memory = run.context.derived().get(fmt::format("trimul {} c={} h={} order {}", name_of(kFactor), channels,
                                                 hidden, static_cast<int>(order)),
                                     kHeader + (projection_slots + out_slots) * kSlotBytes, sources,
                                     run.stream, make);
  const auto* const bytes = static_cast<const uint8_t*>(memory.data());
  return {.projections = bytes + kHeader,
          .to_out = bytes + kHeader + projection_slots * kSlotBytes,
          .norms = reinterpret_cast<const PackedNorms*>(bytes + kScales),
          .scales = kIsScaled<kFactor> ? reinterpret_cast<const Scales*>(bytes) : nullptr,
          .order = order};
}

template PackedWeights pack_weights<Format::kF16>(const Tensors&, const Planes&, const Run&,
                                                  DerivedTensors::Held&);
template PackedWeights pack_weights<Format::kBF16>(const Tensors&, const Planes&, const Run&,
                                                   DerivedTensors::Held&);
template PackedWeights pack_weights<Format::kF16x3>(const Tensors&, const Planes&, const Run&,
                                                    DerivedTensors::Held&);

}  // namespace assay::trimul
