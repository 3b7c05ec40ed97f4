// SPDX-License-Identifier: Apache-2.0
// Small pieces of bounds, and the constants of f32 in them.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

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
  int exponent = 0;
  const double fraction = std::frexp(std::abs(value), &exponent);
  return exponent - 53 + std::countr_zero(static_cast<uint64_t>(std::ldexp(fraction, 53)));
}

}  // namespace assay
