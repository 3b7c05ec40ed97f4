// SPDX-License-Identifier: Apache-2.0
#include "oracles/core/ball.h"

#include "kernels/core/error.h"

namespace assay {

const FloatFormat* float_format(Format format) {
  static const FloatFormat f16 = format_of(DType::kF16), bf16 = format_of(DType::kBF16);
  switch (format) {
    case Format::kStored:
      return nullptr;
    case Format::kF16:
    case Format::kF16x3:
      return &f16;
    case Format::kBF16:
    case Format::kBF16x3:
      return &bf16;
    case Format::kTF32:
      return &kTF32Format;
  }
  throw Error("Format({}) is not a format", static_cast<int>(format));
}

double overflow_threshold(const FloatFormat& format) {
  return std::ldexp(2 - std::ldexp(1, -format.precision), format.max_exponent);
}

double ulp_at(const FloatFormat& format, double value) {
  const auto biased = static_cast<int>(std::bit_cast<uint64_t>(std::abs(value)) >> 52);
  const int exponent = std::max(biased - 1023, format.min_exponent);
  return std::bit_cast<double>(static_cast<uint64_t>(exponent - format.precision + 1024) << 52);
}

namespace {

double nearest(const FloatFormat& format, double value) {
  if (!std::isfinite(value) || format.precision == 53) return value;
  // Adding 3/2 * 2^52 units leaves room for no smaller digit.
  const double shift = 0x1.8p52 * ulp_at(format, value);
  const double result = std::copysign(std::abs(value) + shift - shift, value);
  const auto end = std::bit_cast<double>(static_cast<uint64_t>(format.max_exponent + 1024) << 52);
  return std::abs(result) < end ? result : std::copysign(HUGE_VAL, value);
}

}  // namespace

double rounded(const FloatFormat& format, double value, Rounding::Mode mode) {
  const double result = nearest(format, value);
  if (mode != Rounding::Mode::kTowardZero || !(std::abs(result) > std::abs(value))) return result;
  if (std::isinf(result))
    return std::copysign(std::ldexp(2 - std::ldexp(1, 1 - format.precision), format.max_exponent), value);
  return result - std::copysign(ulp_at(format, value), value);
}

Ball rounded(const FloatFormat& format, const Ball& ball, Rounding::Mode mode) {
  if (!std::isfinite(ball.mid) || ball.is_open()) return ball;
  if (ball.radius == 0) return {rounded(format, ball.mid, mode), 0};
  const double low = rounded(format, ball.mid - ball.radius, mode);
  const double high = rounded(format, ball.mid + ball.radius, mode);
  if (low == high) return {low, 0};
  const double mid = rounded(format, ball.mid, mode);
  return std::isfinite(low) && std::isfinite(high) ? Ball{mid, std::max(high - mid, mid - low)}
                                                   : Ball::open();
}

}  // namespace assay
