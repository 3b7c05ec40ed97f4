// SPDX-License-Identifier: Apache-2.0
// The bound algebra against exact sums (MPFR) and against real float arithmetic.
#include "oracles/core/bound.h"

#include <cmath>
#include <numeric>

#include "oracles/core/compare.h"
#include "oracles/core/self/exact_sum.h"
#include "properties/self/support.h"

namespace assay {
namespace {

using test::any_between;
using test::ExactSum;

struct Term {
  double a, b;
};

// How a path may compute a sum: the order of the products, and whether additions are fused with
// them.
struct Evaluation {
  std::vector<size_t> order;
  bool fused;
};

double through(DType dtype, double value) {
  return visit(dtype, [value]<class T>(std::type_identity<T>) { return to_double(from_double<T>(value)); });
}

// A number of the dtype below 2^exponent in magnitude, with at most the dtype's significant bits.
double any_factor(DType dtype, int exponent) {
  const FloatFormat format = format_of(dtype);
  const int bits = *rc::gen::element(1, 4, format.precision);
  const int64_t significand = any_between<int64_t>(-(int64_t{1} << bits) + 1, int64_t{1} << bits);
  const int highest = std::clamp(exponent, format.min_exponent - format.precision, format.max_exponent);
  return through(dtype, std::ldexp(static_cast<double>(significand), highest - bits));
}

// A factor of at least 2^-exponent and below 2^exponent, with all significant bits of the dtype.
double any_full_factor(DType dtype, int exponent) {
  const int64_t leading = int64_t{1} << (format_of(dtype).precision - 1);
  const int64_t significand = any_between<int64_t>(leading, 2 * leading);
  const double factor = std::ldexp(static_cast<double>(significand) / static_cast<double>(leading),
                                   any_between(-exponent, exponent));
  return *rc::gen::arbitrary<bool>() ? factor : -factor;
}

// Terms that cancel, that lie far apart, that underflow, or that are exact, by the range of their
// exponents.
std::vector<Term> any_terms(DType dtype) {
  const FloatFormat format = format_of(dtype);
  const int spread = *rc::gen::element(0, 3, 30);
  const int center =
      *rc::gen::element(0, format.min_exponent / 2, format.min_exponent / 2 - 8, format.max_exponent / 4);
  std::vector<Term> terms(any_between<size_t>(0, 9));
  for (Term& term : terms) {
    term.a = any_factor(dtype, center + any_between(-spread, spread + 1));
    term.b = any_factor(dtype, center + any_between(-spread, spread + 1));
  }
  if (terms.size() >= 2 && *rc::gen::arbitrary<bool>()) terms[0] = {-terms[1].a, terms[1].b};
  return terms;
}

std::vector<size_t> any_order(size_t size) {
  std::vector<size_t> order(size);
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t i = size; i > 1; --i) std::swap(order[i - 1], order[any_between<size_t>(0, i)]);
  return order;
}

double evaluate(const std::vector<Term>& terms, const Evaluation& how, DType storage) {
  float sum = 0;
  for (size_t i : how.order) {
    const auto a = static_cast<float>(terms[i].a);
    const auto b = static_cast<float>(terms[i].b);
    volatile float product = a * b;  // keeps the compiler from fusing
    sum = how.fused ? std::fmaf(a, b, sum) : sum + product;
  }
  return through(storage, sum);
}

SumOfProducts sum_of(const std::vector<Term>& terms) {
  SumOfProducts sum;
  for (const Term& term : terms) sum.add(term.a, term.b);
  return sum;
}

Recipe recipe_of(DType storage) {
  return {.storage = storage, .product = DType::kF32, .accumulate = DType::kF32};
}

Expected expected_of(const std::vector<Term>& terms, DType storage) {
  return sum_of(terms).expected(recipe_of(storage));
}

class Bound : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Storage, Bound, testing::Values(DType::kF32, DType::kF16, DType::kBF16),
                         [](const auto& test) { return std::string(name_of(test.param)); });

TEST_P(Bound, ValueIsExactButForTheOraclesOwnError) {
  test::expect_property(
      [dtype = GetParam()] {
        const auto terms = any_terms(dtype);
        const Expected expected = expected_of(terms, dtype);
        ExactSum exact;
        for (const Term& term : terms) exact.add(term.a, term.b);
        const double allowed = static_cast<double>(terms.size()) * 0x1p-53 * exact.magnitude();
        RC_ASSERT(exact.distance(expected.value) <= allowed);
        RC_ASSERT(exact.distance(expected.value) <= expected.bound);
      },
      2000);
}

// Every verdict rests on this claim. The bound is not idle: some evaluation comes close to it.
TEST_P(Bound, HoldsForEveryOrderAndIsReached) {
  double closest = 0;
  test::expect_property(
      [&, dtype = GetParam()] {
        const auto terms = any_terms(dtype);
        const Expected expected = expected_of(terms, dtype);
        RC_PRE(std::abs(expected.value) + expected.bound <= max_finite(dtype));
        const Evaluation how{any_order(terms.size()), *rc::gen::arbitrary<bool>()};
        const double got = evaluate(terms, how, dtype);
        RC_LOG() << "value " << expected.value << " bound " << expected.bound << " got " << got << "\n";
        RC_ASSERT(is_right(expected, got, dtype));
        if (expected.bound > 0) closest = std::max(closest, std::abs(got - expected.value) / expected.bound);
      },
      5000);
  EXPECT_GT(closest, 0.5);
  EXPECT_LE(closest, 1);
}

// Some products have a factor. A path applies it to each of them, or to their sum.
TEST_P(Bound, OfScaledProductsHoldsHoweverTheyAreScaled) {
  double closest = 0;
  test::expect_property(
      [&, dtype = GetParam()] {
        const auto terms = any_terms(dtype);
        const size_t scaled = any_between<size_t>(0, terms.size() + 1);
        const auto scale = static_cast<float>(any_full_factor(DType::kF32, *rc::gen::element(1, 20)));
        const bool is_sum_scaled = *rc::gen::arbitrary<bool>();
        SumOfProducts sum;
        float got = 0;
        volatile float products = 0;  // volatile keeps the compiler from fusing
        for (size_t i = 0; i < terms.size(); ++i) {
          const auto [a, b] = terms[i];
          const bool is_scaled = i < scaled;
          if (is_scaled) sum.add_scaled(scale, a, b);
          if (!is_scaled) sum.add(a, b);
          volatile float product = static_cast<float>(a) * static_cast<float>(b);
          if (is_scaled && is_sum_scaled) {
            products = products + product;
            continue;
          }
          if (is_scaled) product = scale * product;
          got += product;
        }
        volatile float of_products = scale * products;
        if (is_sum_scaled) got += of_products;
        const Expected expected = sum.expected(recipe_of(dtype));
        RC_PRE(std::isfinite(got) && std::abs(expected.value) + expected.bound <= max_finite(dtype));
        const double stored = through(dtype, got);
        RC_LOG() << "value " << expected.value << " bound " << expected.bound << " got " << stored << "\n";
        RC_ASSERT(is_right(expected, stored, dtype));
        if (expected.bound > 0)
          closest = std::max(closest, std::abs(stored - expected.value) / expected.bound);
      },
      20000);
  EXPECT_GT(closest, 0.5);
}

TEST(BoundOfSums, OfAScaledProductHasASecondRounding) {
  SumOfProducts sum;
  sum.add_scaled(0x1.99999ap-4, 0x1.234566p0, 0x1.654322p0);  // 0.1f
  const Expected expected = sum.expected(recipe_of(DType::kF32));
  EXPECT_EQ(expected.value, 0x1.99999ap-4 * 0x1.234566p0 * 0x1.654322p0);
  EXPECT_GE(expected.bound, 2 * 0x1p-24 * expected.value);
  EXPECT_LE(expected.bound, 2.001 * 0x1p-24 * expected.value);
}

// The noise does not count the last rounding, and covers bounds of up to 65 products twice.
TEST(BoundOfSums, NoiseIsHalfTheBoundOf65Products) {
  for (int products : {1, 65, 70}) {
    SumOfProducts sum;
    for (int i = 0; i < products; ++i) sum.add(i % 2 == 0 ? 0x1.234566p0 : 0x1.234568p1, 0x1.654322p0);
    const double bound = sum.expected(recipe_of(DType::kF32)).bound;
    EXPECT_EQ(bound <= 2 * sum.noise(recipe_of(DType::kF32)), products <= 65) << products;
    EXPECT_EQ(sum.noise(recipe_of(DType::kF32)), sum.noise(recipe_of(DType::kBF16)));
  }
  EXPECT_EQ(sum_of({{1, 1}, {1, 2}}).noise(recipe_of(DType::kF32)), 0);
}

TEST(BoundOfSums, NoiseOfProductsThatAreAlikeIsTheBound) {
  SumOfProducts sum;
  for (int i = 0; i < 1000; ++i) sum.add(0x1.234566p0 + i % 8 * 0x1p-7, 0x1.654322p0);
  const double bound = sum.expected(recipe_of(DType::kF32)).bound;
  EXPECT_LE(sum.noise(recipe_of(DType::kF32)), bound);
  EXPECT_GE(sum.noise(recipe_of(DType::kF32)), 0.999 * bound);
}

// A sum of two f16 numbers discards few bits. Its error is known, and often half an ulp.
TEST(BoundOfSums, VarianceOfAnExactSumIsWhatStoringDiscards) {
  const Expected tie =
      expected_of({{1, 1}, {1, 0x1.004p0}}, DType::kF16);  // 2 + 2^-10, between 2 and 2 + 2^-9
  EXPECT_EQ(tie.bound, 0x1p-10);
  EXPECT_EQ(tie.variance, 0x1p-20);
  const Expected quarter = expected_of({{1, 0x1.004p1}, {1, 0x1p-11}}, DType::kF16);
  EXPECT_EQ(quarter.bound, 0x1p-10);
  EXPECT_EQ(quarter.variance, 0x1p-22);
}

// If only the last rounding counts, a result that is one unit in the last place further away is
// wrong: the bound does not hide a path that rounds once too often.
TEST_P(Bound, OfOneProductIsOneRounding) {
  const DType dtype = GetParam();
  test::expect_property(
      [dtype] {
        const double a = any_full_factor(dtype, 2);
        const double b = any_full_factor(dtype, 2);
        const Expected expected = expected_of({{a, b}}, dtype);
        const double ulp = ulp_at(dtype, a * b);
        RC_ASSERT(expected.value == a * b);
        if (through(dtype, a * b) == a * b) {
          RC_ASSERT(expected.bound == 0 || dtype == DType::kF32);
        } else {
          RC_ASSERT(expected.bound <= 1.001 * ulp);
          RC_ASSERT(expected.bound >=
                    ulp / 2 * (dtype == DType::kF32 ? std::abs(a * b) / std::ldexp(ulp, 24) : 1));
        }
        RC_ASSERT(!is_right(expected, through(dtype, a * b) + 2 * ulp, dtype));
      },
      1000);
}

TEST_P(Bound, IsZeroWhereNothingIsRounded) {
  test::expect_property([dtype = GetParam()] {
    std::vector<Term> terms(*rc::gen::inRange<size_t>(0, 9));
    const double scale = std::ldexp(1.0, *rc::gen::inRange(-3, 4));
    for (Term& term : terms) {
      term.a = scale * static_cast<double>(*rc::gen::inRange(-2, 3));
      term.b = static_cast<double>(*rc::gen::inRange(-2, 3));
    }
    const Expected expected = expected_of(terms, dtype);
    ExactSum exact;
    for (const Term& term : terms) exact.add(term.a, term.b);
    RC_ASSERT(exact.distance(expected.value) == 0);
    RC_ASSERT(expected.bound == 0);
    RC_ASSERT(expected.variance == 0);
  });
}

TEST(BoundOfSums, GrowsWithWhatCancels) {
  const Expected positive = expected_of({{1, 1}, {1, 0x1p-12}, {1, 0x1.FFFFFEp-13}}, DType::kF32);
  const Expected cancelled =
      expected_of({{0x1p20, 1}, {0x1p20, -1}, {1, 0x1p-12}, {1, 0x1.FFFFFEp-13}}, DType::kF32);
  EXPECT_GT(cancelled.bound, 1e5 * positive.bound);
}

TEST(BoundOfSums, ZerosCostNothing) {
  const Expected one = expected_of({{0x1.234566p0, 0x1.654322p0}}, DType::kF32);
  const Expected padded = expected_of({{0, 5}, {0x1.234566p0, 0x1.654322p0}, {7, 0}, {-0.0, 1}}, DType::kF32);
  EXPECT_EQ(one.bound, padded.bound);
  EXPECT_EQ(one.value, padded.value);
}

TEST(BoundOfSums, CoversUnderflow) {
  const double tiny = 0x1.8p-75;
  const Expected expected = expected_of({{tiny, tiny}}, DType::kF32);
  EXPECT_GE(expected.bound, std::abs(static_cast<double>(static_cast<float>(tiny * tiny)) - tiny * tiny));
  EXPECT_LE(expected.bound, 1.001 * smallest_subnormal(DType::kF32));
}

TEST(BoundOfSums, NonfiniteValuesFollowIeee) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(expected_of({{kInfinity, 1}, {1, 1}}, DType::kF32).value, kInfinity);
  EXPECT_EQ(expected_of({{kInfinity, -1}, {1, 1}}, DType::kF16).value, -kInfinity);
  EXPECT_TRUE(std::isnan(expected_of({{kInfinity, 1}, {kInfinity, -1}}, DType::kF32).value));
  EXPECT_TRUE(std::isnan(expected_of({{kInfinity, 0}}, DType::kBF16).value));
  EXPECT_TRUE(std::isnan(expected_of({{std::nan(""), 1}}, DType::kF32).value));
}

TEST(BoundOfSums, EmptySumIsZero) {
  const Expected expected = expected_of({}, DType::kBF16);
  EXPECT_EQ(expected.value, 0);
  EXPECT_EQ(expected.bound, 0);
  EXPECT_EQ(expected.variance, 0);
}

// The rms law compares with the variance, so the mean square of simulated errors must not exceed
// it. The mean of 4000 squares scatters by about 2 %.
TEST_P(Bound, VarianceCoversTheMeanSquareError) {
  const DType dtype = GetParam();
  double square = 0;
  double variance = 0;
  test::expect_property(
      [&] {
        std::vector<Term> terms(4);
        for (Term& term : terms) term = {any_full_factor(dtype, 1), any_full_factor(dtype, 1)};
        const Expected expected = expected_of(terms, dtype);
        const double error = evaluate(terms, {any_order(4), true}, dtype) - expected.value;
        square += error * error;
        variance += expected.variance;
      },
      4000);
  EXPECT_GT(square, 0);
  EXPECT_LE(square, 1.1 * variance);
}

TEST(MostRepeats, IsOfTheMostFrequentValue) {
  EXPECT_EQ(most_repeats({}), 1);
  EXPECT_EQ(most_repeats(std::vector{1.0, -1.0, 2.0, 1.0}), 2);
  EXPECT_EQ(most_repeats(std::vector{0.0, -0.0, 0.0, 5.0, 5.0}), 3);
  std::vector<double> values(1000);
  std::iota(values.begin(), values.end(), 0.0);
  EXPECT_EQ(most_repeats(values), 1);
  std::ranges::fill(values, 0.1);
  EXPECT_EQ(most_repeats(values), 1000);
}

TEST(LowestExponent, IsOfThePowerOfTwoThatDividesTheValue) {
  EXPECT_EQ(lowest_exponent(1), 0);
  EXPECT_EQ(lowest_exponent(-12), 2);
  EXPECT_EQ(lowest_exponent(0.75), -2);
  EXPECT_EQ(lowest_exponent(0x1p-149), -149);
  EXPECT_EQ(lowest_exponent(0x1.000002p100), 77);
  EXPECT_EQ(lowest_exponent(5e-324), -1074);
  test::expect_property(
      [] {
        const int64_t odd = 2 * *rc::gen::inRange<int64_t>(-(int64_t{1} << 50), int64_t{1} << 50) + 1;
        const int exponent = *rc::gen::inRange(-300, 300);
        RC_ASSERT(lowest_exponent(std::ldexp(static_cast<double>(odd), exponent)) == exponent);
      },
      500);
}

}  // namespace
}  // namespace assay
