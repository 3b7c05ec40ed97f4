// SPDX-License-Identifier: Apache-2.0
// Bound algebra: how far rounding can move a sum of products, derived from the data.
//
// Model. A format has precision p, unit roundoff u = 2^-p and smallest subnormal s. Rounding turns
// a real z into z(1 + e) + h with |e| <= u, |h| <= s/2 and e*h = 0, as long as |z| stays below the
// overflow threshold.
//
// Sum. Let v = sum a_i*b_i be a sum of n products, and S = sum |a_i*b_i|. It is computed in the
// accumulation format, in any order, with or without fused multiply-add. Each product passes
// through at most n roundings: its own and n-1 additions. So
//
//   |computed - v| <= gamma_n * S + n * s/2 * (1 + gamma_n)
//          gamma_n  = n*u / (1 - n*u)                                       [Higham 2002, 3.1]
//
// Each product, or each fused multiply-add, can lose s/2 to underflow. An addition alone cannot.
//
// Two refinements keep the bound tight. Both are exact statements about this data.
//   - Let g be the largest power of two that divides every product. All partial sums are multiples
//     of g and at most S. If S <= 2^p * g and g >= s, each of them is a number of the format:
//     nothing is rounded and the error is 0.
//   - n counts only products that are not zero; adding a zero rounds nothing.
//
// Scale. A product may have a constant factor c. A path multiplies a_i*b_i by it, or a sum of such
// products. That is one rounding more, so gamma_n becomes gamma_(n+1). What a_i*b_i lost to
// underflow is multiplied by |c|, and the scaled product can lose s/2, too. In place of s/2 it
// costs (1 + |c|) * s/2. Both a_i*b_i and c*a_i*b_i have to be multiples of g.
//
// Storage. The computed sum c with |c - v| <= a is stored in a format whose unit in the last place
// is ulp(). This costs one more rounding:
//
//   |stored - v| <= a + ulp(|v| + a) / 2
//
// If storage and accumulation have the same format, the last addition was that rounding, and the
// bound stays a. If v is a number of the storage format and a = 0, the bound is 0.
//
// Variance, for the rms law. Each of the n roundings of the sum is taken as uniform in +-u*S, each
// of n underflows as uniform in +-s/2, and the last rounding as uniform in +-ulp/2. This gives
// n*(u*S)^2/3 + n*(s/2)^2/3 + ulp^2/12. Partial sums are rarely as large as S, so the first term is
// generous. The last term fits results whose discarded bits are spread evenly, which is so for data
// with full significands. The judge applies the law to such data only. If a = 0, the discarded bits
// are known, and often few: then the square of what storing discards takes the place of ulp^2/12.
//
// The oracle computes v in double. Products of 24-bit significands are exact there. A scaled one is
// rounded once. The n-1 additions err by at most (n-1) * 2^-53 * S, and with scaled products by
// 2^-53 * S more, which the bound includes.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

#include "kernels/core/op.h"
#include "oracles/core/oracle.h"

namespace assay {

// Collects the products of one sum. Products are exact if factors have at most 26 significant bits,
// as f32, f16 and bf16 values have. Infinities and NaNs follow IEEE 754.
class SumOfProducts {
 public:
  void add(double a, double b);
  // A product times a constant of at most 24 significant bits, which is not 0.
  void add_scaled(double scale, double a, double b);

  // The value, its bound and its variance if `recipe` computes and stores this sum. Throws Error
  // (internal) if the recipe has products and sums in different dtypes: that bound is not derived.
  Expected expected(const Recipe& recipe) const;

  // For Expected::noise of sums that may be long: seven standard deviations of the sum before it is
  // stored. Products that are alike are rounded alike, so their errors add up: if the products
  // scatter by less than an eighth of their mean, the noise is the bound of that sum.
  double noise(const Recipe& recipe) const;

 private:
  void count(double product, int grain);
  int roundings() const { return terms_ + (is_scaled_ ? 1 : 0); }  // of each product
  bool is_exact(DType accumulate) const;
  double error(DType accumulate) const;     // of the sum before it is stored: the bound of the path's
  double variance(DType accumulate) const;  // of that error

  double sum_ = 0;
  double magnitude_ = 0;      // sum of |a*b|, scaled
  double squares_ = 0;        // sum of their squares
  int grain_;                 // exponent of g above, if terms_ > 0
  int terms_ = 0;             // products that are not zero
  bool is_scaled_ = false;    // whether any of them is
  double scales_ = 0;         // sum of |c| over those
  double square_scales_ = 0;  // sum of c^2
};

// n*unit / (1 - n*unit), for n roundings; infinite if there are too many to say anything.
double gamma(double n, double unit);

// The unit roundoff of sums in tensor cores, which truncate.
inline constexpr double kTensorCoreUnit = 0x1p-23;

// The exponent of the largest power of two that divides a finite, non-zero value.
constexpr int lowest_exponent(double value) {
  const auto bits = std::bit_cast<uint64_t>(value);
  const auto field = static_cast<int>(bits >> 52 & 0x7FF);
  const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
  return (field == 0 ? std::countr_zero(fraction)
                     : field - 1 + std::countr_zero(fraction | uint64_t{1} << 52)) -
         1074;
}

// How often the most frequent of the values occurs. No value is NaN. Equal values have equal
// rounding errors. Opposite values have opposite errors, which add up if the factors are opposite,
// too: so pass magnitudes.
double most_repeats(std::span<const double> values);

}  // namespace assay
