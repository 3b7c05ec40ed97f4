// SPDX-License-Identifier: Apache-2.0
#include "kernels/cheri/conv_norm/cpu_example.h"

#include <cmath>

#include "kernels/cheri/cheri.h"
#include "kernels/core/parallel.h"
#include "kernels/core/specialise.h"

namespace assay::cheri {

Moments Moments::of(int64_t count, double about, double sum, double sum_squares) {
  const auto n = static_cast<double>(count);
  const double squares = sum_squares - sum * (sum / n);
  return {n, about + sum / n, squares < 0 ? 0 : squares};
}

void Moments::add(const Moments& other) {
  if (count == 0) {
    *this = other;
    return;
  }
  if (other.count == 0) return;
  const double both = count + other.count;
  const double apart = other.mean - mean;
  mean += apart * (other.count / both);
  squares += other.squares + apart * apart * (count / both * other.count);
  count = both;
}

Norm::Norm(const Moments& moments) {
  const double variance = moments.squares / moments.count;
  scale = scale_of(std::max(std::abs(moments.mean), std::sqrt(variance)));
  mean = Split(moments.mean * static_cast<double>(scale));
  rstd = static_cast<float>(1 / std::sqrt(variance + kEpsilon) / static_cast<double>(scale));
}

GradMoments GradMoments::of(const Moments& conv, double about, double sum_dy, double sum_product,
                            float largest_dy) {
  GradMoments moments;
  moments.conv = conv;
  moments.dy = sum_dy;
  moments.product = sum_product + (about - conv.mean) * sum_dy;
  moments.largest_dy = largest_dy;
  return moments;
}

void GradMoments::add(const GradMoments& other) {
  const double mean = conv.mean;
  conv.add(other.conv);
  product += other.product + (mean - conv.mean) * dy + (other.conv.mean - conv.mean) * other.dy;
  dy += other.dy;
  largest_dy = std::max(largest_dy, other.largest_dy);
}

GradNorm::GradNorm(const GradMoments& moments)
    : norm(moments.conv), scale(scale_of(static_cast<double>(moments.largest_dy))) {
  const double count = moments.conv.count;
  const double exact_rstd = 1 / std::sqrt(moments.conv.squares / count + kEpsilon);
  const auto wide_scale = static_cast<double>(scale);
  mean_dy = Split(moments.dy / count * wide_scale);
  slope = static_cast<float>(moments.product / count * exact_rstd * wide_scale);
  rstd = static_cast<float>(exact_rstd / wide_scale);
}

int64_t packed_bytes(const ConstTensorView& view) {
  const int64_t bytes = view.size() * static_cast<int64_t>(size_of(view.dtype));
  int64_t packed = 0;
  visit_storage(view.dtype, [&]<class T>(std::type_identity<T>) {
    packed = Examples<const T>(view).is_dense ? 0 : bytes;
  });
  return packed;
}

ConstTensorView pack_examples(const ConstTensorView& view, void* memory) {
  if (packed_bytes(view) == 0) return view;
  const ConstTensorView packed{memory, view.dtype, view.shape, dense_strides(view.shape)};
  const int64_t positions = view.shape[1], channels = view.shape[2];
  // Rows that share the cache lines of a transposed tensor.
  constexpr int64_t kRows = 64;
  const int64_t blocks = (positions + kRows - 1) / kRows;
  visit_storage(view.dtype, [&]<class T>(std::type_identity<T>) {
    const Examples<const T> from(view);
    const int64_t grain = std::max<int64_t>(kChunk / (std::min(positions, kRows) * channels), 1);
    parallel_for(view.shape[0] * blocks, grain, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        const int64_t n = block / blocks, first = block % blocks * kRows;
        const int64_t last = std::min(first + kRows, positions);
        T* to = static_cast<T*>(memory) + n * positions * channels;
        if (from.stride_c <= from.stride_l) {
          from.pack(n, first * channels, last * channels, to + first * channels);
          continue;
        }
        for (int64_t c = 0; c < channels; ++c) {
          const T* column = from[n] + c * from.stride_c;
          for (int64_t l = first; l < last; ++l) to[l * channels + c] = column[l * from.stride_l];
        }
      }
    });
  });
  return packed;
}

}  // namespace assay::cheri
