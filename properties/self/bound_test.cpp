// SPDX-License-Identifier: Apache-2.0
// The bound algebra against exact sums (MPFR) and against what float arithmetic really does.
#include "oracles/core/bound.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

#include "oracles/core/compare.h"
#include "oracles/core/self/exact_sum.h"
#include "properties/core/problem.h"
#include "properties/self/support.h"

namespace assay {
namespace {

using test::any_between;
using test::ExactSum;

struct Term {
  double a, b;
};

// How a path may compute a sum: the order of the products, and whether additions are fused with them.
struct Evaluation {
  std::vector<size_t> order;
  bool fused;
};

double through(DType dtype, double value) {
  return visit(dtype, [value]<class T>(std::type_identity<T>) { return to_double(from_double<T>(value)); });
}

// A number of the dtype below 2^exponent in magnitude, with up to as many significant bits as the dtype has.
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

// Terms that cancel, that lie far apart, that underflow, or that are exact, by the range of their exponents.
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

// The claim that every verdict rests on, and that the bound is not idle: some evaluation comes close to it.
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

// One unit in the last place further than the evaluation may be is wrong, as soon as nothing but the last
// rounding counts: the bound does not hide a path that rounds once too often.
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

// The variance is what the rms law compares with: simulated errors must not exceed it, on average. The mean
// of 4000 squares scatters by about 2 %.
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

// What the oracle of an op expects of output number `output`; `change` may alter the drawn inputs.
std::vector<Expected> expected_of_case(std::string_view line, const Recipe& recipe, int output = 0,
                                       const std::function<void(TensorBytes&)>& change = {}) {
  const Case which = parse_case(line);
  const Op& op = registry().op(which.op);
  Problem problem(op, op.path(which.path), which, test::cpu());
  problem.draw_inputs(which.seed);
  if (change) {
    TensorBytes inputs = problem.inputs();
    change(inputs);
    problem.set_inputs(inputs);
  }
  Question question = problem.question();
  question.recipe = recipe;
  std::vector<int64_t> elements(
      static_cast<size_t>(element_count(shape_of(op.outputs[static_cast<size_t>(output)], which.dims))));
  std::iota(elements.begin(), elements.end(), int64_t{0});
  std::vector<Expected> expected(elements.size());
  registry().oracle(which.op).solve(question, output)(elements, expected);
  return expected;
}

double largest_bound(const std::vector<Expected>& expected) {
  return std::ranges::max_element(expected, {}, &Expected::bound)->bound;
}

double predicted_rms(const std::vector<Expected>& expected) {
  double sum = 0;
  for (const Expected& e : expected) sum += e.variance;
  return std::sqrt(sum / static_cast<double>(expected.size()));
}

// A bound that allows ten times the rounding that there is says little; the variance must be tighter still.
TEST(BoundOfCheri, IsNotIdle) {
  for (const Expected& e :
       expected_of_case("cheri_conv_norm/cpu/f32/n=2/l=128/c=64/dilation=5", recipe_of(DType::kF32))) {
    ASSERT_GT(e.bound, 0);
    ASSERT_LE(e.bound, 1e-6 * (1 + std::abs(e.value)));
    ASSERT_LE(std::sqrt(e.variance), 1.5e-7 * (1 + std::abs(e.value)));
  }
  const std::string_view gradient = "cheri_conv_norm_grad/cpu/f32/n=2/l=128/c=64/dilation=5";
  const auto dx = expected_of_case(gradient, recipe_of(DType::kF32), 0);
  const auto dw = expected_of_case(gradient, recipe_of(DType::kF32), 1);
  EXPECT_LE(largest_bound(dx), 1e-5);
  EXPECT_LE(predicted_rms(dx), 2e-7);
  EXPECT_LE(largest_bound(dw), 1e-3);
  EXPECT_LE(predicted_rms(dw), 2e-5);
}

// As long as the convolution is exact, the mean of an example shows in y only by what two f32 cannot hold of it.
TEST(BoundOfCheri, OfExactConvolutionsDoesNotGrowWithTheMean) {
  const auto shifted = [](float shift) {
    return [shift](TensorBytes& inputs) {
      const auto at = [&](size_t tensor, size_t i) { return &inputs[tensor][i * sizeof(float)]; };
      for (size_t i = 0; i < 16 * 8; ++i) {
        float x = 0;
        std::memcpy(&x, at(0, i), sizeof x);
        x += shift;
        std::memcpy(at(0, i), &x, sizeof x);
      }
      for (size_t i = 0; i < 3 * 8; ++i) {
        const float w = i / 8 == 1 ? 1 : 0;
        std::memcpy(at(1, i), &w, sizeof w);
      }
    };
  };
  const std::string_view line = "cheri_conv_norm/cpu/f32/n=1/l=16/c=8/dilation=1/data=integers";
  const auto centred = expected_of_case(line, recipe_of(DType::kF32), 0, shifted(0));
  const auto far = expected_of_case(line, recipe_of(DType::kF32), 0, shifted(1e6f));
  constexpr double kLost = 1e6 * 0x1p-47;  // by sums in double
  for (size_t i = 0; i < centred.size(); ++i) {
    EXPECT_LE(std::abs(far[i].value - centred[i].value), kLost);
    EXPECT_LE(far[i].bound, centred[i].bound + kLost);
  }
}

// The recipe decides how much is allowed: each coarser one allows more, and predicts more.
TEST(BoundOfCheri, OfTheBlockFollowsTheRecipe) {
  const auto solve = [](Factor factor) {
    Recipe recipe = recipe_of(DType::kF32);
    recipe.factor = factor;
    return expected_of_case("cheri_block/cpu/f32/n=2/l=16/c=64/dilation=3/hidden=64", recipe);
  };
  const auto f32 = solve(Factor::kStored), split = solve(Factor::kBF16x3);
  const auto f16 = solve(Factor::kF16), bf16 = solve(Factor::kBF16);
  EXPECT_LT(4 * predicted_rms(f32), predicted_rms(split));
  EXPECT_LT(16 * predicted_rms(split), predicted_rms(f16));
  EXPECT_LT(4 * predicted_rms(f16), predicted_rms(bf16));
  EXPECT_LT(largest_bound(f32), largest_bound(split));
  EXPECT_LT(largest_bound(split), largest_bound(f16));
  EXPECT_LT(largest_bound(f16), largest_bound(bf16));
  Recipe training = recipe_of(DType::kBF16);
  const std::string_view line = "cheri_block/cpu/bf16/n=2/l=16/c=64/dilation=3/hidden=64";
  const double unrounded = predicted_rms(expected_of_case(line, training));
  training.intermediate = DType::kBF16;
  EXPECT_LT(1.2 * unrounded, predicted_rms(expected_of_case(line, training)));
}

TEST(BoundOfCheri, IsZeroWhereNothingIsAdded) {
  for (size_t zeroed : {size_t{2}, size_t{3}}) {
    for (Factor factor : {Factor::kStored, Factor::kF16, Factor::kBF16, Factor::kBF16x3}) {
      Recipe recipe = recipe_of(DType::kF32);
      recipe.factor = factor;
      TensorBytes drawn;
      const auto expected = expected_of_case("cheri_block/cpu/f32/n=2/l=5/c=7/dilation=2/hidden=16", recipe,
                                             0, [&](TensorBytes& inputs) {
                                               std::ranges::fill(inputs[zeroed], std::byte{0});
                                               drawn = inputs;
                                             });
      for (size_t i = 0; i < expected.size(); ++i) {
        float x = 0;
        std::memcpy(&x, &drawn[0][i * sizeof(float)], sizeof(float));
        EXPECT_EQ(expected[i].value, x);
        EXPECT_EQ(expected[i].bound, 0);
      }
    }
  }
  for (const Expected& e :
       expected_of_case("cheri_conv_norm/cpu/f32/n=3/l=1/c=1/dilation=1/data=huge", recipe_of(DType::kF32))) {
    EXPECT_EQ(e.value, 0);
    EXPECT_EQ(e.bound, 0);
  }
}

}  // namespace
}  // namespace assay
