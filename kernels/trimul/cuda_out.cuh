// SPDX-License-Identifier: Apache-2.0
// How a warpgroup writes out. A thread has sums of two edges (core_cuda/tile_product.cuh). The
// columns of to_out are ordered so that they are four neighbouring channels at a time.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/trimul/cuda_plan.cuh"

namespace assay::trimul {

struct Out {
  float* data;
  int64_t batch, first, second, channel;  // [elements]
  int channels;
  bool has_vectors;

  explicit Out(const TensorView& out)
      : data(out.as<float>()),
        batch(out.strides[0]),
        first(out.strides[1]),
        second(out.strides[2]),
        channel(out.strides[3]),
        channels(static_cast<int>(out.shape[3])),
        has_vectors(trimul::has_vectors(out)) {}

  // The channels of an edge; null without one.
  __device__ float* row(int64_t in_batch, const Planes::Edge& edge) const {
    return edge.is_inside ? data + in_batch * batch + edge.first * first + edge.second * second : nullptr;
  }

  // Writes kSlotColumns channels of two rows, from `start` on. `unscale` is for scaled factors.
  template <Format kFactor>
  __device__ void write(float (&sums)[64], const Power& unscale, float* const (&rows)[2], int start) const {
    if constexpr (kIsScaled<kFactor>) {
#pragma unroll
      for (float& sum : sums) sum *= unscale.first;
      if (unscale.second != 1) {
#pragma unroll
        for (float& sum : sums) sum *= unscale.second;
      }
    }
    const auto for_each_four = [&](auto store) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (rows[half] == nullptr) continue;
#pragma unroll
        for (int j = 0; j < 8; ++j) {
          const float* const s = sums + 8 * j + 2 * half;
          const float values[4] = {s[0], s[1], s[4], s[5]};
          store(rows[half], start + 16 * j + static_cast<int>(threadIdx.x % 4) * 4, values);
        }
      }
    };
    if (has_vectors) {
      for_each_four([&](float* to, int at, const float(&values)[4]) {
        if (at >= channels) return;
        __stcs(reinterpret_cast<float4*>(to + at), float4{values[0], values[1], values[2], values[3]});
      });
    } else {
      for_each_four([&](float* to, int at, const float(&values)[4]) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          if (at + e < channels) __stcs(to + (at + e) * channel, values[e]);
        }
      });
    }
  }
};

// What both last kernels get.
struct FinishInputs {
  const PackedNorms* norms;
  const uint8_t* slots;  // of to_out
  const Scales* scales;
  const SideScales* sides;
  int64_t sides_step;
  int contraction_shift;
  int chunks;  // of kSlotColumns channels of out
  Out out;
  Planes planes;
  int64_t first_batch;

  template <Format kFactor>
  explicit FinishInputs(const Job<kFactor>& job)
      : norms(job.weights.norms),
        slots(job.weights.to_out),
        scales(job.weights.scales),
        sides(job.sides),
        sides_step(job.sides_step),
        contraction_shift(job.contraction_shift),
        chunks(static_cast<int>((job.tensors.out.shape[3] + kSlotColumns - 1) / kSlotColumns)),
        out(job.tensors.out),
        planes(job.planes),
        first_batch(job.first) {}
};

}  // namespace assay::trimul
