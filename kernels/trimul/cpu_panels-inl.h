// SPDX-License-Identifier: Apache-2.0
// Panels of the CPU path of trimul: kWidth edges side by side in memory, channel after channel. So
// norms and gates work on whole vectors of edges, and a panel can be a factor of a product without
// being moved.
//
// Included once per instruction set, after kernels/core/simd-inl.h, which arranges that.
#if defined(ASSAY_KERNELS_TRIMUL_CPU_PANELS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ASSAY_KERNELS_TRIMUL_CPU_PANELS_INL_H
#undef ASSAY_KERNELS_TRIMUL_CPU_PANELS_INL_H
#else
#define ASSAY_KERNELS_TRIMUL_CPU_PANELS_INL_H
#endif

#include <algorithm>
#include <cstdint>
#include <utility>

#include "kernels/core/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace assay::trimul {
namespace HWY_NAMESPACE {
namespace {
using namespace simd::HWY_NAMESPACE;

// The registers hold the sums of kRows rows of kPanel vectors.
constexpr int kPanel = 2;
constexpr int kWidth = kPanel * kLanes;
constexpr int kRows = HWY_TARGET <= HWY_AVX3 ? 8 : std::min(4, kWidth);
static_assert(kWidth % kRows == 0, "rows are read from panels");

// The rows are a parameter pack: a loop over an array would be a loop over memory, since registers
// have no index.
struct Sums {
  V32 sum[kRows][kPanel];

  template <int... kRow>
  HWY_INLINE void clear(std::integer_sequence<int, kRow...>) {
    ((sum[kRow][0] = hn::Zero(F32()), sum[kRow][1] = hn::Zero(F32())), ...);
  }
  template <int... kRow>
  HWY_INLINE void add(const float* HWY_RESTRICT rows, const float* HWY_RESTRICT panel,
                      std::integer_sequence<int, kRow...>) {
    const V32 first = hn::Load(F32(), panel), second = hn::Load(F32(), panel + kLanes);
    (add_row(hn::Set(F32(), rows[kRow]), first, second, sum[kRow]), ...);
  }
  template <int... kRow>
  HWY_INLINE void write(float* to, std::integer_sequence<int, kRow...>) const {
    ((hn::Store(sum[kRow][0], F32(), to + kRow * kWidth),
      hn::Store(sum[kRow][1], F32(), to + kRow * kWidth + kLanes)),
     ...);
  }

 private:
  static HWY_INLINE void add_row(V32 value, V32 first, V32 second, V32* row) {
    row[0] = hn::MulAdd(value, first, row[0]);
    row[1] = hn::MulAdd(value, second, row[1]);
  }
};

// to[r][w] = sum_k rows[k * step + r] * panel[k * kWidth + w] for kRows rows. Each sum is one chain
// of fused operations in the order of k. So equal sums get equal bits, even with the factors
// exchanged.
inline HWY_NOINLINE void multiply(const float* rows, int64_t step, const float* panel, int64_t depth,
                                  float* to) {
  constexpr std::make_integer_sequence<int, kRows> kAll{};
  Sums sums;
  sums.clear(kAll);
  for (int64_t k = 0; k < depth; ++k) sums.add(rows + k * step, panel + k * kWidth, kAll);
  sums.write(to, kAll);
}

// 2^-floor(log2(largest)), or 1 if `largest` is below 2. Its square does not overflow, nor do
// squares of what it scales.
HWY_INLINE V32 scale_for(V32 largest) {
  const I32 i32;
  const auto exponent = hn::And(hn::BitCast(i32, largest), hn::Set(i32, 0x7F800000));
  const auto bounded = hn::Min(hn::Max(exponent, hn::Set(i32, 127 << 23)), hn::Set(i32, 253 << 23));
  return hn::BitCast(F32(), hn::Sub(hn::Set(i32, 254 << 23), bounded));
}

// Normalises each edge of a panel over its `count` channels and applies weight and bias. It
// averages deviations from the first channel.
inline void normalise(const float* from, int64_t count, const float* weight, const float* bias,
                      double epsilon, float* to) {
  constexpr int64_t kGroup = 32;  // channels that are summed apart
  const F32 f32;
  const V32 divisor = hn::Set(f32, static_cast<float>(count));
  for (int64_t lane = 0; lane < kWidth; lane += kLanes) {
    const V32 first = hn::Load(f32, from + lane);
    const auto deviation = [&](int64_t i)
                               HWY_ATTR { return hn::Sub(hn::Load(f32, from + i * kWidth + lane), first); };
    V32 sum = hn::Zero(f32), largest = hn::Zero(f32);
    for (int64_t begin = 0; begin < count; begin += kGroup) {
      V32 part = hn::Zero(f32);
      for (int64_t i = begin; i < std::min(count, begin + kGroup); ++i) {
        const V32 d = deviation(i);
        part = hn::Add(part, d);
        largest = hn::Max(largest, hn::Abs(d));
      }
      sum = hn::Add(sum, part);
    }
    const V32 mean = hn::Div(sum, divisor);
    const V32 scale = scale_for(largest);
    V32 squares = hn::Zero(f32);
    for (int64_t begin = 0; begin < count; begin += kGroup) {
      V32 part = hn::Zero(f32);
      for (int64_t i = begin; i < std::min(count, begin + kGroup); ++i) {
        const V32 centred = hn::Mul(hn::Sub(deviation(i), mean), scale);
        part = hn::MulAdd(centred, centred, part);
      }
      squares = hn::Add(squares, part);
    }
    const V32 scaled_epsilon = hn::Mul(hn::Mul(hn::Set(f32, static_cast<float>(epsilon)), scale), scale);
    const V32 variance = hn::Add(hn::Div(squares, divisor), scaled_epsilon);
    const V32 rstd = hn::Div(hn::Set(f32, 1), hn::Sqrt(variance));
    for (int64_t i = 0; i < count; ++i) {
      const V32 centred = hn::Mul(hn::Sub(deviation(i), mean), scale);
      const V32 value = hn::MulAdd(hn::Mul(centred, rstd), hn::Set(f32, weight[i]), hn::Set(f32, bias[i]));
      hn::Store(value, f32, to + i * kWidth + lane);
    }
  }
}

// 1 / (1 + exp(-x)) without overflow. With a = exp(-|x|) it is 1 / (1 + a) for x >= 0 and
// a / (1 + a) otherwise.
HWY_INLINE V32 sigmoid(V32 x) {
  const F32 f32;
  constexpr double kLog2E = 1.4426950408889634;
  constexpr float kHigh = static_cast<float>(kLog2E);
  constexpr float kLow = static_cast<float>(kLog2E - static_cast<double>(kHigh));
  constexpr float kFar = 87.33655f;  // from here on, a is subnormal and counts as 0

  const V32 one = hn::Set(f32, 1);
  const V32 size = hn::Min(hn::Abs(x), hn::Set(f32, kFar));
  const V32 t = hn::Mul(size, hn::Set(f32, kHigh));  // a = 2^-(t + t_low)
  const V32 t_low = hn::MulAdd(size, hn::Set(f32, kLow), hn::MulSub(size, hn::Set(f32, kHigh), t));
  const V32 rounded = hn::Round(t);
  const V32 f = hn::Sub(hn::Sub(rounded, t), t_low);  // within +-0.5
  const V32 power = power_of_fraction(f);
  const V32 scale = power_of_two(hn::Neg(hn::ConvertTo(I32(), rounded)));
  const V32 a = hn::IfThenZeroElse(hn::Ge(hn::Abs(x), hn::Set(f32, kFar)), hn::Mul(power, scale));
  const V32 result = hn::Div(hn::IfThenElse(hn::Lt(x, hn::Zero(f32)), a, one), hn::Add(one, a));
  return hn::IfThenElse(hn::IsNaN(x), x, result);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace assay::trimul
HWY_AFTER_NAMESPACE();

#endif  // ASSAY_KERNELS_TRIMUL_CPU_PANELS_INL_H
