// SPDX-License-Identifier: Apache-2.0
// Balls: what a right path may hold in place of a value, small pieces of their radii, and formats
// to round them to.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "kernels/core/dtype.h"
#include "kernels/core/op.h"

namespace assay {

inline constexpr double kUnit = 0x1p-24;        // a rounding to f32, relative to the value
inline constexpr double kUnderflow = 0x1p-150;  // a rounding where f32 underflows
inline constexpr double kMargin = 1 + 0x1p-20;  // a factor of radii: see arithmetic.h
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// n*unit / (1 - n*unit), for n roundings [Higham 2002, 3.1]; infinite if there are too many to say
// anything.
inline double gamma(double n, double unit) {
  return n * unit < 1 ? n * unit / (1 - n * unit) : HUGE_VAL;
}

inline bool is_f32(double value) {
  return static_cast<double>(static_cast<float>(value)) == value;
}

// The exponent of the largest power of two that divides a finite, non-zero value.
inline int lowest_exponent(double value) {
  const auto x = std::bit_cast<uint64_t>(std::abs(value)), one = uint64_t{1} << 52;
  return std::max(static_cast<int>(x / one), 1) - 1075 + std::countr_zero(x < one ? x : x % one + one);
}

// A right path holds some number within `radius` of `mid`, or `mid` itself if that is an infinity
// or a NaN. A radius that is not finite says nothing: the ball is open, right paths hold anything.
// So Ball{x} is certain, {infinity, 0} a certain infinity, and {0, infinity} is open.
struct Ball {
  double mid = 0, radius = 0;
  bool is_signed = false;  // of a certain 0: right paths have its sign, too

  static Ball open() { return {0, HUGE_VAL}; }
  bool is_open() const { return !std::isfinite(radius); }
  bool is_finite() const { return std::isfinite(mid) && std::isfinite(radius); }
};

// Without rounding. A NaN makes a NaN, else an open ball an open one; infinities follow IEEE 754.
inline Ball operator-(Ball a) {
  return {-a.mid, a.radius};
}

inline Ball operator+(Ball a, Ball b) {
  if (std::isnan(a.mid) || std::isnan(b.mid)) return {kNan, 0};
  if (a.is_open() || b.is_open()) return Ball::open();
  const double mid = a.mid + b.mid;
  return {mid, std::isfinite(mid) ? a.radius + b.radius : 0};
}

inline Ball operator*(Ball a, Ball b) {
  const double radius = std::abs(a.mid) * b.radius + a.radius * std::abs(b.mid) + a.radius * b.radius;
  const Ball product{a.mid * b.mid, radius};
  if (product.is_finite()) return product;
  if (std::isnan(a.mid) || std::isnan(b.mid)) return {kNan, 0};
  if (a.is_open() || b.is_open()) return Ball::open();
  if (std::isfinite(a.mid) && std::isfinite(b.mid)) return product;
  const auto has_no_sign = [](Ball x) { return x.radius > 0 && std::abs(x.mid) <= x.radius; };
  return has_no_sign(a) || has_no_sign(b) ? Ball::open() : Ball{product.mid, 0};
}

// Numbers side by side in memory. `radius` is null where all are certain.
struct Row {
  const double* mid;
  const double* radius;
  size_t size;
  bool is_signed;  // all are certain, the signs of zeros too

  Ball operator[](size_t i) const { return {mid[i], radius == nullptr ? 0 : radius[i], is_signed}; }
};

// A row that owns its numbers.
class Balls {
 public:
  Balls() = default;
  explicit Balls(std::vector<double> certain) : mid_(std::move(certain)), radius_(mid_.size()) {}
  explicit Balls(size_t size) : mid_(size), radius_(size) {}

  size_t size() const { return mid_.size(); }
  Ball operator[](size_t i) const { return {mid_[i], radius_[i], is_signed_}; }
  void set(size_t i, Ball ball) {
    mid_[i] = ball.mid;
    radius_[i] = ball.radius;
    is_certain_ &= ball.radius == 0;
    is_signed_ &= ball.radius == 0 && (ball.mid != 0 || ball.is_signed);
  }
  void push_back(Ball ball) {
    mid_.emplace_back();
    radius_.emplace_back();
    set(size() - 1, ball);
  }
  void clear() {
    mid_.clear();
    radius_.clear();
    is_certain_ = is_signed_ = true;
  }
  Row row() const { return row(0, size()); }
  Row row(size_t first, size_t count) const {
    return {mid_.data() + first, is_certain_ ? nullptr : radius_.data() + first, count, is_signed_};
  }

 private:
  std::vector<double> mid_, radius_;
  bool is_certain_ = true, is_signed_ = true;
};

// The format of tensor cores with 11 bits of significand and the range of f32.
inline constexpr FloatFormat kTF32Format{.precision = 11, .min_exponent = -126, .max_exponent = 127};

// The format that values, or each of their two parts, are rounded to; null if they are not.
const FloatFormat* float_format(Format format);

// The nearest number of the format, ties to even; an infinity from half a unit above the largest.
// In kTowardZero, the nearest one that is not farther from 0.
double rounded(const FloatFormat& format, double value, Rounding::Mode mode = Rounding::Mode::kNearestEven);
// The smallest real that `rounded` makes an infinity.
double overflow_threshold(const FloatFormat& format);
// The spacing of the format's numbers at |value|.
double ulp_at(const FloatFormat& format, double value);

// What rounding makes of a ball: rounding is monotone, so it is the hull of what becomes of both
// ends. Where they meet, the radius is zero again. Open if only one of the ends overflows.
Ball rounded(const FloatFormat& format, const Ball& ball, Rounding::Mode mode = Rounding::Mode::kNearestEven);

}  // namespace assay
