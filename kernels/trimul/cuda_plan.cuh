// SPDX-License-Identifier: Apache-2.0
// What the CUDA kernels of trimul share: the layout of intermediate tensors, and the powers of two
// that scale what f16 stores.
//
// left, right, hidden and the gate of the output are stored channel by channel: (batch, h, i, k).
// Rows of k are padded to a multiple of 8; nothing uses the padding. A tile of edges is a run of
// positions i * pitch + k of one batch.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "kernels/core/dtype.h"
#include "kernels/core/op.h"
#include "kernels/core_cuda/approximate.cuh"
#include "kernels/core_cuda/packed.cuh"
#include "kernels/core_cuda/tile_product.cuh"
#include "kernels/trimul/cuda_limits.h"
#include "kernels/trimul/trimul.h"

namespace assay::trimul {

static_assert(kChannelsOfPart == kPartDepth && kChannelsOfPart == kSlotColumns);

inline constexpr int kStagedHidden = 64;  // channels that leave the first kernel at once

// The depth of to_out as it is packed and multiplied, padded with zeros.
inline constexpr int kOutDepthStep = 64;
inline int64_t depth_of_out(int64_t hidden) {
  return std::max<int64_t>((hidden + kOutDepthStep - 1) / kOutDepthStep, 1) * kOutDepthStep;
}

// Sizes of the intermediate tensors.
struct Planes {
  int64_t nodes, hidden;
  int64_t pitch;  // of a row: nodes, padded to a multiple of 8

  __host__ __device__ int64_t plane() const { return nodes * pitch; }  // [elements] of one channel
  // i and k of a position. There are at most 2^32 positions. `is_inside` is false for the padding
  // of a row and of the last tile.
  struct Edge {
    int64_t first, second;
    bool is_inside;
  };
  __device__ Edge edge(int64_t position) const {
    const int64_t first = static_cast<uint32_t>(position) / static_cast<uint32_t>(pitch);
    const int64_t second = position - first * pitch;
    return {first, second, position < plane() && second < nodes};
  }

  // [elements] of one tensor.
  __host__ __device__ int64_t batch() const { return hidden * plane(); }
};

// Whether the factors of products are times powers of two.
template <Format kFactor>
inline constexpr bool kIsScaled = kFactor == Format::kF16 || kFactor == Format::kF16x3;

// 2^exponent as two factors in the range of f32. The second is 1 if the first is enough.
struct Power {
  float first, second;

  __device__ explicit Power(int exponent) {
    const int part = min(max(exponent, -126), 126);
    first = power_of_two(part);
    second = power_of_two(min(max(exponent - part, -126), 126));
  }
  __device__ float operator()(float value) const { return value * first * second; }

  // For -126 <= exponent <= 127.
  __device__ static float power_of_two(int exponent) { return __int_as_float((127 + exponent) << 23); }
};

// The exponent that brings a magnitude to 2^14 .. 2^15; 0 for a magnitude that is 0 or not finite.
__device__ inline int exponent_for(double magnitude) {
  if (!(magnitude > 0) || isinf(magnitude)) return 0;
  return 14 - ilogb(magnitude);
}

// Host: whether four channels of x or out lie side by side, aligned.
inline bool has_vectors(const ConstTensorView& view) {
  return view.strides[3] == 1 && view.shape[3] % 4 == 0 && is_aligned_across(view, 0, 3, 16);
}

// left and right of a batch are stored times 2 to these.
struct SideScales {
  int left, right;
};

// The scales that depend on the weights alone (trimul.h): exponents of powers of two, and
// magnitudes.
struct Scales {
  int xn, z;
  int weights[6];      // in the order of the inputs from kLeftProj on, to_out last
  double left, right;  // A (trimul.h) for a mask of ones
  SideScales sides;    // without a mask
};

// The gate of the output is stored times 2^this.
template <Format kFactor>
inline constexpr int kGateExponent = kFactor == Format::kF16 ? 14 : 0;

// Both norms as the kernels read them, padded with zeros.
struct PackedNorms {
  float weight[kMostChannels], bias[kMostChannels], out_weight[kMostHidden], out_bias[kMostHidden];
};

// The weights as the kernels read them. `projections` has columns: 64 of the projection and 64 of
// its gate, side by side, for all channels of left, then of right; then the gate of the output, 128
// at a time. Resident and streamed ones have other orders (cuda_resident.cuh, cuda_streamed.cuh).
// The columns of `to_out` are ordered so that a thread has four neighbouring channels.
enum class Order { kSlots, kResident, kStreamed };
struct PackedWeights {
  const uint8_t *projections, *to_out;
  const PackedNorms* norms;
  const Scales* scales;  // null unless kIsScaled
  Order order;           // of the projections: the kernel that reads them
};

template <Format kFactor>
PackedWeights pack_weights(const Tensors& t, const Planes& planes, const Run& run,
                           DerivedTensors::Held& memory);

// The input of the steps, for batches first .. first + count - 1 of the tensors.
template <Format kFactor>
struct Job {
  using F = typename TileFactor<kFactor>::F;
  using T = Stored<kFactor>;
  const Tensors& tensors;
  PackedWeights weights;
  Planes planes;
  int64_t first, count;
  // The exponents of batch b of the tensors are sides[b * sides_step]; null unless kIsScaled.
  // hidden is stored times 2^(left + right - shift), where shift is contraction_shift.
  const SideScales* sides;
  int64_t sides_step;
  int contraction_shift;
  F *left, *right;  // second parts follow, `count` batches further
  T *hidden, *gate;
  cudaStream_t stream;
  int multiprocessors;
};

// x and the mask.
struct InputEdges {
  const float* x;
  int64_t x_batch, x_first, x_second, x_channel;  // [elements]
  bool has_vectors;
  const float* mask;  // null for a mask of ones
  int64_t mask_batch, mask_first, mask_second;
  int channels;
  float share;  // of a channel in the mean
  Planes planes;

  InputEdges(const Tensors& t, const Planes& layout)
      : x(t.x.as<float>()),
        x_batch(t.x.strides[0]),
        x_first(t.x.strides[1]),
        x_second(t.x.strides[2]),
        x_channel(t.x.strides[3]),
        has_vectors(trimul::has_vectors(t.x)),
        mask(t.mask.shape[3] == 1 ? t.mask.as<float>() : nullptr),
        mask_batch(t.mask.strides[0]),
        mask_first(t.mask.strides[1]),
        mask_second(t.mask.strides[2]),
        channels(static_cast<int>(t.x.shape[3])),
        share(1.0f / static_cast<float>(channels)),
        planes(layout) {}
  __device__ const float* address_of(int64_t batch, const Planes::Edge& edge) const {
    return x + batch * x_batch + edge.first * x_first + edge.second * x_second;
  }
  __device__ float mask_of(int64_t batch, const Planes::Edge& edge) const {
    const float* const from = mask + batch * mask_batch + edge.first * mask_first + edge.second * mask_second;
    return !edge.is_inside ? 0.0f : mask == nullptr ? 1.0f : __ldg(from);
  }
};

// What all kernels get that compute left, right and the gate of the output.
struct ProjectionInputs {
  InputEdges in;
  const PackedNorms* norms;
  const uint8_t* slots;  // of the weights
  const Scales* scales;
  const SideScales* sides;
  int64_t sides_step;
  int64_t first_batch;

  template <Format kFactor>
  explicit ProjectionInputs(const Job<kFactor>& job)
      : in(job.tensors, job.planes),
        norms(job.weights.norms),
        slots(job.weights.projections),
        scales(job.weights.scales),
        sides(job.sides),
        sides_step(job.sides_step),
        first_batch(job.first) {}
};

// Computes left, right and the gate of the output: layer_norm(x), the five projections, gates and
// mask.
template <Format kFactor>
void project(const Job<kFactor>& job);
// The same for resident and for streamed weights.
template <Format kFactor>
void project_resident(const Job<kFactor>& job);
template <Format kFactor>
void project_streamed(const Job<kFactor>& job);
// For factors in two parts a tensor core sums the products of first parts over terms_at_once()
// terms, a multiple of kTermsStep. f32 then adds up these sums. A tensor core truncates each
// addition, so a sum loses the more, the more terms it has. After each part tensor cores wait.
inline constexpr int64_t kTermsStep = 64;
inline int64_t terms_at_once(int64_t nodes) {
  const int64_t most = kMostTerms.value(), parts = (nodes + most - 1) / most;
  return (nodes + parts * kTermsStep - 1) / (parts * kTermsStep) * kTermsStep;
}
// hidden[i,j] = sum_k left[i,k] right[j,k] for each channel. For compute capability 9.0.
void contract_parts(const Job<Format::kF16x3>& job);
// layer_norm(hidden), the gate, and the projection to out.
template <Format kFactor>
void finish(const Job<kFactor>& job);
// The same if hidden has at most 128 channels, but some, and planes have less than 2^31 positions.
// Otherwise it returns false and does nothing.
template <Format kFactor>
bool finish_resident(const Job<kFactor>& job);

// If a sum of squares comes near the end of the range of f32, deviations are scaled down first.
inline constexpr float kScaleOfLarge = 0x1p-80f;
__device__ inline bool is_large(float squares) {
  return !(squares < 0x1p126f);
}

// 1 / sqrt(variance + eps), as a factor of deviations. `squares` is the sum of the squares of
// deviations times `scale`, `share` is one over their number.
__device__ inline float reciprocal_deviation(float squares, float share, float scale) {
  return scale * reciprocal_root(fmaf(squares, share, static_cast<float>(kEpsilon) * scale * scale));
}

}  // namespace assay::trimul
