// SPDX-License-Identifier: Apache-2.0
#include "kernels/core/dtype.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/core/error.h"
#include "kernels/core/printable.h"

namespace assay {
namespace {

constexpr FloatFormat kF16Format{11, -14, 15};
constexpr FloatFormat kBF16Format{8, -126, 127};

// 2^exponent, for exponents from -1074 to 1023.
double power_of_two(int exponent) {
  const uint64_t bits = exponent < -1022 ? uint64_t{1} << (exponent + 1074) : uint64_t(exponent + 1023) << 52;
  return std::bit_cast<double>(bits);
}

// The exponent of the last significand bit of a number as large as |value|. `value` is finite.
int last_bit_exponent(FloatFormat format, double value) {
  const auto field = static_cast<int>(std::bit_cast<uint64_t>(value) >> 52 & 0x7FF);
  return std::max(field - 1023, format.min_exponent) - (format.precision - 1);
}

// Encodes into sign | exponent | significand with 16 bits in all.
uint16_t encode16(FloatFormat format, double value) {
  const int stored = format.precision - 1;  // significand bits that are stored
  const auto infinity = static_cast<uint16_t>((0x7FFF >> stored) << stored);
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return static_cast<uint16_t>(sign | infinity | (1 << (stored - 1)));
  if (std::isinf(value)) return sign | infinity;

  const uint64_t magnitude = std::bit_cast<uint64_t>(value) << 1 >> 1;
  const int exponent = static_cast<int>(magnitude >> 52) - 1023;
  if (exponent >= format.min_exponent && exponent <= format.max_exponent) {
    // Half a unit less a bit rounds up what is nearer to the next number, and one bit more an odd
    // number in the middle. Both fields lie as in a double, with another bias.
    const int dropped = 52 - stored;  // [bits]
    const uint64_t half = uint64_t{1} << (dropped - 1), is_odd = magnitude >> dropped & 1;
    const uint64_t bias = static_cast<uint64_t>(1022 + format.min_exponent) << stored;
    return static_cast<uint16_t>(sign | (((magnitude + half - 1 + is_odd) >> dropped) - bias));
  }
  const int last = last_bit_exponent(format, value);
  // A double beside 2^52 has no fraction bits, so adding 2^52 rounds the fraction away, to nearest
  // even.
  const double rounded = (std::abs(value) * power_of_two(-last) + 0x1p52) - 0x1p52;
  const auto units = static_cast<uint32_t>(rounded);
  // units < 2^stored: subnormal, exponent field 0. Otherwise the hidden bit lands on the exponent
  // field and raises it by one, which also carries a significand that rounded up to 2^precision.
  const int field = last + stored - format.min_exponent;
  const uint32_t bits = (static_cast<uint32_t>(field) << stored) + units;
  return static_cast<uint16_t>(sign | (bits < infinity ? bits : infinity));
}

double decode16(FloatFormat format, uint16_t bits) {
  const int stored = format.precision - 1;
  const int field = (bits & 0x7FFF) >> stored;
  const int units = bits & ((1 << stored) - 1);
  const double sign = bits & 0x8000 ? -1 : 1;
  if (field == 0x7FFF >> stored) {
    return std::copysign(units == 0 ? std::numeric_limits<double>::infinity() : std::nan(""), sign);
  }
  const int hidden = field == 0 ? 0 : 1 << stored;
  const int exponent = (field == 0 ? 1 : field) - 1 + format.min_exponent - stored;
  return sign * (units + hidden) * power_of_two(exponent);
}

}  // namespace

void throw_bad_dtype(DType dtype) {
  throw Error("DType({}) is not a dtype", static_cast<int>(dtype));
}

FloatFormat format_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return {53, -1022, 1023};
    case DType::kF32:
      return {24, -126, 127};
    case DType::kF16:
      return kF16Format;
    case DType::kBF16:
      return kBF16Format;
  }
  throw_bad_dtype(dtype);
}

size_t size_of(DType dtype) {
  return visit(dtype, []<class T>(std::type_identity<T>) { return sizeof(T); });
}

std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return "f64";
    case DType::kF32:
      return "f32";
    case DType::kF16:
      return "f16";
    case DType::kBF16:
      return "bf16";
  }
  throw_bad_dtype(dtype);
}

DType parse_dtype(std::string_view text) {
  for (DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) {
    if (text == name_of(dtype)) return dtype;
  }
  // Recipes and files may be f64, and parsing it is no error. No path stores f64, so the message
  // does not offer it.
  throw usage_error("dtype '{}' is not one of f32, f16, bf16", excerpt(text));
}

double max_finite(DType dtype) {
  const FloatFormat format = format_of(dtype);
  return (2 - power_of_two(1 - format.precision)) * power_of_two(format.max_exponent);
}

double ulp_at(DType dtype, double value) {
  return power_of_two(last_bit_exponent(format_of(dtype), value));
}

f16 to_f16(double value) {
  return {encode16(kF16Format, value)};
}
bf16 to_bf16(double value) {
  return {encode16(kBF16Format, value)};
}
double to_double(f16 value) {
  return decode16(kF16Format, value.bits);
}
double to_double(bf16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

}  // namespace assay
