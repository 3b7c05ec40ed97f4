// SPDX-License-Identifier: Apache-2.0
#include "properties/core/regime.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace assay {
namespace {

// A stream number beyond those of the tensors, for choices that concern a whole case.
constexpr uint64_t kChoiceStream = 1000;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A power of ten from 10 up to 1e5. A number of that size still resolves an eighth of the standard
// deviation, and a product of `degree` of them is finite.
double offset_ratio(uint64_t bits, const FloatFormat& common, int degree) {
  const double largest =
      std::min(std::ldexp(1.0, common.precision) / 8, std::ldexp(1.0, common.max_exponent / degree));
  double ratio = 10;
  for (uint64_t steps = bits % 5; steps > 0 && ratio * 10 <= largest; --steps) ratio *= 10;
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

Drawing::Drawing(Regime regime, uint64_t seed, int tensor, int tensors, const FloatFormat& common,
                 int64_t elements, int degree, int least_degree)
    : regime_(regime),
      random_(seed, static_cast<uint64_t>(tensor)),
      lowest_(std::ldexp(1.0, common.min_exponent)) {
  const CounterRandom choice(seed, kChoiceStream);
  last_ = elements - 1;
  chosen_ = tensors > 0 && choice.bits(0) % static_cast<uint64_t>(tensors) == static_cast<uint64_t>(tensor);
  special_ = elements > 0 ? static_cast<int64_t>(random_.bits(0, 7) % static_cast<uint64_t>(elements)) : -1;
  // The exponent of a product of `degree` values is `degree` times theirs. 2^114 leaves room in f32
  // for sums of 2^12 terms of up to 36 standard deviations. An f16 result may overflow; then the
  // exact answer is an infinity, too.
  constexpr int kLargestExponent = 114;
  if (regime == Regime::kTiny) scale_ = std::ldexp(1.0, (common.min_exponent + 4) / least_degree);
  if (regime == Regime::kHuge)
    scale_ = std::ldexp(1.0, std::min(common.max_exponent, kLargestExponent) / degree);
  if (regime == Regime::kOffset) center_ = offset_ratio(choice.bits(1), common, degree);
  if (regime == Regime::kConstant) center_ = 0.5 + random_.uniform(0, 8);
}

double Drawing::operator()(int64_t element) const {
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
      if (!chosen_) return random_.normal(i);
      const uint64_t bits = random_.bits(i, 4);
      const bool at_an_end = element == 0 || element == last_;  // padding and tails lie there
      if (!at_an_end && element != special_ && bits % 64 != 0) return random_.normal(i);
      const uint64_t kind = (bits >> 32) % 3;
      return kind == 0 ? kInfinity : kind == 1 ? -kInfinity : std::numeric_limits<double>::quiet_NaN();
    }
  }
  throw Error("Regime({}) is not a regime", static_cast<int>(regime_));
}

bool is_continuous(Regime regime) {
  switch (regime) {
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
  throw Error("Regime({}) is not a regime", static_cast<int>(regime));
}

}  // namespace assay
