// SPDX-License-Identifier: Apache-2.0
// Element types, their formats, and exact conversions between them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace assay {

enum class DType : uint8_t { kF64, kF32, kF16, kBF16 };

// IEEE binary16 and bfloat16 as storage: 16 bits without arithmetic. Compute in float or double.
struct f16 {
  uint16_t bits;
};
struct bf16 {
  uint16_t bits;
};

// A binary floating-point format with gradual underflow. A significand has `precision` bits, the
// leading bit included. Normal numbers range from 2^min_exponent to
// (2 - 2^(1-precision)) * 2^max_exponent.
struct FloatFormat {
  int precision;     // [bits]
  int min_exponent;  // exponent of the smallest normal number
  int max_exponent;  // exponent of the largest finite number
};

FloatFormat format_of(DType dtype);
size_t size_of(DType dtype);               // [bytes]
std::string_view name_of(DType dtype);     // "f64", "f32", "f16", "bf16"
DType parse_dtype(std::string_view text);  // throws Error for any other text
double max_finite(DType dtype);            // the largest finite value
double ulp_at(DType dtype, double value);  // spacing of `dtype` at |value|, value finite

// Round to nearest, ties to even. Too large a value becomes an infinity, subnormals are kept, and a
// NaN becomes a quiet NaN of the same sign.
f16 to_f16(double value);
bf16 to_bf16(double value);
double to_double(f16 value);   // exact
double to_double(bf16 value);  // exact

inline double to_double(double value) {
  return value;
}
inline double to_double(float value) {
  return value;
}

template <class T>
T from_double(double value) {
  if constexpr (std::is_same_v<T, f16>) {
    return to_f16(value);
  } else if constexpr (std::is_same_v<T, bf16>) {
    return to_bf16(value);
  } else {
    return static_cast<T>(value);
  }
}

template <class T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<double>() {
  return DType::kF64;
}
template <>
constexpr DType dtype_of<float>() {
  return DType::kF32;
}
template <>
constexpr DType dtype_of<f16>() {
  return DType::kF16;
}
template <>
constexpr DType dtype_of<bf16>() {
  return DType::kBF16;
}

[[noreturn]] void throw_bad_dtype(DType dtype);

// The one place where a runtime dtype becomes a type: calls fn(std::type_identity<T>{}).
template <class Fn>
decltype(auto) visit(DType dtype, Fn&& fn) {
  switch (dtype) {
    case DType::kF64:
      return fn(std::type_identity<double>{});
    case DType::kF32:
      return fn(std::type_identity<float>{});
    case DType::kF16:
      return fn(std::type_identity<f16>{});
    case DType::kBF16:
      return fn(std::type_identity<bf16>{});
  }
  throw_bad_dtype(dtype);
}

}  // namespace assay
