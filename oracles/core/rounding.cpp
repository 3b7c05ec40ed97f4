// SPDX-License-Identifier: Apache-2.0
// The roundings that a recipe declares.
#include <algorithm>
#include <cmath>

#include "oracles/core/arithmetic.h"

namespace assay {
namespace {

// A number of f32 that is no tie is at least 2^-24 of itself away from the nearest one. So these
// shifts move ties and nothing else: kTieShift in a sampled path, and kTieDoubt, which is wider, in
// the balls that hold it. Both survive the arithmetic in double, which loses 2^-53.
constexpr double kTieShift = 0x1p-50, kTieDoubt = 0x1p-40;

// The exponents of a scaled format. Products of six numbers of f32 lie between 2^-900 and 2^900, so
// nothing overflows or underflows. The last digits of the format's numbers are normal in double.
constexpr int kScaledExponents = 900;

}  // namespace

Ball Arithmetic::counted(Ball result) const {
  if (doubts_ != nullptr && result.radius > 0) ++*doubts_;
  return result;
}

Ball Arithmetic::round(DType storage, Ball value) const {
  if (!performs()) return value;
  const bool is_planted = has(Plant::Kind::kTruncated, Plant::kOutputs);
  Ball result = counted(rounded(format_of(storage), value,
                                is_planted ? Rounding::Mode::kTowardZero : Rounding::Mode::kNearestEven));
  result.is_signed = value.is_signed || (value.radius == 0 && value.mid != 0 && result.mid == 0);
  return result;
}

Ball Arithmetic::performed(const Rounding& rounding, Ball value, double lost) const {
  if (has(Plant::Kind::kNotRounded, rounding.site)) return value;
  const Rounding::Mode mode =
      has(Plant::Kind::kTruncated, rounding.site) ? Rounding::Mode::kTowardZero : rounding.mode;
  if (rounding.is_optional && mode_ == Mode::kSampled && chance(rounding.site.place) > 0) return value;
  Ball from = value;
  if (mode == Rounding::Mode::kNearest && value.is_finite()) {  // ties either way
    if (mode_ == Mode::kSampled)
      from.mid *= 1 + static_cast<double>(seed_ % 2) * kTieShift;
    else
      from.radius += kTieDoubt * std::abs(value.mid);
  }
  FloatFormat format = *float_format(rounding.format);
  if (rounding.is_scaled && value.is_finite()) {
    format.min_exponent = -kScaledExponents, format.max_exponent = kScaledExponents;
    if (mode_ == Mode::kSampled && lost > 0)  // its smallest number is at most twice `lost`
      format.min_exponent = std::ilogb(lost) + format.precision - static_cast<int>(seed_ % 2);
  }
  Ball result = rounded(format, from, mode);
  if (mode_ == Mode::kSampled) return result;
  if (!result.is_finite()) return counted(rounding.is_optional && value.is_finite() ? Ball::open() : result);
  if (rounding.is_scaled && lost > 0) {
    // What is at least 2^(p-1) smallest numbers is normal for each scale.
    const bool is_normal =
        std::abs(value.mid) - value.radius >= lost * static_cast<double>(1 << format.precision);
    const double underflow = mode == Rounding::Mode::kTowardZero ? 2 * lost : lost;
    if (!is_normal && (value.mid != 0 || value.radius > 0)) result.radius += underflow;
  }
  if (rounding.is_optional)
    result.radius = std::max(result.radius, std::abs(result.mid - value.mid) + value.radius);
  return counted(result);
}

}  // namespace assay
