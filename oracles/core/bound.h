// SPDX-License-Identifier: Apache-2.0
// Bound algebra: what rounding can do to a sum of products, derived from the data.
//
// Model. Rounding to a format of precision p with unit roundoff u = 2^-p and smallest subnormal s turns a real z into
// z(1 + e) + h with |e| <= u, |h| <= s/2, e*h = 0, as long as |z| stays below the overflow threshold.
//
// A sum of n products  v = sum a_i*b_i, S = sum |a_i*b_i|, computed in the accumulation format in any order, with or
// without fused multiply-add, passes each product through at most n roundings (its own and n-1 additions), so
//
//   |computed - v| <= gamma_n * S + n * s/2 * (1 + gamma_n),    gamma_n = n*u / (1 - n*u)       [Higham 2002, 3.1]
//
// (each product, or each fused multiply-add, can lose s/2 to underflow; additions alone cannot).
//
// Two refinements keep it tight, both exact statements about this data:
//   - let g be the largest power of two that divides every product. All partial sums are multiples of g and at most S.
//     If S <= 2^p * g and g >= s, every one of them is a number of the format: nothing is rounded and the error is 0.
//   - n counts only products that are not zero; adding a zero rounds nothing.
//
// Storing the result c, |c - v| <= a, in a format with unit in the last place ulp() costs one more rounding:
//
//   |stored - v| <= a + ulp(|v| + a) / 2
//
// unless storage and accumulation have the same format: then the last addition was that rounding.
// If v is a number of the storage format and a = 0, the bound is 0.
//
// Variance, for the rms law: each of the n roundings of the sum is taken as uniform in +-u*S and the last as uniform in
// +-ulp/2, which gives n*(u*S)^2/3 + ulp^2/12. Partial sums are rarely as large as S, so the first term is generous; the
// last fits results whose discarded bits are spread evenly, as they are for data with full significands. The judge
// applies the law to such data only.
//
// The value itself is computed in double; the products of 24-bit significands are exact there, and the at most n-1
// additions add (n-1) * 2^-53 * S, which the bound includes.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

#include "kernels/core/op.h"
#include "oracles/core/oracle.h"

namespace assay {

// Collects the products of one sum. Exact products need factors of at most 26 significant bits, that is f32,
// f16 or bf16 values. Infinities and NaNs follow IEEE 754.
class SumOfProducts {
 public:
  void add(double a, double b);

  // The value, its bound and its variance, when `recipe` computes this sum and stores it. Throws Error (internal) for a
  // recipe whose products have another dtype than its sums: nobody has derived that bound.
  Expected expected(const Recipe& recipe) const;

 private:
  double sum_ = 0;
  double magnitude_ = 0;  // sum of |a*b|
  int grain_;             // exponent of the largest power of two that divides every product, if terms_ > 0
  int terms_ = 0;         // products that are not zero
};

// The exponent of the largest power of two that divides a finite, non-zero value.
constexpr int lowest_exponent(double value) {
  const auto bits = std::bit_cast<uint64_t>(value);
  const auto field = static_cast<int>(bits >> 52 & 0x7FF);
  const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
  return (field == 0 ? std::countr_zero(fraction)
                     : field - 1 + std::countr_zero(fraction | uint64_t{1} << 52)) -
         1074;
}

// How often the most frequent of the values occurs, which are not NaN: equal values have equal errors. Rounding is odd, so
// that opposite values have opposite errors, which add up where the factors are opposite, too: pass magnitudes.
double most_repeats(std::span<const double> values);

}  // namespace assay
