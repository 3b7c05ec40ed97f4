// SPDX-License-Identifier: Apache-2.0
// The 16-bit conversions against an independent construction of the formats: all values in order,
// adding one unit in the last place after the other.
#include "kernels/core/dtype.h"

#include <cmath>
#include <limits>
#include <vector>

#include "properties/self/support.h"

namespace assay {
namespace {

using test::error_of;

constexpr double kDoubleInfinity = std::numeric_limits<double>::infinity();
constexpr double kDoubleNan = std::numeric_limits<double>::quiet_NaN();

template <class T>
struct Format;
template <>
struct Format<f16> {
  static constexpr int kStoredBits = 10;
  static constexpr double kSmallest = 0x1p-24;
  static constexpr double kLargest = 65504;
};
template <>
struct Format<bf16> {
  static constexpr int kStoredBits = 7;
  static constexpr double kSmallest = 0x1p-133;
  static constexpr double kLargest = 0x1.FEp127;
};

// The finite values from 0 up. The index is the bit pattern.
template <class T>
std::vector<double> finite_values() {
  std::vector<double> values{0};
  double ulp = Format<T>::kSmallest;
  while (values.back() < Format<T>::kLargest) {
    // The unit doubles each time the significands have run through, except the first time, after
    // the subnormals.
    if (const size_t pattern = values.size() - 1;
        pattern % (1u << Format<T>::kStoredBits) == 0 && pattern > (1u << Format<T>::kStoredBits)) {
      ulp *= 2;
    }
    values.push_back(values.back() + ulp);
  }
  return values;
}

template <class T>
uint16_t bits_of(double value) {
  return from_double<T>(value).bits;
}

template <class T>
class ShortFloat : public testing::Test {};
using ShortFloats = testing::Types<f16, bf16>;
TYPED_TEST_SUITE(ShortFloat, ShortFloats);

TYPED_TEST(ShortFloat, DecodesEveryPattern) {
  const std::vector<double> values = finite_values<TypeParam>();
  const size_t infinity = values.size();
  ASSERT_EQ(infinity, 0x7FFFu >> Format<TypeParam>::kStoredBits << Format<TypeParam>::kStoredBits);
  for (uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    const double decoded = to_double(TypeParam{static_cast<uint16_t>(pattern)});
    const size_t magnitude = pattern & 0x7FFF;
    ASSERT_EQ(std::signbit(decoded), pattern >= 0x8000) << pattern;
    if (magnitude < infinity) {
      ASSERT_EQ(std::abs(decoded), values[magnitude]) << pattern;
    } else {
      ASSERT_EQ(std::isnan(decoded), magnitude != infinity) << pattern;
      ASSERT_EQ(std::isinf(decoded), magnitude == infinity) << pattern;
    }
  }
}

TYPED_TEST(ShortFloat, RoundTripsEveryPattern) {
  for (uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    const TypeParam stored{static_cast<uint16_t>(pattern)};
    const uint16_t again = bits_of<TypeParam>(to_double(stored));
    if (std::isnan(to_double(stored))) {
      const uint32_t quiet = 1u << (Format<TypeParam>::kStoredBits - 1);
      ASSERT_TRUE(std::isnan(to_double(TypeParam{again}))) << pattern;
      ASSERT_EQ(again & quiet, quiet) << pattern;
      ASSERT_EQ(again & 0x8000, pattern & 0x8000) << pattern;
    } else {
      ASSERT_EQ(again, pattern);
    }
  }
}

TYPED_TEST(ShortFloat, RoundsToNearestTiesToEven) {
  const std::vector<double> values = finite_values<TypeParam>();
  for (size_t pattern = 0; pattern < values.size(); ++pattern) {
    const double low = values[pattern];
    const bool is_last = pattern + 1 == values.size();
    const double high = is_last ? 2 * low - values[pattern - 1] : values[pattern + 1];
    const double middle = low + (high - low) / 2;
    const auto below = static_cast<uint16_t>(pattern);
    const auto above = static_cast<uint16_t>(pattern + 1);  // infinity after the last
    const uint16_t even = pattern % 2 == 0 ? below : above;
    const std::pair<double, uint16_t> expected[] = {
        {low, below},   {std::nextafter(low, kDoubleInfinity), below},    {std::nextafter(middle, 0), below},
        {middle, even}, {std::nextafter(middle, kDoubleInfinity), above}, {std::nextafter(high, 0), above}};
    for (const auto& [value, bits] : expected) {
      ASSERT_EQ(bits_of<TypeParam>(value), bits) << value;
      ASSERT_EQ(bits_of<TypeParam>(-value), bits | 0x8000) << -value;
    }
  }
}

TYPED_TEST(ShortFloat, TakesTheEndsOfDouble) {
  const auto infinity = static_cast<uint16_t>(finite_values<TypeParam>().size());
  EXPECT_EQ(bits_of<TypeParam>(0.0), 0);
  EXPECT_EQ(bits_of<TypeParam>(-0.0), 0x8000);
  EXPECT_EQ(bits_of<TypeParam>(std::numeric_limits<double>::denorm_min()), 0);
  EXPECT_EQ(bits_of<TypeParam>(-std::numeric_limits<double>::denorm_min()), 0x8000);
  EXPECT_EQ(bits_of<TypeParam>(std::numeric_limits<double>::max()), infinity);
  EXPECT_EQ(bits_of<TypeParam>(std::numeric_limits<double>::lowest()), infinity | 0x8000);
  EXPECT_EQ(bits_of<TypeParam>(kDoubleInfinity), infinity);
  EXPECT_EQ(bits_of<TypeParam>(-kDoubleInfinity), infinity | 0x8000);
  EXPECT_GT(bits_of<TypeParam>(kDoubleNan), infinity);
  EXPECT_GT(bits_of<TypeParam>(std::copysign(kDoubleNan, -1)), infinity | 0x8000);
}

TYPED_TEST(ShortFloat, KnowsItsLimits) {
  const DType dtype = dtype_of<TypeParam>();
  const std::vector<double> values = finite_values<TypeParam>();
  EXPECT_EQ(max_finite(dtype), values.back());
  for (size_t pattern = 0; pattern + 1 < values.size(); ++pattern) {
    const double ulp = values[pattern + 1] - values[pattern];
    ASSERT_EQ(ulp_at(dtype, values[pattern]), ulp);
    ASSERT_EQ(ulp_at(dtype, -values[pattern]), ulp);
    ASSERT_EQ(ulp_at(dtype, values[pattern] + ulp / 2), ulp);
  }
}

TEST(DType, LimitsOfTheNativeTypes) {
  EXPECT_EQ(max_finite(DType::kF32), std::numeric_limits<float>::max());
  EXPECT_EQ(max_finite(DType::kF64), std::numeric_limits<double>::max());
  for (float value : {0.0f, 1.0f, 1.5f, 0x1p-126f, 0x1p-130f, 3e38f}) {
    EXPECT_EQ(ulp_at(DType::kF32, value), double{std::nextafterf(value, INFINITY)} - value);
  }
  EXPECT_EQ(static_cast<double>(from_double<float>(0.1)), static_cast<double>(0.1f));
}

TEST(DType, NamesParse) {
  for (DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) {
    EXPECT_EQ(parse_dtype(name_of(dtype)), dtype);
    EXPECT_EQ(visit(dtype, []<class T>(std::type_identity<T>) { return dtype_of<T>(); }), dtype);
    EXPECT_EQ(visit(dtype, []<class T>(std::type_identity<T>) { return sizeof(T); }), size_of(dtype));
  }
  for (const char* wrong : {"", "f8", "F32", "f32 ", "float"}) {
    EXPECT_EQ(error_of([&] { parse_dtype(wrong); }),
              "dtype '" + std::string(wrong) + "' is not one of f32, f16, bf16");
  }
}

TEST(DType, RefusesWhatIsNone) {
  const auto wrong = static_cast<DType>(9);
  const auto kind = Error::Kind::kInternal;
  EXPECT_THAT(error_of([&] { format_of(wrong); }, kind), testing::HasSubstr("9"));
  EXPECT_THAT(error_of([&] { size_of(wrong); }, kind), testing::HasSubstr("9"));
  EXPECT_THAT(error_of([&] { name_of(wrong); }, kind), testing::HasSubstr("9"));
}

}  // namespace
}  // namespace assay
