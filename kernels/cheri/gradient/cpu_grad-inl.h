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

// Computes dconv, in whole vectors that may reach beyond the last element.
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
             reinterpret_cast<uintptr_t>(dense) % (kLanes * sizeof(T)) == 0;
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
};

// Sums of dconv * x for kVectors * kLanes places of a row. There are three: x is a tap before, at
// or after the element of dconv.
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
  TapSums<kVectors> sums = all;
  V32 tap[3][kVectors];
  for (int k = 0; k < 3; ++k) {
    for (int v = 0; v < kVectors; ++v) tap[k][v] = hn::LoadU(f32, taps + k * source.pitch + v * kLanes);
  }
  for (; at < end; at += stride) {
    HWY_UNROLL(4)  // so that sums and taps stay in registers
    for (int v = 0; v < kVectors; ++v) {
      const int64_t here = at + v * kLanes;
      const V32 x = load(source.x + here);
      const V32 centre = hn::LoadU(f32, dconv + here);
      V32 dx = hn::Mul(centre, tap[1][v]);
      sums.sum[1][v] = hn::MulAdd(centre, x, sums.sum[1][v]);
      if constexpr (kRight) {
        const V32 right = hn::LoadU(f32, dconv + here + source.shift);
        dx = hn::MulAdd(right, tap[0][v], dx);
        sums.sum[0][v] = hn::MulAdd(right, x, sums.sum[0][v]);
      }
      if constexpr (kLeft) {
        const V32 left = hn::LoadU(f32, dconv + here - source.shift);
        dx = hn::MulAdd(left, tap[2][v], dx);
        sums.sum[2][v] = hn::MulAdd(left, x, sums.sum[2][v]);
      }
      target.write(here, dx);
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
  const float* taps = source.taps + column;
  TapSums<kVectors> all;
  for (int64_t r = begin; r < end;) {
    const int64_t at = r * row + column;
    const bool has_left = at >= source.shift;
    const int64_t before_right_edge = source.size - source.shift - at;
    const bool has_right = before_right_edge >= kWidth;
    const bool is_part = at + kWidth > source.size || column + kWidth > row ||
                         (!has_left && at + kWidth > source.shift) || (!has_right && before_right_edge > 0);
    if (is_part) {
      for (int v = 0; v < kVectors; ++v) {
        const int64_t here = at + v * kLanes;
        const int64_t count = std::min({int64_t{kLanes}, source.size - here, row - column - v * kLanes});
        if (count <= 0) break;
        grad_part(source, dconv, target, here, count, taps + v * kLanes, &all.sum[0][v], &all.sum[1][v],
                  &all.sum[2][v]);
      }
      ++r;
      continue;
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
    for (int v = 0; v < kVectors; ++v) {
      const int64_t place = column + v * kLanes;
      double* to = sums + k * row + place;
      if (place + kLanes <= row) {
        add_to(all.sum[k][v], to);
      } else if (place < row) {
        double last[kLanes] = {};
        add_to(all.sum[k][v], last);
        for (int64_t i = 0; i < row - place; ++i) to[i] += last[i];
      }
    }
  }
}

// Adds the rows [begin, end), at most kSumGroup of them.
template <class T>
void grad_group(const Source<T>& source, const float* dconv, const Target<T>& target, int64_t begin,
                int64_t end, double* sums) {
  // The registers hold three sums and three taps for so many vectors.
  constexpr int kVectors = HWY_TARGET <= HWY_AVX3 ? 4 : 1;
  int64_t column = 0;
  for (; column + kVectors * kLanes <= source.period; column += kVectors * kLanes) {
    grad_columns<kVectors>(source, dconv, target, begin, end, column, sums);
  }
  for (; column < source.period; column += kLanes) {
    grad_columns<1>(source, dconv, target, begin, end, column, sums);
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
