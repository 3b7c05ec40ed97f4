// SPDX-License-Identifier: Apache-2.0
// The arithmetic that an op's formula is written in. The formula stands once, as code over an
// Arithmetic, which evaluates it in one of four ways:
//
//   kExact    in double, without rounding: the exact value
//   kBall     through the roundings that the recipe declares: the computed value, and a ball around
//             it that holds what every right path computes. Right paths differ in the order of
//             their sums, in f32 arithmetic between the declared roundings, and in functions that
//             are right to some units
//   kCarried  as kBall, but nothing is rounded: what is in doubt stays in doubt. For all stages but
//             one, to see what that one does
//   kSampled  as one right path at random: a legal order for its sums, f32 arithmetic rounded,
//             functions off by what they are granted. Equal values are rounded alike, as paths do
//
// u = 2^-24, the unit roundoff of f32. Radii of sums and functions have a relative margin of 2^-20
// for terms of second order and for the oracle's own double arithmetic.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "kernels/core/op.h"
#include "oracles/core/ball.h"

namespace assay {

// A fault in place of the right thing, for specimens: what kernels get wrong, in terms of recipes.
struct Plant {
  enum class Kind : uint8_t {
    kNone,
    kTruncated,   // rounding toward zero at the site; kOutputs: of the outputs
    kNotRounded,  // at the site: a path that rounds less than it says
    kSumInBF16,   // the site's sum is kept in bf16
    kSumInF16,
    kLastTermDropped,      // of an eighth of the site's sums
    kCrossProductMissing,  // lo*hi of factors in two parts
    kSigmoidOff,           // by up to 5e-4
    kGeluOff,              // by up to 5e-4 of its tanh
    kEpsilonTimes10,
    kEpsilonOver10,
  };
  static constexpr Site kOutputs{1 << 20, "outputs"};

  Kind kind = Kind::kNone;
  Site site = {};
};

// What normalises the values of one example.
struct Moments {
  Ball mean, variance, rstd;
  bool is_alone = false;  // of one value, which is its own mean
};

class Arithmetic {
 public:
  enum class Mode : uint8_t { kExact, kBall, kCarried, kSampled };

  explicit Arithmetic(Mode mode, uint64_t seed = 0) : mode_(mode), seed_(seed) {}
  // In kBall; counts the declared roundings whose results stay in doubt.
  explicit Arithmetic(std::atomic<int64_t>* doubts) : mode_(Mode::kBall), seed_(0), doubts_(doubts) {}
  // In kSampled, with a fault.
  Arithmetic(const Plant& plant, uint64_t seed) : mode_(Mode::kSampled), seed_(seed), plant_(plant) {}
  // Rounds in stage number `only` alone.
  static Arithmetic of_stage(Mode mode, int only);

  Mode mode() const { return mode_; }
  // What a stage of the formula is evaluated in.
  const Arithmetic& at(int stage) const { return others_ == nullptr || stage == only_ ? *this : *others_; }

  // What the recipe does at a site. A path that scales chooses a power of two, so that nothing
  // overflows; what underflows then loses at most `lost`. Values in two parts are not rounded:
  // their products lack something (dot). Scaled, their rests lose at most `lost`, too.
  Ball round(const Rounding& rounding, const Ball& value, double lost = 0) const {
    if (!performs() || (is_split(rounding.format) && !rounding.is_scaled)) return value;
    return rounding.format == Format::kStored ? value : performed(rounding, value, lost);
  }
  // The rounding of an output. What is certain and not 0 keeps its sign if it becomes 0.
  Ball round(DType storage, const Ball& value) const;

  // One operation in f32: u of the result, and 2^-150 where it underflows. A fused path leaves some
  // of these roundings out, so none is performed in kBall.
  Ball add(const Ball& a, const Ball& b) const { return f32(a + b); }
  // The result is +0 only if both factors are certain and their product is +0. A product of -0 gets
  // no sign: a path may add it to +0.
  Ball multiply(const Ball& a, const Ball& b) const;
  // a * b + c in f32, fused or not: u of the product, and u of the result.
  Ball multiply_add(const Ball& a, const Ball& b, const Ball& c) const;

  // sum_i a_i * b_i, of equally many a and b, which are factors already. With n products that are
  // added up in S = sum |a_i b_i|, each goes through at most n roundings, so that the sum is wrong
  // by gamma_n * S, gamma_n = n * unit / (1 - n * unit) [Higham 2002, 3.1]. In contiguous order
  // each partial sum is the difference of two prefix sums, give or take one step of products. Let P
  // be their range: additions are off by n * unit * (P + the largest step + unit * S), and
  // products by unit * S. Each product may lose 2^-150 to underflow. The sum is exact, in any
  // order, where the factors are certain, 2^k divides all products and S <= 2^(k + 24). One product
  // of certain factors is rounded: what follows is not fused with it. A sum that is exactly 0 is +0
  // in any order, unless all its terms are -0: then it is -0, or +0 in a path that starts from +0.
  // What is not certain of the factors adds sum |a| r(b) + r(a) |b| + r(a) r(b). Infinities and
  // NaNs follow IEEE 754. The ball is open where some orders overflow and others do not, or where
  // any does but scaled factors may keep the sum in range.
  //
  // Factors in two parts of precision p leave out lo*lo and both rests: 3 * 2^-2p of |a*b|. A rest
  // that underflows loses at most the format's smallest number; if scaled, what round() says. A
  // group adds at most `group` products in f32. The f64 additions of up to 2^29 groups add one u.
  //
  // Paths that add up evenly have `roundings` in place of n, if these are fewer.
  Ball dot(const Row& a, const Row& b, const Sum& sum, size_t roundings = SIZE_MAX) const;

  // 1 / (1 + e^-z) in f32: off by 4u of itself for the quotient, and by (8 + 2|z|) u (1 - sigmoid)
  // for the argument of the exponential. An approximate quotient is 0 where the denominator exceeds
  // 2^126, which is another 2^-126. Monotone: the ball holds what becomes of the ends.
  Ball sigmoid(const Ball& z) const;
  // z/2 * (1 + tanh(sqrt(2/pi) * (z + 0.044715 z^3))) in f32: off by 8u of itself and 4u |z|, for a
  // sum that cancels at most as 1 + tanh does. Has one minimum, just above -0.17004075058, and is
  // monotone on either side.
  Ball gelu(const Ball& z) const;
  // 1 / sqrt(v + epsilon) for v >= 0 in f32: off by 4u of itself. Rounding epsilon and the sum is
  // u of it, root and quotient are 2u. GPUs have an approximation in their place, off by 2^-22.9 =
  // 2.2u [PTX, rsqrt.approx.f32], and rsqrtf by somewhat more.
  Ball rsqrt(const Ball& v, double epsilon) const;

  // Norms of rows add up evenly, as in 32 lanes or in parts of 32: a term goes through at most
  // min(n, 36 + n/32) roundings, those of its product and of additions.
  static constexpr size_t kMostOfRow = 36;
  // mean(v_i^2): dot(v, v) of a row with so many roundings, times 1/n.
  Ball mean_square(const Row& v, const Sum& sum) const;
  // (v_i - mean(v)) / sqrt(variance(v) + epsilon) * weight_i + bias_i in f32, two passes over
  // deviations from one of the row's own values; a term of a sum goes through half as many
  // additions on average. Some paths round the mean to f32. The derivation stands at the
  // definition.
  void layer_norm(const Row& v, const Row& weight, const Row& bias, double epsilon, bool rounds_mean,
                  Balls& to) const;

  // A constant of the formula. A path holds it in f32 or in f64: u of itself, if f32 rounds it.
  Ball constant(double value) const;

  // Sums over an example in f64, with v = 2^-53. A sum of n numbers has n - 1 additions, and a mean
  // divides it. Each operation is off by v of a partial result. So a mean is off by at most
  // 4 (n - 1) v of the mean magnitude; for one number it is exact.
  //
  // The mean of a_i * b_i, rounded to f32 (u). A path may multiply by the differences from one of
  // the b, and correct the sum by it: 3 max |b| takes the place of |b|. What is not certain of the
  // factors adds mean(|a| r(b) + r(a) |b| + r(a) r(b)).
  Ball mean_of_products(const Row& a, const Row& b) const;
  // The sum of what dot() made in groups, rounded to f32 or not (u).
  Ball total(const Row& sums) const;

  // d = value - mean, for a value of f32. A path keeps the mean in f64, or as high + low in f32,
  // which it subtracts in turn. high is the number of f32 nearest to the mean, so |low| <= |d|, and
  // low is off by u |d|, or by 2^-149 for underflow. The first difference is exact if the value and
  // high are within a factor of 2 [Sterbenz]. Else |mean| is about 2 |d| at most: the first
  // difference is off by u |d|, and low by no more than 2u^2 |d|. The last difference is rounded.
  // So d is off by 2u |d|. A mean that is a number of f32 is kept as it is. Where f32 would
  // overflow, a path scales.
  Ball deviation(const Ball& value, const Ball& mean) const;
  // Of n values c with radii r, let d = c - mean, and let R be the range of their balls. Sums in
  // f64 are those of differences from one of the values.
  //   mean      mean(r) + 4 (n - 1) v (|mean| + 2R); exact if R = 0
  //   variance  Errors e change it by mean(2 d e + e^2) - mean(e)^2, at most mean(2 |d| r + r^2).
  //             The squares add 8 (n - 1) v R^2. The mean's error in f64 adds its square.
  //   rstd      rsqrt(variance, epsilon)
  Moments moments(const Row& values, double epsilon) const;
  // deviation(value, mean) * rstd, for one of these values. 0 for a value that is alone.
  Ball normalise(const Ball& value, const Moments& moments) const;

 private:
  Ball performed(const Rounding& rounding, const Ball& value, double lost) const;
  // What becomes of a ball: the function's value at its middle, and how far it goes from there. In
  // f32 it is off by `granted` and loses `lost` to underflow, both times u; planted, by `fault`.
  struct Image {
    double value, reach, granted, lost, fault = 0;
  };
  Ball in_f32(const Ball& z, const Image& image) const;
  // What f32 makes of a result, whose partial results reach `magnitude`.
  Ball f32(const Ball& exact, double magnitude) const;
  Ball f32(const Ball& exact) const { return f32(exact, std::abs(exact.mid)); }
  // A number in [-1, 1] that depends on the seed and `value` alone. An end of it for two seeds.
  double chance(double value) const;
  Ball sampled_dot(const Row& a, const Row& b, const Sum& sum, size_t roundings) const;
  void sampled_layer_norm(const Row& v, const Row& weight, const Row& bias, double epsilon, bool rounds_mean,
                          Balls& to) const;
  Ball sampled_deviation(double value, double mean) const;
  Moments sampled_moments(const Row& values, double epsilon) const;

  bool is_doubtful() const { return mode_ == Mode::kBall || mode_ == Mode::kCarried; }
  double unit() const { return mode_ == Mode::kBall ? 0x1p-24 : 0; }
  double underflow() const { return unit() * 0x1p-126; }
  // What sums of n numbers in f64 are off by, relative to the mean magnitude.
  double in_f64(size_t n) const {
    return mode_ == Mode::kBall ? 4 * static_cast<double>(n - 1) * 0x1p-53 : 0;
  }
  bool performs() const { return mode_ == Mode::kBall || mode_ == Mode::kSampled; }
  bool has(Plant::Kind kind) const { return plant_.kind == kind; }
  bool has(Plant::Kind kind, const Site& site) const { return has(kind) && plant_.site == site; }
  Ball counted(Ball result) const;
  // The epsilon that a path uses.
  double planted(double epsilon) const;

  Mode mode_;
  uint64_t seed_;
  std::atomic<int64_t>* doubts_ = nullptr;
  Plant plant_ = {};
  int only_ = 0;
  std::shared_ptr<const Arithmetic> others_ = {};  // in all other stages
};

}  // namespace assay
