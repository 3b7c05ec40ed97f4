// SPDX-License-Identifier: Apache-2.0
// Products of a tile of rows with a packed weight, and GELU, for the CPU path of cheri_block.
//
// Included once per instruction set, after kernels/core/simd-inl.h, which arranges that.
#if defined(ASSAY_KERNELS_CHERI_CPU_PERCEPTRON_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ASSAY_KERNELS_CHERI_CPU_PERCEPTRON_INL_H
#undef ASSAY_KERNELS_CHERI_CPU_PERCEPTRON_INL_H
#else
#define ASSAY_KERNELS_CHERI_CPU_PERCEPTRON_INL_H
#endif

#include <algorithm>
#include <cstdint>
#include <utility>

#include "kernels/cheri/conv_norm/cpu_jobs.h"
#include "kernels/core/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace assay::cheri {
namespace HWY_NAMESPACE {
namespace {
using namespace simd::HWY_NAMESPACE;

// A tile of any number of rows. A row lies in pieces of kPiece columns. The same piece of all rows
// lies together, so the distance between rows is a compile-time constant. It is no power of two,
// since rows would then share cache sets.
constexpr int64_t kPiece = 128;
constexpr int64_t kPitch = kPiece + 16;  // [floats] from row to row

// The registers hold the sums of kRows rows and kPanel vectors of columns, and one factor.
constexpr int kPanel = 2;
constexpr int kRows = HWY_TARGET <= HWY_AVX3 ? 14 : 6;
constexpr int64_t kWidth = kPanel * kLanes;
static_assert(kPiece % kWidth == 0, "a panel lies in one piece");

inline int64_t tile_floats(int64_t rows, int64_t columns) {
  return (columns + kPiece - 1) / kPiece * rows * kPitch;
}

struct Tile {
  float* data;
  int64_t rows;  // room for

  float* at(int64_t row, int64_t column) const {
    return data + (column / kPiece * rows + row) * kPitch + column % kPiece;
  }
};

// The rows are a parameter pack: a loop over an array would be a loop over memory, since registers
// have no index.
template <int kVectors>
struct Sums {
  V32 sum[kRows][kVectors];

  template <int... kRow>
  HWY_INLINE void clear(std::integer_sequence<int, kRow...>) {
    (clear_row(sum[kRow]), ...);
  }
  // `from` and `weights` belong to one column of the tile.
  template <int... kRow>
  HWY_INLINE void add(const float* HWY_RESTRICT from, const float* HWY_RESTRICT weights,
                      std::integer_sequence<int, kRow...>) {
    const V32 first = hn::Load(F32(), weights);
    const V32 second = kVectors == 1 ? first : hn::Load(F32(), weights + kLanes);
    (add_row(hn::Set(F32(), from[kRow * kPitch]), first, second, sum[kRow]), ...);
  }
  template <int... kRow>
  HWY_INLINE void write(float* to, std::integer_sequence<int, kRow...>) const {
    (write_row(sum[kRow], to + kRow * kPitch), ...);
  }

 private:
  static HWY_INLINE void clear_row(V32* row) {
    row[0] = hn::Zero(F32());
    if constexpr (kVectors == 2) row[1] = hn::Zero(F32());
  }
  static HWY_INLINE void add_row(V32 value, V32 first, V32 second, V32* row) {
    row[0] = hn::MulAdd(value, first, row[0]);
    if constexpr (kVectors == 2) row[1] = hn::MulAdd(value, second, row[1]);
  }
  static HWY_INLINE void write_row(const V32* row, float* to) {
    hn::Store(row[0], F32(), to);
    if constexpr (kVectors == 2) hn::Store(row[1], F32(), to + kLanes);
  }
};

// Multiplies kRows rows of a tile, from `row` on, by kVectors vectors of a weight's panel and sums
// over `depth` columns.
template <int kVectors>
HWY_NOINLINE void multiply(const Tile& tile, int64_t row, int64_t depth, const float* panel, float* to) {
  static_assert(kVectors <= kPanel && kPanel == 2, "Sums know two vectors");
  constexpr std::make_integer_sequence<int, kRows> kAll{};
  Sums<kVectors> sums;
  sums.clear(kAll);
  for (int64_t first = 0; first < depth; first += kPiece) {
    const float* from = tile.at(row, first);
    const float* weights = panel + first * kWidth;
    const int64_t count = std::min(kPiece, depth - first);
    for (int64_t k = 0; k < count; ++k) sums.add(from + k, weights + k * kWidth, kAll);
  }
  sums.write(to, kAll);
}

// The weights always fill the width of the panel.
HWY_INLINE void multiply_panel(const Tile& tile, int64_t row, const Panels& panels, const float* weights,
                               int64_t panel, float* to) {
  const float* from = weights + panel * panels.inputs * kWidth;
  if (panels.outputs - panel * kWidth > kLanes) {
    multiply<kPanel>(tile, row, panels.inputs, from, to);
  } else {
    multiply<1>(tile, row, panels.inputs, from, to);
  }
}

HWY_INLINE float scale_of_shift(int32_t shift) {
  return shift == 0 ? 1.0f : static_cast<float>(int64_t{1} << shift);
}

// gelu(z) * 2^shift. Let t = 2 log2(e) sqrt(2/pi) (z + 0.044715 z^3) and a = 2^-|t|. Then
// gelu(z) = z / (1 + 2^-t) is z / (1 + a) for z >= 0 and z a / (1 + a) otherwise, in which nothing
// overflows. t is kept as a sum of two numbers, since its rounding error would be multiplied by up
// to |t|.
HWY_INLINE V32 gelu(V32 z, int32_t shift) {
  const F32 f32;
  constexpr double kLinear = 2 * 1.4426950408889634 * 0.7978845608028654;
  constexpr double kCubic = kLinear * 0.044715;
  // Few bits.
  constexpr float kLinearHigh = static_cast<float>(static_cast<int>(kLinear * 0x1p14)) * 0x1p-14f;
  constexpr float kLinearLow = static_cast<float>(kLinear - static_cast<double>(kLinearHigh));
  constexpr float kCubicHigh = static_cast<float>(kCubic);
  constexpr float kCubicLow = static_cast<float>(kCubic - static_cast<double>(kCubicHigh));
  // For larger |z|, 1 + a is 1, and log2(a) is less than kLeast.
  constexpr float kFar = 12;
  // z times less than 2^kLeast is 0 in f32, and so is the result.
  constexpr float kLeast = -157;

  const V32 zero = hn::Zero(f32), one = hn::Set(f32, 1);
  const V32 near = hn::Min(hn::Max(z, hn::Set(f32, -kFar)), hn::Set(f32, kFar));
  const V32 square = hn::Mul(near, near);
  const V32 square_low = hn::MulSub(near, near, square);
  const V32 linear = hn::Set(f32, kLinearHigh), cubic = hn::Set(f32, kCubicHigh);
  const V32 slope = hn::MulAdd(cubic, square, linear);  // of t
  V32 slope_low = hn::MulAdd(hn::Set(f32, kCubicLow), square, hn::Set(f32, kLinearLow));
  slope_low = hn::MulAdd(cubic, square_low, slope_low);
  slope_low = hn::Add(slope_low, hn::MulAdd(cubic, square, hn::Sub(linear, slope)));
  const V32 t = hn::Mul(near, slope);
  const V32 t_low = hn::MulAdd(near, slope_low, hn::MulSub(near, slope, t));

  const auto is_negative = hn::Lt(z, zero);
  const V32 exponent = hn::IfThenElse(is_negative, t, hn::Neg(t));  // -|t|
  const V32 exponent_low = hn::IfThenElse(is_negative, t_low, hn::Neg(t_low));
  const V32 rounded = hn::Round(exponent);
  const V32 f = hn::Add(hn::Sub(exponent, rounded), exponent_low);  // within +-0.5
  const V32 power = power_of_fraction(f);

  const auto n = hn::ConvertTo(I32(), rounded);
  const V32 a = hn::Mul(power, power_of_two(hn::Max(n, hn::Set(I32(), -100))));
  const V32 quotient = hn::Div(z, hn::Add(one, a));
  // 2^n in two steps, since it may be too small for one.
  const auto half = hn::ShiftRight<1>(n);
  const V32 first = hn::IfThenElse(hn::Lt(exponent, hn::Set(f32, kLeast)), zero, power_of_two(half));
  const V32 second = power_of_two(hn::Add(hn::Sub(n, half), hn::Set(I32(), shift)));
  const V32 scaled = hn::Mul(hn::Mul(hn::Mul(quotient, first), power), second);
  return hn::IfThenElse(is_negative, scaled, hn::Mul(quotient, hn::Set(f32, scale_of_shift(shift))));
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace assay::cheri
HWY_AFTER_NAMESPACE();

#endif  // ASSAY_KERNELS_CHERI_CPU_PERCEPTRON_INL_H
