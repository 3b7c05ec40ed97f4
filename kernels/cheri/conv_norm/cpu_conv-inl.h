// SPDX-License-Identifier: Apache-2.0
// The convolution of an example, vector by vector, for the CPU paths of the Cheri ops: its values
// and their statistics.
//
// Included once per instruction set, after kernels/core/simd-inl.h, which arranges that.
#if defined(ASSAY_KERNELS_CHERI_CPU_CONV_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ASSAY_KERNELS_CHERI_CPU_CONV_INL_H
#undef ASSAY_KERNELS_CHERI_CPU_CONV_INL_H
#else
#define ASSAY_KERNELS_CHERI_CPU_CONV_INL_H
#endif

#include <algorithm>
#include <cstdint>

#include "kernels/cheri/conv_norm/cpu_example.h"
#include "kernels/core/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace assay::cheri {
namespace HWY_NAMESPACE {
namespace {
using namespace simd::HWY_NAMESPACE;
static_assert(kLanes <= kMostLanes, "taps are repeated for that many lanes");

// An example and the taps of its elements.
template <class T>
struct Source {
  const T* x;
  int64_t size;
  int64_t shift;
  int64_t run, chunk;
  const float* taps;
  const float* taps_of_two;  // in the order of load_two(), or null
  int64_t pitch;
  int64_t period;

  // Vectors go by two where they can, or with `by_two` = false nowhere.
  Source(const Geometry& geometry, const T* example, const float* all_taps)
      : Source(geometry, example, all_taps, geometry.by_two()) {}
  Source(const Geometry& geometry, const T* example, const float* all_taps, bool by_two)
      : x(example),
        size(geometry.size),
        shift(geometry.shift),
        run(geometry.run),
        chunk(geometry.chunk),
        taps(all_taps),
        taps_of_two(by_two ? all_taps + 3 * Taps::pitch(geometry) : nullptr),
        pitch(Taps::pitch(geometry)),
        period(geometry.period) {}
};

// The three terms are always added in this order.
template <bool kLeft, bool kRight, class T>
HWY_INLINE V32 convolve(const Source<T>& source, int64_t at, const float* taps) {
  const F32 f32;
  V32 sum = hn::Mul(load(source.x + at), hn::LoadU(f32, taps + source.pitch));
  if constexpr (kLeft) sum = hn::MulAdd(load(source.x + at - source.shift), hn::LoadU(f32, taps), sum);
  if constexpr (kRight) {
    sum = hn::MulAdd(load(source.x + at + source.shift), hn::LoadU(f32, taps + 2 * source.pitch), sum);
  }
  return sum;
}

// The same for two vectors side by side.
template <bool kLeft, bool kRight, class T>
HWY_INLINE void convolve_two(const Source<T>& source, int64_t at, const float* taps, V32& first,
                             V32& second) {
  const F32 f32;
  V32 x[2];
  const auto tap = [&](int k, int v)
                       HWY_ATTR { return hn::LoadU(f32, taps + k * source.pitch + v * kLanes); };
  load_two(source.x + at, x[0], x[1]);
  first = hn::Mul(x[0], tap(1, 0));
  second = hn::Mul(x[1], tap(1, 1));
  if constexpr (kLeft) {
    load_two(source.x + at - source.shift, x[0], x[1]);
    first = hn::MulAdd(x[0], tap(0, 0), first);
    second = hn::MulAdd(x[1], tap(0, 1), second);
  }
  if constexpr (kRight) {
    load_two(source.x + at + source.shift, x[0], x[1]);
    first = hn::MulAdd(x[0], tap(2, 0), first);
    second = hn::MulAdd(x[1], tap(2, 1), second);
  }
}

// Which of the elements `at`, ..., at + count - 1 have a neighbour `shift` before and after them.
struct Neighbours {
  Neighbours(int64_t at, int64_t count, int64_t size, int64_t shift) {
    for (int64_t i = 0; i < count; ++i) {
      left[i] = at + i >= shift ? 1.0f : 0.0f;
      right[i] = at + i < size - shift ? 1.0f : 0.0f;
    }
  }
  bool has_left(int64_t i) const { return left[i] != 0; }
  bool has_right(int64_t i) const { return right[i] != 0; }
  hn::Mask<F32> left_mask() const { return mask(left); }
  hn::Mask<F32> right_mask() const { return mask(right); }

 private:
  static hn::Mask<F32> mask(const float* lanes) { return hn::Ne(hn::LoadU(F32(), lanes), hn::Zero(F32())); }
  float left[kLanes] = {};
  float right[kLanes] = {};
};

// The same if only `count` lanes exist or lanes differ in their neighbours. Other lanes hold
// arbitrary values.
template <class T>
HWY_NOINLINE V32 convolve_part(const Source<T>& source, int64_t at, int64_t count, const float* taps) {
  const F32 f32;
  const Neighbours neighbours(at, count, source.size, source.shift);
  T left[kLanes] = {}, centre[kLanes] = {}, right[kLanes] = {};
  for (int64_t i = 0; i < count; ++i) {
    centre[i] = source.x[at + i];
    if (neighbours.has_left(i)) left[i] = source.x[at + i - source.shift];
    if (neighbours.has_right(i)) right[i] = source.x[at + i + source.shift];
  }
  V32 sum = hn::Mul(load(centre), hn::LoadU(f32, taps + source.pitch));
  sum = hn::IfThenElse(neighbours.left_mask(), hn::MulAdd(load(left), hn::LoadU(f32, taps), sum), sum);
  return hn::IfThenElse(neighbours.right_mask(),
                        hn::MulAdd(load(right), hn::LoadU(f32, taps + 2 * source.pitch), sum), sum);
}

// What is read soon: a page ahead of what is read now, where the hardware does not look ahead.
// Nothing may lie behind the last example; a prefetch may ask for that.
template <class T>
HWY_INLINE const T* ahead_of(const T* now) {
  constexpr int64_t kPage = 4096;  // [bytes]
  return now + kPage / int64_t{sizeof(T)};
}

template <bool kLeft, bool kRight, class T, class Use>
HWY_INLINE int64_t for_vectors(const Source<T>& source, int64_t begin, int64_t end, Use& use) {
  const Source<T> from = source;
  Use local = use;  // copies that stay in registers
  const T* latest = from.x + (kRight ? from.shift : 0);
  const bool by_two = from.taps_of_two != nullptr && begin % kLanes == 0;
  for (int64_t at = begin; at < end;) {
    const int64_t place = at % from.period;
    const int64_t stop = std::min(end, at + from.period - place);
    if (by_two && place % kTwo == 0 && stop - at >= kTwo) {
      const float* taps = from.taps_of_two + place;
      for (; stop - at >= kTwo; at += kTwo, taps += kTwo) {
        prefetch<kTwo>(ahead_of(latest + at));
        V32 first, second;
        convolve_two<kLeft, kRight>(from, at, taps, first, second);
        local.two(at, first, second);
      }
    } else {
      const int64_t last = by_two ? at + kLanes : stop;  // a vector may reach into the next period
      for (const float* taps = from.taps + place; at < last; at += kLanes, taps += kLanes) {
        prefetch<kLanes>(ahead_of(latest + at));
        local.whole(at, convolve<kLeft, kRight>(from, at, taps));
      }
    }
  }
  use = local;
  return end;
}

// Visits the vectors of the convolution within [begin, end). Calls use.two(at, first, second) for
// those that go by two, from a multiple of kTwo on, use.whole(at, values) for others, and
// use.part(at, values, count) for a vector with fewer elements.
template <class T, class Use>
void for_convolution(const Source<T>& source, int64_t begin, int64_t end, Use& use) {
  const auto whole = [](int64_t elements) { return elements / kLanes * kLanes; };
  for (int64_t at = begin; at < end;) {
    const int64_t before_right_edge = source.size - source.shift - at;
    const bool has_left = at >= source.shift;
    const bool has_right = before_right_edge >= kLanes;
    const bool is_part = end - at < kLanes || (!has_left && at + kLanes > source.shift) ||
                         (!has_right && before_right_edge > 0);
    if (is_part) {
      const int64_t count = std::min<int64_t>(kLanes, end - at);
      const V32 values = convolve_part(source, at, count, source.taps + at % source.period);
      if (count == kLanes) {
        use.whole(at, values);
      } else {
        use.part(at, values, count);
      }
      at += count;
      continue;
    }
    int64_t stop = at + whole(end - at);
    if (!has_left) stop = std::min(stop, at + whole(source.shift - at));
    if (has_right) stop = std::min(stop, at + whole(before_right_edge));
    if (has_left && has_right) {
      at = for_vectors<true, true>(source, at, stop, use);
    } else if (has_left) {
      at = for_vectors<true, false>(source, at, stop, use);
    } else if (has_right) {
      at = for_vectors<false, true>(source, at, stop, use);
    } else {
      at = for_vectors<false, false>(source, at, stop, use);
    }
  }
}

// The lanes of a vector of f32 as f64, in vectors of as many bits.
using F64 = hn::Rebind<double, hn::Half<F32>>;
using V64 = hn::Vec<F64>;
constexpr int kParts = kLanes == 1 ? 1 : 2;
struct Wide {
  V64 part[kParts];
};

HWY_INLINE Wide to_f64(V32 v) {
#if HWY_TARGET == HWY_SCALAR
  return {{hn::PromoteTo(F64(), v)}};
#else
  const hn::Half<F32> half;
  return {{hn::PromoteTo(F64(), hn::LowerHalf(half, v)), hn::PromoteTo(F64(), hn::UpperHalf(half, v))}};
#endif
}

HWY_INLINE Wide zero_f64() {
  Wide zero;
  for (V64& part : zero.part) part = hn::Zero(F64());
  return zero;
}

HWY_INLINE double sum_of(const Wide& v) {
  return hn::GetLane(hn::SumOfLanes(F64(), kParts == 1 ? v.part[0] : hn::Add(v.part[0], v.part[kParts - 1])));
}

// The sums of deviations from a value and of their squares.
struct Deviations {
  explicit Deviations(double value) : about(hn::Set(F64(), value)), sum(zero_f64()), squares(zero_f64()) {}

  HWY_INLINE Wide deviation(V32 values) const {
    Wide v = to_f64(values);
    for (V64& part : v.part) part = hn::Sub(part, about);
    return v;
  }
  HWY_INLINE void add(const Wide& deviation) {
    for (int i = 0; i < kParts; ++i) {
      sum.part[i] = hn::Add(sum.part[i], deviation.part[i]);
      squares.part[i] = hn::MulAdd(deviation.part[i], deviation.part[i], squares.part[i]);
    }
  }
  // Replaces lanes that do not count by the value itself, whose deviation is 0.
  HWY_INLINE V32 instead(V32 values, int64_t count) const {
    const V32 same = hn::Set(F32(), static_cast<float>(hn::GetLane(about)));
    return hn::IfThenElse(hn::FirstN(F32(), static_cast<size_t>(count)), values, same);
  }
  HWY_INLINE void whole(int64_t, V32 values) { add(deviation(values)); }
  HWY_INLINE void two(int64_t, V32 first, V32 second) {
    add(deviation(first));
    add(deviation(second));
  }
  HWY_INLINE void part(int64_t at, V32 values, int64_t count) { whole(at, instead(values, count)); }

  V64 about;
  Wide sum, squares;
};

// The convolution of one element.
template <class T>
double convolution_at(const Source<T>& source, int64_t at) {
  return static_cast<double>(hn::GetLane(convolve_part(source, at, 1, source.taps + at % source.period)));
}

// The statistics of the convolution within a chunk.
template <class T>
Moments chunk_moments(const Source<T>& source, int64_t number) {
  Moments moments;
  const int64_t end = std::min((number + 1) * source.chunk, source.size);
  for (int64_t at = number * source.chunk; at < end; at += source.run) {
    const int64_t run_end = std::min(at + source.run, end);
    const double about = convolution_at(source, at);
    Deviations sums(about);
    for_convolution(source, at, run_end, sums);
    moments.add(Moments::of(run_end - at, about, sum_of(sums.sum), sum_of(sums.squares)));
  }
  return moments;
}

// Normalises vectors of a convolution.
struct Normalise {
  explicit Normalise(const Norm& norm)
      : scale(hn::Set(F32(), norm.scale)),
        high(hn::Set(F32(), norm.mean.high)),
        low(hn::Set(F32(), norm.mean.low)),
        rstd(hn::Set(F32(), norm.rstd)) {}

  HWY_INLINE V32 operator()(V32 conv) const {
    return hn::Mul(hn::Sub(hn::MulSub(conv, scale, high), low), rstd);
  }

  V32 scale, high, low, rstd;
};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace assay::cheri
HWY_AFTER_NAMESPACE();

#endif  // ASSAY_KERNELS_CHERI_CPU_CONV_INL_H
