// SPDX-License-Identifier: Apache-2.0
// What the CPU paths of the Cheri ops share apart from vectors: how an example lies in memory,
// statistics of runs of it and how they are merged, and how an example is normalised. None of this
// depends on the instruction set.
//
// An example is a run of L*C elements, position after position. A tensor with another layout is
// packed first.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <type_traits>

#include "kernels/cheri/cheri.h"
#include "kernels/core/op.h"
#include "kernels/core/tensor.h"
#include "kernels/core/threshold.h"

namespace assay::cheri {

// Lanes of the widest vector.
inline constexpr int64_t kMostLanes = 16;
inline constexpr int64_t kMostTwo = 2 * kMostLanes;  // of two vectors

// [elements] Deviations within a run are summed about one of its elements. Such a sum loses at most
// a factor kRun of precision, which f64 has to spare.
inline constexpr int64_t kRun = 4096;

inline constexpr Threshold kRunThreshold{kRun, 64};

// [elements] One thread computes the statistics of a chunk, some runs. Chunks decide the order of
// all sums over an example.
inline constexpr int64_t kChunk = 16 * kRun;
inline constexpr Threshold kChunkThreshold{kChunk, 256};

struct Geometry {
  Geometry(const Extents& shape, int64_t dilation)
      : examples(shape[0]),
        positions(shape[1]),
        channels(shape[2]),
        size(positions * channels),
        shift(dilation >= positions ? size : dilation * channels),
        run(kRunThreshold.value()),
        chunk(kChunkThreshold.value()),
        chunks((size + chunk - 1) / chunk),
        period(period_of(channels, size)) {}

  // The period is a multiple of C, so that the taps repeat. It is also a multiple of the lanes of
  // two vectors, or at least of one, unless it would then be longer than an example or too long.
  static int64_t period_of(int64_t channels, int64_t size) {
    constexpr int64_t kLeast = 256, kLong = 2048;
    if (channels > kLong || size == 0) return channels;
    for (int64_t lanes : {kMostTwo, kMostLanes}) {
      const int64_t whole = std::lcm(channels, lanes);
      if (whole <= std::min(kLong, size)) {
        return whole * std::min((kLeast + whole - 1) / whole, size / whole);
      }
    }
    return channels;
  }

  // Whether vectors can go by two: no period ends within them.
  bool by_two() const { return period > 0 && period % kMostTwo == 0; }
  // Whether all of them can: neither an example nor an edge of it ends within two vectors.
  bool all_by_two() const { return by_two() && size % kMostTwo == 0 && shift % kMostTwo == 0; }

  Dims dims(int64_t dilation) const {
    return {{kN, examples}, {kL, positions}, {kC, channels}, {kDilation, dilation}};
  }

  int64_t examples;
  int64_t positions;
  int64_t channels;
  int64_t size;    // elements of an example
  int64_t shift;   // elements to the neighbours of an element; `size` without any
  int64_t run;     // [elements] at most kRun
  int64_t chunk;   // [elements]
  int64_t chunks;  // of an example
  int64_t period;  // of the taps, in elements
};

// Statistics of a run of values. Their functions are compiled once, for one instruction set. If
// they were inlined, a product and a sum might become one operation, and the bits would depend on
// the caller.
struct Moments {
  double count = 0;
  double mean = 0;
  double squares = 0;  // sum of the squared deviations from the mean

  // `sum` and `sum_squares` are sums of the deviations from `about` and of their squares.
  static Moments of(int64_t count, double about, double sum, double sum_squares);
  // Becomes the statistics of both runs [Chan, Golub, LeVeque 1979].
  void add(const Moments& other);
};

// Statistics of a run of the convolution and of dy.
struct GradMoments {
  // `sum_product` is the sum of dy times the deviations from `about`.
  static GradMoments of(const Moments& conv, double about, double sum_dy, double sum_product,
                        float largest_dy);
  void add(const GradMoments& other);

  Moments conv;
  double dy = 0;       // sum
  double product = 0;  // sum of dy times the deviations from the mean
  float largest_dy = 0;
};

// A power of two that brings values of this size near 1, if sums of two of them or their last bits
// would leave the range of f32.
inline float scale_of(double size) {
  if (size > 0x1p90) return 0x1p-32f;
  return size < 0x1p-80 ? 0x1p64f : 1.0f;
}

// A number as the sum of two f32. `low` of an infinity or a NaN is NaN, and so is every value from
// which such a mean is subtracted: one element makes its whole example NaN.
struct Split {
  explicit Split(double value)
      : high(static_cast<float>(value)), low(static_cast<float>(value - static_cast<double>(high))) {}
  Split() = default;
  float high = 0;
  float low = 0;
};

// y = ((conv * scale - mean.high) - mean.low) * rstd. The first difference is exact if it cancels,
// so a mean of any size adds no error.
struct Norm {
  Norm() = default;
  explicit Norm(const Moments& moments);
  // Whether it makes its whole example NaN.
  bool is_nan() const { return std::isnan(mean.low) || std::isnan(rstd); }

  float scale = 1;
  Split mean;      // times scale
  float rstd = 0;  // divided by scale
};

// dconv = (((dy * scale - mean_dy.high) - mean_dy.low) - y * slope) * rstd
struct GradNorm {
  GradNorm() = default;
  explicit GradNorm(const GradMoments& moments);
  bool is_nan() const { return norm.is_nan() || std::isnan(mean_dy.low); }

  Norm norm;
  float scale = 1;
  Split mean_dy;    // times scale
  float slope = 0;  // the mean of dy * y, times scale
  float rstd = 0;   // divided by scale
};

// The places of the elements of a tensor (N, L, C).
template <class T>
struct Examples {
  template <class View>
  explicit Examples(const View& view)
      : data(view.template as<std::remove_const_t<T>>()),
        channels(view.shape[2]),
        stride_n(view.strides[0]),
        stride_l(view.strides[1]),
        stride_c(view.strides[2]),
        is_dense((stride_c == 1 || channels == 1) && (stride_l == channels || view.shape[1] == 1)) {}

  T* data;
  int64_t channels;
  int64_t stride_n, stride_l, stride_c;
  bool is_dense;  // each example by itself

  T* operator[](int64_t n) const { return data + n * stride_n; }

  // Calls fn(place in the tensor, position in [begin, end)) for the elements [begin, end) of an
  // example.
  template <class Fn>
  void for_each(int64_t begin, int64_t end, Fn&& fn) const {
    for (int64_t at = begin; at < end;) {
      const int64_t c = at % channels;
      const int64_t here = at / channels * stride_l + c * stride_c;
      const int64_t count = std::min(channels - c, end - at);
      for (int64_t i = 0; i < count; ++i) fn(here + i * stride_c, at + i - begin);
      at += count;
    }
  }

  void pack(int64_t n, int64_t begin, int64_t end, std::remove_const_t<T>* to) const {
    const T* from = (*this)[n];
    for_each(begin, end, [&](int64_t here, int64_t i) { to[i] = from[here]; });
  }
  // One NaN for all elements. Which of several NaNs a sum would pass on depends on the instructions
  // that a compiler chooses.
  void fill_with_nan(int64_t n, int64_t begin, int64_t end) const {
    T* to = (*this)[n];
    const T nan = from_double<T>(std::numeric_limits<double>::quiet_NaN());
    for_each(begin, end, [&](int64_t here, int64_t) { to[here] = nan; });
  }
  void unpack(int64_t n, int64_t begin, int64_t end, const T* from) const {
    T* to = (*this)[n];
    for_each(begin, end, [&](int64_t here, int64_t i) { to[here] = from[i]; });
  }
};

// [bytes] The memory that pack_examples() needs; 0 if nothing is to be packed.
int64_t packed_bytes(const ConstTensorView& view);

// The tensor itself if its examples are dense, else a copy in `memory`.
ConstTensorView pack_examples(const ConstTensorView& view, void* memory);

// Taps as f32, side by side and repeated. Tap k of element i of an example is at k * pitch + i %
// period. The taps of the elements after it follow, as many as a vector has. Behind all of them
// stand the same taps in the order in which two vectors hold their elements.
struct Taps {
  static int64_t pitch(const Geometry& geometry) { return geometry.period + kMostLanes; }
  static int64_t bytes(const Geometry& geometry) { return 6 * pitch(geometry) * int64_t{sizeof(float)}; }
};

}  // namespace assay::cheri
