// SPDX-License-Identifier: Apache-2.0
// Small pieces of bounds.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace assay {

// n*unit / (1 - n*unit), for n roundings [Higham 2002, 3.1]; infinite if there are too many to say
// anything.
inline double gamma(double n, double unit) {
  return n * unit < 1 ? n * unit / (1 - n * unit) : HUGE_VAL;
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
