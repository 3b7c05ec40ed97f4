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
constexpr int lowest_exponent(double value) {
  const auto bits = std::bit_cast<uint64_t>(value);
  const auto field = static_cast<int>(bits >> 52 & 0x7FF);
  const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
  return (field == 0 ? std::countr_zero(fraction)
                     : field - 1 + std::countr_zero(fraction | uint64_t{1} << 52)) -
         1074;
}

}  // namespace assay
