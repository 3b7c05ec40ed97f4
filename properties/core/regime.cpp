// SPDX-License-Identifier: Apache-2.0
#include "properties/core/regime.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace assay {
namespace {

// A stream number beyond those of the tensors, for choices that concern a whole case.
constexpr uint64_t kChoiceStream = 1000;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A power of ten from 10 up to 1e6. A number of that size still resolves an eighth of the standard
// deviation, and a product of `degree` of them is finite.
double offset_ratio(uint64_t bits, const FloatFormat& common, int degree) {
  const double largest =
      std::min(std::ldexp(1.0, common.precision) / 8, std::ldexp(1.0, common.max_exponent / degree));
  double ratio = 10;
  for (uint64_t steps = bits % 6; steps > 0 && ratio * 10 <= largest; --steps) ratio *= 10;
  return ratio;
}

}  // namespace

FloatFormat common_format(std::span<const DType> dtypes) {
  FloatFormat common = format_of(DType::kF64);
  for (DType dtype : dtypes) {
    const FloatFormat format = format_of(dtype);
    common.precision = std::min(common.precision, format.precision);
    common.min_exponent = std::max(common.min_exponent, format.min_exponent);
    common.max_exponent = std::min(common.max_exponent, format.max_exponent);
  }
  return common;
}

namespace {

// Lanes of random numbers beyond those of the regimes. Each ingredient has its own.
uint64_t lane_of(Ingredient ingredient) {
  return 16 + static_cast<uint64_t>(ingredient);
}

constexpr uint64_t kPayloads = 16, kPlaces = 32;  // lanes beyond those of the ingredients

// Whether an ingredient that about half of the inputs have is in this one.
bool has(Ingredient ingredient, const CounterRandom& choice, int tensor, int tensors) {
  const uint64_t bits = choice.bits(2, lane_of(ingredient));
  const bool is_drawn = (choice.bits(3 + static_cast<uint64_t>(tensor), lane_of(ingredient)) & 1) != 0;
  return is_drawn || bits % static_cast<uint64_t>(tensors) == static_cast<uint64_t>(tensor);
}

// Whether this is the one input that has the ingredient: the first in half of the cases, else any.
bool is_the_one(Ingredient ingredient, const CounterRandom& choice, int tensor, int tensors) {
  const uint64_t bits = choice.bits(2, lane_of(ingredient));
  const uint64_t one = bits % 2 == 0 ? 0 : bits / 2 % static_cast<uint64_t>(tensors);
  return one == static_cast<uint64_t>(tensor);
}

// Whether an ingredient of the case is in this input.
bool is_drawn_for(Ingredient ingredient, const CounterRandom& choice, const Drawn& input, bool is_chosen) {
  switch (ingredient) {
    case Ingredient::kLargeInput:
      return is_chosen;
    case Ingredient::kSubnormalWeights:
      return input.tensor > 0;
    case Ingredient::kLargeIndex:
      return is_the_one(ingredient, choice, input.tensor, input.tensors);
    case Ingredient::kNearLimit:  // which input has it decides about the values of the others, too
    case Ingredient::kTinyProducts:
      return true;
    case Ingredient::kEqual:
    case Ingredient::kScales:
    case Ingredient::kMask:
    case Ingredient::kZeros:
    case Ingredient::kOnes:
    case Ingredient::kInfinities:
    case Ingredient::kNans:
      return has(ingredient, choice, input.tensor, input.tensors);
  }
  throw Error("Ingredient({}) is not an ingredient", static_cast<int>(ingredient));
}

// The elements along an axis of a row-major tensor.
Along along(const Extents& shape, int axis) {
  Along along{.size = std::max<int64_t>(shape[axis], 1)};
  for (int inner = axis + 1; inner < shape.rank(); ++inner)
    along.stride *= std::max<int64_t>(shape[inner], 1);
  return along;
}

// By the seed each index of an axis, or in two of five cases one: the first, the last or another.
Along along_axis_of(const Extents& shape, const CounterRandom& random, Ingredient ingredient) {
  if (shape.rank() == 0) return {};
  const auto bits = [&](uint64_t lane) { return random.bits(0, lane_of(ingredient) + lane); };
  Along along = assay::along(shape, static_cast<int>(bits(0) % static_cast<uint64_t>(shape.rank())));
  const uint64_t place = bits(kPlaces) % 10;
  if (place == 0) along.only = 0;
  if (place == 1) along.only = along.size - 1;
  if (place == 2 || place == 3)
    along.only = static_cast<int64_t>(bits(kPlaces + 16) % static_cast<uint64_t>(along.size));
  return along;
}

}  // namespace

Drawing::Drawing(const Data& data, uint64_t seed, const Drawn& input)
    : regime_(data.regime()),
      random_(seed, static_cast<uint64_t>(input.tensor)),
      lowest_(std::ldexp(1.0, input.common.min_exponent)),
      elements_(element_count(input.shape)) {
  const CounterRandom choice(seed, kChoiceStream);
  const FloatFormat& common = input.common;
  chosen_ = choice.bits(0) % static_cast<uint64_t>(input.tensors) == static_cast<uint64_t>(input.tensor);
  special_ = elements_ > 0 ? static_cast<int64_t>(random_.bits(0, 7) % static_cast<uint64_t>(elements_)) : -1;
  // The exponent of a product of `degree` values is `degree` times theirs. 2^114 leaves room in f32
  // for sums of 2^12 terms of up to 36 standard deviations. An f16 result may overflow; then the
  // exact answer is an infinity, too.
  constexpr int kLargestExponent = 114;
  if (regime_ == Regime::kTiny) scale_ = std::ldexp(1.0, (common.min_exponent + 4) / input.least_degree);
  if (regime_ == Regime::kHuge)
    scale_ = std::ldexp(1.0, std::min(common.max_exponent, kLargestExponent) / input.degree);
  if (regime_ == Regime::kOffset) center_ = offset_ratio(choice.bits(1), common, input.degree);
  if (regime_ == Regime::kConstant) center_ = 0.5 + random_.uniform(0, 8);
  for (Ingredient ingredient : all_ingredients()) {
    if (data.has(ingredient) && is_drawn_for(ingredient, choice, input, chosen_))
      ingredients_ |= 1u << static_cast<int>(ingredient);
  }
  const FloatFormat own = format_of(input.dtype);
  lowest_of_own_ = std::ldexp(1.0, own.min_exponent);
  largest_of_own_ = max_finite(input.dtype);
  // From 2^-3 of the largest number, which normal values do not exceed, down to 2^-10 of it.
  large_ = std::ldexp(1.0, own.max_exponent - 3 - static_cast<int>(choice.bits(1, 1) % 8));
  large_along_ = along_axis_of(input.shape, random_, Ingredient::kLargeInput);
  equal_ = 0.5 + random_.uniform(0, lane_of(Ingredient::kEqual));
  if (is_in(Ingredient::kLargeIndex)) choose_large_index(input);
  if (is_in(Ingredient::kNearLimit)) choose_near_limit(choice, input);
  if (is_in(Ingredient::kTinyProducts)) {
    // At the upper end products of normal values are normal numbers. At the lower end they vanish,
    // although each value may reach 2^3.
    const int most = common.min_exponent + 4, steps = common.precision + 3 * input.least_degree + 10;
    const auto below =
        static_cast<int>(choice.bits(0, lane_of(Ingredient::kTinyProducts)) % static_cast<uint64_t>(steps));
    tiny_ = std::ldexp(1.0, (most - below) / input.least_degree);
  }
  if (!is_in(Ingredient::kScales)) return;
  scaled_along_ = along_axis_of(input.shape, random_, Ingredient::kScales);
  largest_scale_ = common.max_exponent / (2 * input.degree);
}

void Drawing::choose_large_index(const Drawn& input) {
  if (input.shape.rank() == 0) return;
  const auto choice = [&](uint64_t number, int64_t below) {
    const uint64_t bits = random_.bits(number, lane_of(Ingredient::kLargeIndex));
    return static_cast<int64_t>(bits % static_cast<uint64_t>(below));
  };
  // Half of the time a channel, which lies in each row. Kernels like to start from the first.
  const int last_axis = input.shape.rank() - 1;
  const int64_t axis = choice(0, 2) == 0 ? last_axis : choice(1, last_axis + 1);
  index_along_ = along(input.shape, static_cast<int>(axis));
  const int64_t place = choice(2, 6);
  index_along_.only = place < 2 ? 0 : place == 2 ? index_along_.size - 1 : choice(3, index_along_.size);
  // Up to 2^-3 of the largest number, which normal values do not exceed. In half of the cases,
  // products of as many such values as the op multiplies are finite, too.
  const FloatFormat own = format_of(input.dtype);
  const int64_t most = (own.max_exponent - 3) / (choice(4, 2) == 0 ? 1 : input.degree);
  const int64_t least = std::min<int64_t>(4, most);
  at_index_ = std::ldexp(1.0, static_cast<int>(least + choice(5, most - least + 1)));
  const int64_t others = choice(6, 4);
  if (others == 2) elsewhere_ = std::ldexp(1.0, -static_cast<int>(choice(7, 1 - own.min_exponent)));
  if (others == 3) elsewhere_ = 0;
}

void Drawing::choose_near_limit(const CounterRandom& choice, const Drawn& input) {
  const auto bits = [&](uint64_t number) { return choice.bits(number, lane_of(Ingredient::kNearLimit)); };
  const bool is_near_limit = is_the_one(Ingredient::kNearLimit, choice, input.tensor, input.tensors);
  // Sums of several products are finite if the other factors are small enough.
  constexpr double kOthers[] = {1, 1, 0.25, 0.125};
  limit_ = is_near_limit ? largest_of_own_ : kOthers[bits(0) % std::size(kOthers)];
  if (is_near_limit && bits(1) % 2 == 0) one_sign_in_ = 8;
  least_part_ = is_near_limit ? 0.5 : static_cast<double>(bits(3) % 2);
}

double Drawing::operator()(int64_t element) const {
  const auto i = static_cast<uint64_t>(element);
  if (is_special(Ingredient::kNans, element)) {
    constexpr uint64_t kExponent = uint64_t{0x7FF} << 52, kNoInfinity = 1;
    uint64_t bits = random_.bits(i, lane_of(Ingredient::kNans));
    // Code that rounds the bits of a NaN as if they were a number's makes an infinity of the last
    // bit alone, and carries all bits into the sign.
    const uint64_t payload = random_.bits(i, lane_of(Ingredient::kNans) + kPayloads) % 3;
    if (payload == 0) bits &= uint64_t{1} << 63;
    if (payload == 1) bits |= ~(uint64_t{1} << 63);
    return std::bit_cast<double>(bits | kExponent | kNoInfinity);
  }
  if (is_special(Ingredient::kInfinities, element))
    return (random_.bits(i, lane_of(Ingredient::kInfinities)) >> 63) != 0 ? -kInfinity : kInfinity;
  return ordinary(element);
}

void Drawing::draw(int64_t first, std::span<double> values) const {
  if (ingredients_ == 0 && regime_ == Regime::kNormal)
    return random_.normals(static_cast<uint64_t>(first), values);
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t element = first + static_cast<int64_t>(i);
    values[i] = ingredients_ == 0 ? of_regime(element) : (*this)(element);
  }
}

bool Drawing::is_special(Ingredient ingredient, int64_t element) const {
  if (!is_in(ingredient)) return false;
  const auto of_tensor = random_.bits(static_cast<uint64_t>(elements_), lane_of(ingredient));
  if (element == static_cast<int64_t>((of_tensor >> 1) % static_cast<uint64_t>(elements_))) return true;
  const bool are_many = (of_tensor & 1) != 0;
  return are_many && random_.bits(static_cast<uint64_t>(element), lane_of(ingredient)) % 64 == 0;
}

double Drawing::ordinary(int64_t element) const {
  const auto i = static_cast<uint64_t>(element);
  const auto bits = [&](Ingredient ingredient) { return random_.bits(i, lane_of(ingredient)); };
  if (is_in(Ingredient::kOnes) && bits(Ingredient::kOnes) % 4 == 0) return 1;
  if (is_in(Ingredient::kZeros) && bits(Ingredient::kZeros) % 4 == 0)
    return bits(Ingredient::kZeros) >> 63 != 0 ? -0.0 : 0.0;
  if (is_in(Ingredient::kMask)) return bits(Ingredient::kMask) % 2 == 0 ? 0 : 1;
  if (is_in(Ingredient::kSubnormalWeights))
    return (2 * random_.uniform(i, lane_of(Ingredient::kSubnormalWeights)) - 1) * lowest_of_own_;
  if (is_in(Ingredient::kLargeInput) && large_along_.has(element)) return large_ * random_.normal(i);
  return is_in(Ingredient::kNearLimit) ? near_limit(element) : scaled(element);
}

double Drawing::near_limit(int64_t element) const {
  const auto i = static_cast<uint64_t>(element);
  const double part = random_.uniform(i, lane_of(Ingredient::kNearLimit));
  const bool is_negative = random_.bits(i, lane_of(Ingredient::kNearLimit) + kPayloads) % one_sign_in_ == 0;
  const double magnitude = limit_ * (least_part_ + (1 - least_part_) * part);
  return is_negative ? -magnitude : magnitude;
}

double Drawing::scaled(int64_t element) const {
  double value = is_in(Ingredient::kEqual) ? equal_ : of_regime(element);
  if (largest_scale_ != 0 && scaled_along_.has(element))
    value = std::ldexp(value, scaled_along_.only >= 0 ? largest_scale_ : scale_at(element));
  value *= tiny_;
  if (!is_in(Ingredient::kLargeIndex)) return value;
  value *= index_along_.has(element) ? at_index_ : elsewhere_;
  return std::isfinite(value) ? std::clamp(value, -largest_of_own_, largest_of_own_) : value;
}

int Drawing::scale_at(int64_t element) const {
  const auto along = static_cast<uint64_t>(scaled_along_.index_of(element));
  const uint64_t steps =
      random_.bits(along, lane_of(Ingredient::kScales)) % (2 * static_cast<uint64_t>(largest_scale_) + 1);
  return static_cast<int>(steps) - largest_scale_;
}

double Drawing::of_regime(int64_t element) const {
  const auto i = static_cast<uint64_t>(element);
  switch (regime_) {
    case Regime::kNormal:
      return random_.normal(i);
    case Regime::kUniform:
      return 2 * random_.uniform(i) - 1;
    case Regime::kPositive:
      return 0.5 + random_.uniform(i);
    case Regime::kIntegers: {
      const uint64_t bits = random_.bits(i);
      const auto magnitude = static_cast<double>(1 + bits % 8);
      return (bits >> 63) != 0 ? -magnitude : magnitude;
    }
    case Regime::kOffset:
      return center_ + random_.normal(i);
    case Regime::kHeavyTail:
      return (2 * random_.uniform(i) - 1) / std::max(random_.uniform(i, 1), 0x1p-12);
    case Regime::kTiny:
    case Regime::kHuge:
      return scale_ * random_.normal(i);
    case Regime::kSubnormal: {
      if (!chosen_) return random_.normal(i);
      const double sign = (random_.bits(i) & 1) != 0 ? -1 : 1;
      const double subnormal = random_.uniform(i, 1);
      const bool is_subnormal = (random_.bits(i) & 2) != 0;
      return sign * lowest_ * (is_subnormal ? subnormal : 1 + 3 * subnormal);
    }
    case Regime::kConstant:
      return center_;
    case Regime::kSpike:
      if (!chosen_) return random_.normal(i);
      return element == special_ ? 1.5 : 0;
    case Regime::kNonfinite: {
      const uint64_t bits = random_.bits(i, 4);
      if (!chosen_ && bits % 8 == 0) return bits >> 63 != 0 ? -0.0 : 0.0;
      if (!chosen_) return random_.normal(i);
      // Padding and tails lie at the ends.
      const bool at_an_end = element == 0 || element == elements_ - 1;
      if (!at_an_end && element != special_ && bits % 64 != 0) return random_.normal(i);
      const uint64_t kind = (bits >> 32) % 3;
      return kind == 0 ? kInfinity : kind == 1 ? -kInfinity : std::numeric_limits<double>::quiet_NaN();
    }
  }
  throw Error("Regime({}) is not a regime", static_cast<int>(regime_));
}

bool is_continuous(const Data& data) {
  if (!data.is_plain()) return false;
  switch (data.regime()) {
    case Regime::kNormal:
    case Regime::kUniform:
    case Regime::kPositive:
    case Regime::kHeavyTail:
      return true;
    case Regime::kIntegers:
    case Regime::kOffset:
    case Regime::kTiny:
    case Regime::kHuge:
    case Regime::kSubnormal:
    case Regime::kConstant:
    case Regime::kSpike:
    case Regime::kNonfinite:
      return false;
  }
  throw Error("Regime({}) is not a regime", static_cast<int>(data.regime()));
}

}  // namespace assay
