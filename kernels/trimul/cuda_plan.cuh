// SPDX-License-Identifier: Apache-2.0
// What the CUDA kernels of trimul share: how intermediate tensors lie in memory, and powers of two that scale what f16
// stores.
//
// left, right, hidden and the gate of the output lie channel by channel: (batch, h, i, k), with rows of k filled up to a
// multiple of 8, which nothing uses. A tile of edges is a run of positions i * pitch + k of one
// batch.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/core/dtype.h"
#include "kernels/core/op.h"
#include "kernels/core_cuda/tile_product.cuh"
#include "kernels/trimul/cuda_limits.h"
#include "kernels/trimul/trimul.h"

namespace assay::trimul {

inline constexpr int kStagedHidden = 64;  // channels that leave the first kernel at once

// Sizes of the intermediate tensors.
struct Planes {
  int64_t nodes, hidden;
  int64_t pitch;  // of a row: nodes, filled up to a multiple of 8

  __host__ __device__ int64_t plane() const { return nodes * pitch; }  // [elements] of one channel
  // i and k of a position, of which there are 2^32 at most; `is_inside` unless it only fills up a row or the last tile.
  struct Edge {
    int64_t first, second;
    bool is_inside;
  };
  __device__ Edge edge(int64_t position) const {
    const int64_t first = static_cast<uint32_t>(position) / static_cast<uint32_t>(pitch);
    const int64_t second = position - first * pitch;
    return {first, second, position < plane() && second < nodes};
  }

  __host__ __device__ int64_t batch() const { return hidden * plane(); }  // [elements] of one tensor
};

// 2^exponent as two factors, so that neither of them leaves the range of f32; the second is 1 unless it has to be another.
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

// The exponent that brings a magnitude to 2^14 .. 2^15; 0 for one that is 0 or not finite.
__device__ inline int exponent_for(double magnitude) {
  if (!(magnitude > 0) || isinf(magnitude)) return 0;
  return 14 - ilogb(magnitude);
}

// Exponents of what left and right are stored times, in one batch.
struct SideScales {
  int left, right;
};

// The scales that depend on the weights alone (trimul.h): exponents of what is stored, and magnitudes.
struct Scales {
  int xn, z;
  int weights[6];      // as the inputs from kLeftProj on, to_out last
  double left, right;  // A, but for the mask
  SideScales sides;    // where there is no mask
};

inline constexpr int kGateExponent = 14;

// Both norms as the kernels read them, filled up with zeros.
struct PackedNorms {
  float weight[kMostChannels], bias[kMostChannels], out_weight[kMostHidden], out_bias[kMostHidden];
};

// The weights as the kernels read them. Columns of `projections`: 64 of the projection and 64 of the gate, side by side,
// for all channels of left, then of right; then 128 at a time of the gate of the output. Those of `to_out` are in the
// order in which a thread has four neighbours of them.
struct PackedWeights {
  const uint8_t *projections, *to_out;
  const PackedNorms* norms;
  const Scales* scales;  // null but for f16
};

template <Factor kFactor>
PackedWeights pack_weights(const Tensors& t, const Run& run, DerivedTensors::Held& memory);

// What the steps are given, for batches first .. first + count - 1 of the tensors.
template <Factor kFactor>
struct Job {
  using T = Stored<kFactor>;
  const Tensors& tensors;
  PackedWeights weights;
  Planes planes;
  int64_t first, count;
  // Null but for f16: of batch b of the tensors, sides[b * sides_step]. hidden is stored times 2^(left + right - shift).
  const SideScales* sides;
  int64_t sides_step;
  int contraction_shift;
  T *left, *right;  // with their rests behind them, `count` batches further
  T *hidden, *gate;
  cudaStream_t stream;
};

// layer_norm(x), the five projections, gates and mask: left, right and the gate of the output.
template <Factor kFactor>
void project(const Job<kFactor>& job);
// A tensor core sums left's first parts times right's over so many k, a multiple of kTermsStep, and these sums are added up
// in f32: a tensor core truncates each addition, so that what a sum loses grows with its terms. More parts would lose less,
// but all of hidden is read and written again for each of them.
inline constexpr int64_t kTermsStep = 32, kMostTerms = 512;
constexpr int64_t terms_at_once(int64_t nodes) {
  const int64_t parts = (nodes + kMostTerms - 1) / kMostTerms;
  return (nodes + parts * kTermsStep - 1) / (parts * kTermsStep) * kTermsStep;
}
// hidden[i,j] = sum_k left[i,k] right[j,k] for each channel, for compute capability 9.0.
void contract_split(const Job<Factor::kTF32x3>& job, int multiprocessors);
// layer_norm(hidden), the gate, and the projection to out.
template <Factor kFactor>
void finish(const Job<kFactor>& job);

// 2^kExponent times the sigmoids of 32 values g in f32, from g * `exponent` = -g / ln 2. Each is right to
// 4u + (4 + 2|g|) u (1 - sigmoid) of itself, in pairs 5u + ...
//
// In pairs 1 / (ab) serves both: 1/a = b / (ab), which the error of b leaves alone. That costs two roundings more, and
// saves one in four of the instructions that a multiprocessor has the fewest units for. ab stays in range, since sigmoids
// are 2^-60 at least: for factors of f16, which are 0 below 2^-39 of the largest. A NaN makes its neighbour in the pair one,
// of the same edge, whose channels all are NaN after the next norm.
template <bool kInPairs, int kExponent = 0>
__device__ void sigmoids(const float* g, float exponent, float (&results)[32]) {
  constexpr float kPart = 1.0f / (1 << kExponent);  // of the sum
  const auto reciprocal = [](float value) {
    float result;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value));
    return result;
  };
  // 1 / sigmoid
  const auto sum = [&](float value) {
    float power = value * exponent;
    if constexpr (kInPairs) asm("min.NaN.f32 %0, %0, 0f42700000;" : "+f"(power));  // 60
    asm("ex2.approx.ftz.f32 %0, %0;" : "+f"(power));
    return fmaf(power, kPart, kPart);
  };
#pragma unroll
  for (int i = 0; i < 32; i += 2) {
    const float a = sum(g[i]), b = sum(g[i + 1]);
    if constexpr (kInPairs) {
      const float both = reciprocal(a * b);
      results[i] = both * b;
      results[i + 1] = both * a;
    } else {
      results[i] = reciprocal(a);
      results[i + 1] = reciprocal(b);
    }
  }
}
inline constexpr float kMinusLog2E = -1.442695041f;

// Where sums of squares come near the end of the range of f32, deviations are made smaller first.
inline constexpr float kScaleOfLarge = 0x1p-80f;
__device__ inline bool is_large(float squares) {
  return !(squares < 0x1p126f);
}

// 1 / sqrt(value), right to 2.2u of itself; `value` is not subnormal.
__device__ inline float reciprocal_root(float value) {
  float result;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value));
  return result;
}

// 1 / sqrt(variance + eps), as a factor of deviations, from the mean of their scaled squares.
__device__ inline float reciprocal_deviation(float mean_square, float scale) {
  return scale * reciprocal_root(mean_square + static_cast<float>(kEpsilon) * scale * scale);
}

}  // namespace assay::trimul
