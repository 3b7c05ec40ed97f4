// SPDX-License-Identifier: Apache-2.0
// What the values of a case's inputs are like: a regime, and ingredients that are mixed into it.
//
//   normal+zeros+infinities
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

// Where the input values come from. All are drawn in double from the case's seed and rounded to the
// tensor's dtype. The "common" precision and range are the lowest and narrowest among the dtypes of
// all inputs and outputs.
enum class Regime : uint8_t {
  kNormal,     // mean 0, standard deviation 1 (a sum of twelve uniforms, so |x| < 6)
  kUniform,    // [-1, 1)
  kPositive,   // [0.5, 1.5): nothing cancels
  kIntegers,   // non-zero integers, |x| <= 8: products and short sums are exact
  kOffset,     // mean/std from 10 to 1e6, as far as the common precision resolves std
  kHeavyTail,  // a quotient of uniforms: rare values up to 2^12 times the typical one
  kTiny,       // products of Op::least_degree values lie near the common range's smallest number
  // Products of as many values as the op multiplies (Op::degree) are as large as the common range
  // allows, and small enough for f32 sums of 4096 of them. f16 results may overflow.
  kHuge,
  kSubnormal,  // one input lies around the common range's smallest normal number, half of it below
  kConstant,   // one value per tensor
  kSpike,      // one input is all zeros except one element
  // One input has a few infinities and NaNs, at its first and last element, too; an eighth of the
  // others is 0.
  kNonfinite,
};

// What may be mixed into a regime. Except where it says otherwise, an ingredient is in about half
// of the inputs, at least in one, and each has its own choice. Where several reach an element, the
// last in this order stays.
enum class Ingredient : uint8_t {
  kEqual,  // all elements are one number from 0.5 to 1.5
  // Each index along one axis has its own power of two: each channel, or each row; or one index has
  // a large one. Products of as many values as the op multiplies stay within the square root of the
  // common range.
  kScales,
  // One input, or what has one index along an axis of it, is normal times a power of two near the
  // end of its dtype's range.
  kLargeInput,
  kSubnormalWeights,  // inputs after the first lie below the smallest normal number of their dtype
  kMask,              // all elements are 0 or 1
  kZeros,             // a quarter of the elements is 0, half of these -0
  kOnes,              // a quarter of the elements is 1
  kInfinities,        // of either sign: one element, and by the seed 1 in 64
  // The same, of either sign and any payload, quiet or signalling: often only the last bit, or all.
  kNans,
  // The rest change values before kLargeInput and what follows it do. They stand here since the
  // number of an ingredient chooses its random numbers. kLargeIndex and kNearLimit are in one
  // input, half of the time in the first: the data, or the gradient that comes in.
  //
  // One index along one axis is far above the others: a channel, a row, a token. The others are of
  // the regime, or far below, or 0.
  kLargeIndex,
  // Magnitudes lie from a half to all of the largest number of the input's dtype. The signs are
  // about even, or one is rare. In the other inputs magnitudes are at most 1, 1/4 or 1/8, or all of
  // them are this number.
  kNearLimit,
  // All inputs: products of Op::least_degree values lie about the common range's smallest normal
  // number or below, down to where all of them are 0.
  kTinyProducts,
};

std::span<const Regime> all_regimes();
std::span<const Ingredient> all_ingredients();
std::string_view name_of(Regime regime);          // "heavy_tail"
std::string_view name_of(Ingredient ingredient);  // "subnormal_weights"

class Data {
 public:
  Data(Regime regime = Regime::kNormal) : regime_(regime) {}  // NOLINT: a regime is data

  Data& mix_in(Ingredient ingredient);  // once is enough

  Regime regime() const { return regime_; }
  bool is_plain() const { return ingredients_.empty(); }
  bool has(Ingredient ingredient) const { return std::ranges::count(ingredients_, ingredient) != 0; }
  // Whether all values are finite.
  bool is_finite() const;
  // Whether, besides, the op's terms neither overflow nor fall below the smallest normal number of
  // f32: zeros, or magnitudes about 1.
  bool is_ordinary() const;

  std::string to_string() const;
  bool operator==(const Data&) const = default;

 private:
  Regime regime_;
  std::vector<Ingredient> ingredients_;  // ascending
};

// Throws Error (usage) that names the word.
Data parse_data(std::string_view text);

}  // namespace assay
