// SPDX-License-Identifier: Apache-2.0
// The gradient of the convolution, vector by vector, for the CPU path of cheri_conv_norm_grad:
// statistics of the convolution and of dy, dconv, and from it dx and the sums of dw.
//
// Included once per instruction set, after kernels/core/simd-inl.h, which arranges that.
#if defined(ASSAY_KERNELS_CHERI_CPU_GRAD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ASSAY_KERNELS_CHERI_CPU_GRAD_INL_H
#undef ASSAY_KERNELS_CHERI_CPU_GRAD_INL_H
#else
#define ASSAY_KERNELS_CHERI_CPU_GRAD_INL_H
#endif

#include <algorithm>
#include <cstdint>

#include "kernels/cheri/cheri.h"
#include "kernels/cheri/conv_norm/cpu_conv-inl.h"
#include "kernels/cheri/conv_norm/cpu_jobs.h"
#include "kernels/core/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace assay::cheri {
namespace HWY_NAMESPACE {
namespace {

// Sums over deviations of the convolution and over dy.
template <class T>
struct GradSums {
  GradSums(double about, const T* example) : conv(about), dy(example) {
    sum = zero_f64();
    product = zero_f64();
    largest = hn::Zero(F32());
  }

  HWY_INLINE void add(V32 values, V32 gradient) {
    const Wide deviation = conv.deviation(values);
    const Wide wide = to_f64(gradient);
    conv.add(deviation);
    for (int i = 0; i < kParts; ++i) {
      sum.part[i] = hn::Add(sum.part[i], wide.part[i]);
      product.part[i] = hn::MulAdd(wide.part[i], deviation.part[i], product.part[i]);
    }
    largest = hn::Max(largest, hn::Abs(gradient));
  }
  HWY_INLINE void whole(int64_t at, V32 values) {
    prefetch<kLanes>(ahead_of(dy + at));
    add(values, load(dy + at));
  }
  HWY_INLINE void two(int64_t at, V32 first, V32 second) {
    prefetch<kTwo>(ahead_of(dy + at));
    V32 gradient[2];
    load_two(dy + at, gradient[0], gradient[1]);
    add(first, gradient[0]);
    add(second, gradient[1]);
  }
  void part(int64_t at, V32 values, int64_t count) {
    T last[kLanes] = {};
    add(conv.instead(values, count), load(fill_up(dy + at, count, last)));
  }

  Deviations conv;
  const T* dy;
  Wide sum, product;
  V32 largest;
};

template <class T>
GradMoments chunk_grad_moments(const Source<T>& source, const T* dy, int64_t number) {
  GradMoments moments;
  const int64_t end = std::min((number + 1) * source.chunk, source.size);
  for (int64_t at = number * source.chunk; at < end; at += source.run) {
    const int64_t run_end = std::min(at + source.run, end);
    const double about = convolution_at(source, at);
    GradSums<T> sums(about, dy);
    for_convolution(source, at, run_end, sums);
    const auto conv = Moments::of(run_end - at, about, sum_of(sums.conv.sum), sum_of(sums.conv.squares));
    moments.add(GradMoments::of(conv, about, sum_of(sums.sum), sum_of(sums.product),
                                hn::GetLane(hn::MaxOfLanes(F32(), sums.largest))));
  }
  return moments;
}

// Computes dconv, in whole vectors that may reach beyond the last element. Where vectors go by two,
// dconv keeps the order of their elements, so that all that reads it must go by two.
template <class T>
struct WriteDconv {
  WriteDconv(const GradNorm& grad, const T* dy_example, float* dconv_example)
      : normalise(grad.norm),
        scale(hn::Set(F32(), grad.scale)),
        high(hn::Set(F32(), grad.mean_dy.high)),
        low(hn::Set(F32(), grad.mean_dy.low)),
        slope(hn::Set(F32(), grad.slope)),
        rstd(hn::Set(F32(), grad.rstd)),
        dy(dy_example),
        dconv(dconv_example) {}

  HWY_INLINE void write(int64_t at, V32 conv, V32 gradient) {
    const V32 centred = hn::Sub(hn::MulSub(gradient, scale, high), low);
    const V32 across = hn::NegMulAdd(normalise(conv), slope, centred);
    hn::StoreU(hn::Mul(across, rstd), F32(), dconv + at);
  }
  HWY_INLINE void whole(int64_t at, V32 conv) { write(at, conv, load(dy + at)); }
  HWY_INLINE void two(int64_t at, V32 first, V32 second) {
    V32 gradient[2];
    load_two(dy + at, gradient[0], gradient[1]);
    write(at, first, gradient[0]);
    write(at + kLanes, second, gradient[1]);
  }
  void part(int64_t at, V32 conv, int64_t count) {
    T last[kLanes] = {};
    write(at, conv, load(fill_up(dy + at, count, last)));
  }

  Normalise normalise;
  V32 scale, high, low, slope, rstd;
  const T* dy;
  float* dconv;
};

// Writes dx: to its place, or through a buffer if the example is not dense.
template <class T>
struct Target {
  Examples<T> dx;
  int64_t n;
  T* dense;     // the example, or null
  bool stream;  // past the caches

  Target(const GradJob& job, int64_t example) : dx(job.dx), n(example), dense(dx.is_dense ? dx[n] : nullptr) {
    const bool are_vectors = job.geometry.period % kLanes == 0;
    stream = job.stream && dense != nullptr && are_vectors &&
             reinterpret_cast<uintptr_t>(dense) % kStreamAlignment<T> == 0;
  }
  void write_part(int64_t at, V32 v, int64_t count) const {
    T last[kLanes] = {};
    store(v, last, false);
    dx.unpack(n, at, at + count, last);
  }
  HWY_INLINE void write(int64_t at, V32 v) const {
    if (HWY_LIKELY(dense != nullptr)) {
      store(v, dense + at, stream);
    } else {
      write_part(at, v, kLanes);
    }
  }
  HWY_INLINE void write_two(int64_t at, V32 first, V32 second) const {
    if (HWY_LIKELY(dense != nullptr)) {
      store_two(first, second, dense + at, stream);
    } else {
      T two[kTwo];
      store_two(first, second, two, false);
      dx.unpack(n, at, at + kTwo, two);
    }
  }
};

// Sums of dconv * x for kVectors * kLanes places of a row. Two vectors are in the order of
// load_two(). There are three sums: x is a tap before, at or after the element of dconv.
template <int kVectors>
struct TapSums {
  V32 sum[3][kVectors];
  TapSums() {
    for (auto& tap : sum) {
      for (V32& v : tap) v = hn::Zero(F32());
    }
  }
};

// Adds the vectors at `at`, at + stride, ..., before `end`. All have the same neighbours.
template <bool kLeft, bool kRight, int kVectors, class T>
HWY_INLINE void grad_rows(const Source<T>& source, const float* dconv, const Target<T>& target, int64_t at,
                          int64_t end, int64_t stride, const float* taps, TapSums<kVectors>& all) {
  const F32 f32;
  const Source<T> from = source;
  const Target<T> to = target;
  TapSums<kVectors> sums = all;  // copies that stay in registers
  V32 tap[3][kVectors], x[kVectors], dx[kVectors];
  for (int k = 0; k < 3; ++k) {
    for (int v = 0; v < kVectors; ++v) tap[k][v] = hn::LoadU(f32, taps + k * from.pitch + v * kLanes);
  }
  for (; at < end; at += stride) {
    if constexpr (kVectors == 2) {
      load_two(from.x + at, x[0], x[1]);
    } else {
      x[0] = load(from.x + at);
    }
    HWY_UNROLL(2)
    for (int v = 0; v < kVectors; ++v) {
      const float* here = dconv + at + v * kLanes;
      const V32 centre = hn::LoadU(f32, here);
      dx[v] = hn::Mul(centre, tap[1][v]);
      sums.sum[1][v] = hn::MulAdd(centre, x[v], sums.sum[1][v]);
      if constexpr (kRight) {
        const V32 right = hn::LoadU(f32, here + from.shift);
        dx[v] = hn::MulAdd(right, tap[0][v], dx[v]);
        sums.sum[0][v] = hn::MulAdd(right, x[v], sums.sum[0][v]);
      }
      if constexpr (kLeft) {
        const V32 left = hn::LoadU(f32, here - from.shift);
        dx[v] = hn::MulAdd(left, tap[2][v], dx[v]);
        sums.sum[2][v] = hn::MulAdd(left, x[v], sums.sum[2][v]);
      }
    }
    if constexpr (kVectors == 2) {
      to.write_two(at, dx[0], dx[1]);
    } else {
      to.write(at, dx[0]);
    }
  }
  all = sums;
}

// The same for one vector with `count` elements and any neighbours.
template <class T>
HWY_NOINLINE void grad_part(const Source<T>& source, const float* dconv, const Target<T>& target, int64_t at,
                            int64_t count, const float* taps, V32* before, V32* centre, V32* after) {
  const F32 f32;
  const Neighbours neighbours(at, count, source.size, source.shift);
  T x_lanes[kLanes] = {};
  float lanes[3][kLanes] = {};
  for (int64_t i = 0; i < count; ++i) {
    lanes[1][i] = dconv[at + i];
    if (neighbours.has_right(i)) lanes[0][i] = dconv[at + i + source.shift];
    if (neighbours.has_left(i)) lanes[2][i] = dconv[at + i - source.shift];
  }
  const V32 x = load(fill_up(source.x + at, count, x_lanes));
  const auto add = [&](V32& sum, const float* from) { sum = hn::MulAdd(hn::LoadU(f32, from), x, sum); };
  const auto product = [&](const float* from, int k, V32 sum) {
    return hn::MulAdd(hn::LoadU(f32, from), hn::LoadU(f32, taps + k * source.pitch), sum);
  };
  V32 dx = hn::Mul(hn::LoadU(f32, lanes[1]), hn::LoadU(f32, taps + source.pitch));
  add(*centre, lanes[1]);
  const V32 before_sum = *before, after_sum = *after;
  add(*before, lanes[0]);
  add(*after, lanes[2]);
  *before = hn::IfThenElse(neighbours.right_mask(), *before, before_sum);
  *after = hn::IfThenElse(neighbours.left_mask(), *after, after_sum);
  dx = hn::IfThenElse(neighbours.right_mask(), product(lanes[0], 0, dx), dx);
  dx = hn::IfThenElse(neighbours.left_mask(), product(lanes[2], 2, dx), dx);
  target.write_part(at, dx, count);
}

HWY_INLINE void add_to(V32 v, double* to) {
  const Wide wide = to_f64(v);
  constexpr int kStep = kLanes / kParts;
  for (int i = 0; i < kParts; ++i) {
    hn::StoreU(hn::Add(hn::LoadU(F64(), to + i * kStep), wide.part[i]), F64(), to + i * kStep);
  }
}

// Adds kVectors vectors, from place `column` on, of the rows [begin, end), at most kSumGroup rows.
// The sums of a part begin at `sums`.
template <int kVectors, class T>
void grad_columns(const Source<T>& source, const float* dconv, const Target<T>& target, int64_t begin,
                  int64_t end, int64_t column, double* sums) {
  constexpr int64_t kWidth = kVectors * kLanes;
  const int64_t row = source.period;
  const float* taps = (kVectors == 2 ? source.taps_of_two : source.taps) + column;
  TapSums<kVectors> all;
  for (int64_t r = begin; r < end;) {
    const int64_t at = r * row + column;
    const bool has_left = at >= source.shift;
    const int64_t before_right_edge = source.size - source.shift - at;
    const bool has_right = before_right_edge >= kWidth;
    if constexpr (kVectors == 1) {
      const bool is_part = at + kWidth > source.size || column + kWidth > row ||
                           (!has_left && at + kWidth > source.shift) || (!has_right && before_right_edge > 0);
      if (is_part) {
        const int64_t count = std::min({int64_t{kLanes}, source.size - at, row - column});
        if (count > 0) {
          grad_part(source, dconv, target, at, count, taps, &all.sum[0][0], &all.sum[1][0], &all.sum[2][0]);
        }
        ++r;
        continue;
      }
    } else if (at >= source.size) {
      break;
    }
    // Rows until a vector leaves the example or an edge of it.
    const auto until = [&](int64_t elements) { return (elements - kWidth) / row + 1; };
    int64_t rows = std::min(end - r, until(source.size - at));
    if (!has_left) rows = std::min(rows, until(source.shift - at));
    if (has_right) rows = std::min(rows, until(before_right_edge));
    const int64_t stop = at + rows * row;
    if (has_left && has_right) {
      grad_rows<true, true>(source, dconv, target, at, stop, row, taps, all);
    } else if (has_left) {
      grad_rows<true, false>(source, dconv, target, at, stop, row, taps, all);
    } else if (has_right) {
      grad_rows<false, true>(source, dconv, target, at, stop, row, taps, all);
    } else {
      grad_rows<false, false>(source, dconv, target, at, stop, row, taps, all);
    }
    r += rows;
  }
  for (int k = 0; k < 3; ++k) {
    float lanes[kWidth];
    if constexpr (kVectors == 2) {
      put_in_order<T>(all.sum[k][0], all.sum[k][1], lanes);
    } else {
      hn::StoreU(all.sum[k][0], F32(), lanes);
    }
    double* to = sums + k * row + column;
    for (int64_t i = 0; i < std::min(kWidth, row - column); ++i) to[i] += static_cast<double>(lanes[i]);
  }
}

// Adds the rows [begin, end), at most kSumGroup of them.
template <class T>
void grad_group(const Source<T>& source, const float* dconv, const Target<T>& target, int64_t begin,
                int64_t end, double* sums) {
  if (source.taps_of_two != nullptr) {
    for (int64_t column = 0; column < source.period; column += kTwo) {
      grad_columns<2>(source, dconv, target, begin, end, column, sums);
    }
  } else {
    for (int64_t column = 0; column < source.period; column += kLanes) {
      grad_columns<1>(source, dconv, target, begin, end, column, sums);
    }
  }
}

// Computes dconv of [begin, end).
template <class T>
void compute_dconv(const Source<T>& source, const T* dy, const GradNorm& norm, int64_t begin, int64_t end,
                   float* dconv) {
  WriteDconv<T> write(norm, dy, dconv);
  for_convolution(source, begin, end, write);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace assay::cheri
HWY_AFTER_NAMESPACE();

#endif  // ASSAY_KERNELS_CHERI_CPU_GRAD_INL_H
