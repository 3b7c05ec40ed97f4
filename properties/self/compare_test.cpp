// SPDX-License-Identifier: Apache-2.0
// Every rule of the comparison, from both sides.
#include "properties/core/compare.h"

#include <cmath>
#include <numeric>

#include "properties/core/random.h"
#include "properties/self/support.h"

namespace assay {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr DType kF16 = DType::kF16;
constexpr DType kF32 = DType::kF32;

Expected value(double value, double bound = 0) {
  return {.value = value, .bound = bound, .exact = value};
}

TEST(IsRight, NanAsksForNan) {
  EXPECT_TRUE(is_right(value(kNan), kNan, kF32));
  EXPECT_FALSE(is_right(value(kNan), 0, kF32));
  EXPECT_FALSE(is_right(value(kNan), kInfinity, kF32));
  EXPECT_FALSE(is_right(value(0, 1), kNan, kF32));
  EXPECT_FALSE(is_right(value(0, kInfinity), kNan, kF32));
  EXPECT_FALSE(is_right(value(kInfinity), kNan, kF32));
}

TEST(IsRight, NanAsksForNanWhateverTheBound) {
  EXPECT_TRUE(is_right(value(kNan, kNan), kNan, kF32));
  EXPECT_FALSE(is_right(value(1, kNan), 1, kF32));
}

TEST(IsRight, EverythingIsRightWhereRightPathsDifferWithoutLimit) {
  const Expected open{.value = 0, .bound = 0, .exact = 0, .is_open = true};
  for (double got : {0.0, 5.0, kInfinity, -kInfinity, kNan}) EXPECT_TRUE(is_right(open, got, kF32));
  Comparison c;
  c.add(open, 5, 0, kF32);
  c.add(open, kNan, 1, kF32);
  EXPECT_EQ(c.wrong, 0);
  EXPECT_EQ(c.finite, 0);
  EXPECT_EQ(c.max_error_over_bound, 0);
}

TEST(IsRight, InfinitiesMatchBySign) {
  EXPECT_TRUE(is_right(value(kInfinity), kInfinity, kF32));
  EXPECT_TRUE(is_right(value(-kInfinity), -kInfinity, kF32));
  EXPECT_FALSE(is_right(value(kInfinity), -kInfinity, kF32));
  EXPECT_FALSE(is_right(value(kInfinity), max_finite(kF32), kF32));
  EXPECT_FALSE(is_right(value(-kInfinity), kInfinity, kF32));
}

TEST(IsRight, ASignedZeroAsksForItsSign) {
  for (double zero : {0.0, -0.0}) {
    const Expected expected{.value = zero, .bound = 0, .exact = 0, .is_signed = true};
    EXPECT_TRUE(is_right(expected, zero, kF32));
    EXPECT_FALSE(is_right(expected, -zero, kF32));
    EXPECT_FALSE(is_right(expected, 0x1p-149, kF32));
    EXPECT_TRUE(is_right(value(zero), -zero, kF32));
    Comparison c;
    c.add(expected, -zero, 0, kF32);
    EXPECT_EQ(c.wrong, 1);
    EXPECT_EQ(c.equal, 0);
    EXPECT_EQ(c.max_error_over_bound, kInfinity);
  }
}

TEST(IsRight, TheBoundItselfIsRightAndTheNextNumberIsNot) {
  for (double bound : {0.0, 0.25, 0x1p-20}) {
    EXPECT_TRUE(is_right(value(1, bound), 1 + bound, kF32));
    EXPECT_TRUE(is_right(value(1, bound), 1 - bound, kF32));
    EXPECT_FALSE(is_right(value(1, bound), 1 + bound + ulp_at(kF32, 1), kF32));
    EXPECT_FALSE(is_right(value(1, bound), 1 - bound - ulp_at(kF32, 1), kF32));
  }
}

// 65504 is the largest f16, 65520 the smallest real that rounds to infinity.
TEST(IsRight, OverflowIsRightOnlyWhereTheBoundReachesIt) {
  EXPECT_FALSE(is_right(value(65500, 10), kInfinity, kF16));
  EXPECT_TRUE(is_right(value(65500, 20), kInfinity, kF16));
  EXPECT_TRUE(is_right(value(65504, 16), kInfinity, kF16));
  EXPECT_FALSE(is_right(value(65504, 15.9), kInfinity, kF16));
  // The bound of a sum that cancels reaches both ends.
  for (double end : {kInfinity, -kInfinity}) {
    EXPECT_TRUE(is_right(value(0, 65520), end, kF16));
    EXPECT_TRUE(is_right(value(-0.0, 1e9), end, kF16));
    EXPECT_FALSE(is_right(value(0, 65519), end, kF16));
    EXPECT_TRUE(is_right(value(100, 65620), end, kF16));
  }
  EXPECT_FALSE(is_right(value(100, 65619), -kInfinity, kF16));
  EXPECT_FALSE(is_right(value(65504, 16), -kInfinity, kF16));
  EXPECT_TRUE(is_right(value(-65504, 16), -kInfinity, kF16));
  EXPECT_TRUE(is_right(value(70000, 16), kInfinity, kF16));
  EXPECT_TRUE(is_right(value(65520, 16), 65504, kF16));
  EXPECT_FALSE(is_right(value(65540, 16), 65524, kF16));
  EXPECT_FALSE(is_right(value(70000, 16), 65504, kF16));
  EXPECT_FALSE(is_right(value(0, 1), kInfinity, kF16));
  EXPECT_TRUE(is_right(value(3e38, 1e38), kInfinity, kF32));
}

TEST(Comparison, CountsWhatItSaw) {
  Comparison c;
  c.add(value(1, 0.5), 1.25, 10, kF32);
  c.add(value(2, 0.5), 4, 11, kF32);
  c.add(value(3), kNan, 12, kF32);
  c.add(value(kNan), kNan, 13, kF32);
  c.add(value(kInfinity), kInfinity, 14, kF32);
  EXPECT_EQ(c.count, 5);
  EXPECT_EQ(c.wrong, 2);
  EXPECT_EQ(c.nonfinite, 3);
  EXPECT_EQ(c.finite, 2);
  EXPECT_EQ(c.max_abs, 2);
  EXPECT_EQ(c.max_ulp, 2 / ulp_at(kF32, 2));
  EXPECT_EQ(c.sum_error, 2.25);
  EXPECT_EQ(c.bias(), 1.125);
  EXPECT_EQ(c.sum_square_value, 5);
  EXPECT_EQ(c.rms(), std::sqrt((0.0625 + 4) / 2));
  EXPECT_EQ(c.rel_l2(), std::sqrt((0.0625 + 4) / 5));
  EXPECT_EQ(c.max_error_over_bound, kInfinity);
  ASSERT_TRUE(c.worst);
  EXPECT_EQ(c.worst->element, 12);
}

TEST(Comparison, HasNoNormwiseErrorWhereOnlyTheExactValuesAreZero) {
  Comparison c;
  c.add(value(0, 1), 0, 0, kF32);
  EXPECT_EQ(c.rel_l2(), 0);
  c.add(value(0, 1), 0.5, 1, kF32);
  EXPECT_EQ(c.rel_l2(), std::nullopt);
}

TEST(Comparison, OfNothingIsZero) {
  const Comparison c;
  EXPECT_EQ(c.rel_l2(), 0);
  EXPECT_EQ(c.bias(), 0);
  EXPECT_EQ(c.rms(), 0);
  EXPECT_FALSE(c.worst);
}

TEST(Comparison, RatioIsAboveOneExactlyForWrongElements) {
  Comparison right, wrong, exact;
  right.add(value(1, 0.5), 1.5, 0, kF32);
  wrong.add(value(1, 0.5), 1.500001, 0, kF32);
  exact.add(value(1, 0), 1, 0, kF32);
  EXPECT_EQ(right.max_error_over_bound, 1);
  EXPECT_GT(wrong.max_error_over_bound, 1);
  EXPECT_EQ(exact.max_error_over_bound, 0);
  Comparison off;
  off.add(value(1, 0), 1.0000001, 0, kF32);
  EXPECT_EQ(off.max_error_over_bound, kInfinity);
}

struct ComparedElement {
  Expected expected;
  double got;
  int64_t element;
};

std::vector<ComparedElement> any_elements() {
  std::vector<ComparedElement> elements(*rc::gen::inRange<size_t>(1, 60));
  int64_t position = 0;
  for (ComparedElement& e : elements) {
    // Few different values, so that ratios tie.
    e.expected = value(*rc::gen::inRange(-3, 4), *rc::gen::element(0.0, 0.5, 1.0));
    e.got =
        *rc::gen::element(e.expected.value, e.expected.value + 0.5, e.expected.value + 2, kNan, kInfinity);
    e.element = position++;
  }
  return elements;
}

void add(Comparison& c, const ComparedElement& e) {
  c.add(e.expected, e.got, e.element, kF32);
}

bool same(const Comparison& a, const Comparison& b) {
  // The values are small multiples of 1/4, so all sums are exact.
  return a.count == b.count && a.wrong == b.wrong && a.nonfinite == b.nonfinite && a.finite == b.finite &&
         a.max_error_over_bound == b.max_error_over_bound && a.max_ulp == b.max_ulp &&
         a.max_abs == b.max_abs && a.sum_error == b.sum_error && a.sum_square_error == b.sum_square_error &&
         a.sum_square_value == b.sum_square_value && a.worst->element == b.worst->element;
}

TEST(Comparison, MergedPartsEqualTheWhole) {
  test::expect_property(
      [] {
        const auto elements = any_elements();
        const size_t cut = *rc::gen::inRange<size_t>(0, elements.size() + 1);
        Comparison whole, first, second;
        for (size_t i = 0; i < elements.size(); ++i) {
          add(whole, elements[i]);
          add(i < cut ? first : second, elements[i]);
        }
        Comparison forward = first;
        forward.merge(second);
        Comparison backward = second;
        backward.merge(first);
        RC_ASSERT(same(forward, whole));
        RC_ASSERT(same(backward, whole));
      },
      500);
}

TEST(Comparison, OrderOfElementsDoesNotMatter) {
  test::expect_property(
      [] {
        const auto elements = any_elements();
        Comparison forward, backward;
        for (const ComparedElement& e : elements) add(forward, e);
        for (size_t i = elements.size(); i > 0; --i) add(backward, elements[i - 1]);
        RC_ASSERT(same(forward, backward));
      },
      500);
}

TEST(Comparison, WorstIsTheFirstOfTheLargest) {
  Comparison c;
  c.add(value(0, 1), 0.5, 3, kF32);
  c.add(value(0, 1), 0.75, 4, kF32);
  c.add(value(0, 2), 1.5, 5, kF32);
  c.add(value(0, 1), 0.25, 6, kF32);
  ASSERT_TRUE(c.worst);
  EXPECT_EQ(c.worst->element, 4);
  EXPECT_EQ(c.worst->got, 0.75);
  EXPECT_EQ(c.worst->want, 0);
  EXPECT_EQ(c.worst->bound, 1);
}

// Accuracy is against the exact value, conformity against the computed one.
TEST(Comparison, KeepsAccuracyAndConformityApart) {
  Comparison c;
  c.add({.value = 1, .bound = 0.5, .exact = 3}, 1.25, 0, kF32);
  EXPECT_EQ(c.wrong, 0);
  EXPECT_EQ(c.max_error_over_bound, 0.5);
  EXPECT_EQ(c.max_abs, 1.75);
  EXPECT_EQ(c.rms(), 1.75);
}

}  // namespace
}  // namespace assay
