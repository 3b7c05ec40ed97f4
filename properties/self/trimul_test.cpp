// SPDX-License-Identifier: Apache-2.0
// The oracle of trimul for recipes with factors of 8 and 11 bits, held against a plain loop that rounds where they say,
// and what its stages add to the error.
#include "oracles/trimul/trimul.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>

#include "kernels/trimul/trimul.h"
#include "oracles/core/compare.h"
#include "properties/core/fuzz.h"
#include "properties/core/judge.h"
#include "properties/core/problem.h"
#include "properties/core/random.h"
#include "properties/self/support.h"

namespace assay::trimul {
namespace {

Recipe recipe_of(Factor factor, DType intermediate) {
  return {DType::kF32, DType::kF32, DType::kF32, factor, intermediate};
}

// To so many significant bits, fewer of a subnormal number; f16 has none, since it is scaled.
double rounded(int bits, double value, bool has_subnormals = false) {
  if (!std::isfinite(value)) return value;
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);
  if (has_subnormals) bits = std::min(bits, bits + exponent + 125);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, bits)), exponent - bits);
}

// Rounds factors to 11 or 8 bits, and what lies between the steps if that is no f32; nothing else.
class Loop {
 public:
  Loop(const Dims& dims, std::vector<ConstTensorView> inputs, const Recipe& recipe)
      : b_(dims["b"]), n_(dims["n"]), c_(dims["c"]), h_(dims["h"]) {
    bits_ = recipe.factor == Factor::kBF16 ? 8 : 11;
    bits_between_ = recipe.intermediate == DType::kF32 ? 24 : bits_;
    has_subnormals_ = recipe.factor != Factor::kF16;
    for (const ConstTensorView& view : inputs) inputs_.push_back(dense(view));
    for (Input weight : {kLeftProj, kRightProj, kLeftGate, kRightGate, kOutGate, kToOut}) {
      for (double& value : inputs_[weight]) value = round_to(bits_, value);
    }
    if (dims["mask"] == 0) inputs_[kMask].assign(static_cast<size_t>(b_ * n_ * n_), 1);
  }

  std::vector<double> out() const {
    std::vector<double> left, right, gate, result;
    for (int64_t edge = 0; edge < b_ * n_ * n_; ++edge) {
      std::vector<double> x;
      for (int64_t c = 0; c < c_; ++c) x.push_back(at(kX, edge * c_ + c));
      const std::vector<double> xn = normalised(x, kNormWeight, kNormBias);
      for (int64_t h = 0; h < h_; ++h) {
        const auto gated = [&](Input proj, Input gates) {
          return round_to(bits_, at(kMask, edge) * dot(proj, h, xn) * sigmoid(dot(gates, h, xn)));
        };
        left.push_back(gated(kLeftProj, kLeftGate));
        right.push_back(gated(kRightProj, kRightGate));
        gate.push_back(round_to(bits_between_, sigmoid(dot(kOutGate, h, xn))));
      }
    }
    for (int64_t edge = 0; edge < b_ * n_ * n_; ++edge) {
      const int64_t i = edge / n_, j = edge / n_ / n_ * n_ + edge % n_;
      std::vector<double> hidden;
      for (int64_t h = 0; h < h_; ++h) {
        double sum = 0;
        for (int64_t k = 0; k < n_; ++k) {
          sum += left[static_cast<size_t>((i * n_ + k) * h_ + h)] *
                 right[static_cast<size_t>((j * n_ + k) * h_ + h)];
        }
        hidden.push_back(round_to(bits_between_, sum));
      }
      std::vector<double> z = normalised(hidden, kToOutNormWeight, kToOutNormBias);
      for (size_t h = 0; h < z.size(); ++h) z[h] *= gate[static_cast<size_t>(edge * h_) + h];
      for (int64_t c = 0; c < c_; ++c) result.push_back(dot(kToOut, c, z));
    }
    return result;
  }

 private:
  static std::vector<double> dense(const ConstTensorView& view) {
    std::vector<double> values;
    for (int64_t e = 0; e < view.size(); ++e)
      values.push_back(view.as<float>()[offset_of(index_of(e, view.shape), view.strides)]);
    return values;
  }
  double at(Input input, int64_t element) const { return inputs_[input][static_cast<size_t>(element)]; }
  double round_to(int bits, double value) const { return rounded(bits, value, has_subnormals_); }
  static double sigmoid(double g) { return 1 / (1 + std::exp(-g)); }

  std::vector<double> normalised(std::vector<double> values, Input weight, Input bias) const {
    const auto count = static_cast<double>(values.size());
    const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
    double squares = 0;
    for (double value : values) squares += (value - mean) * (value - mean);
    for (size_t i = 0; i < values.size(); ++i) {
      const auto element = static_cast<int64_t>(i);
      const double normal = (values[i] - mean) / std::sqrt(squares / count + kEpsilon);
      values[i] = normal * at(weight, element) + at(bias, element);
    }
    return values;
  }

  double dot(Input weight, int64_t row, const std::vector<double>& values) const {
    double sum = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const auto element = row * static_cast<int64_t>(values.size()) + static_cast<int64_t>(i);
      sum += at(weight, element) * round_to(bits_, values[i]);
    }
    return sum;
  }

  int64_t b_, n_, c_, h_;
  int bits_, bits_between_;
  bool has_subnormals_;
  std::vector<std::vector<double>> inputs_;
};

Case problem_of(int64_t n, uint64_t seed) {
  return {.op = "trimul",
          .path = "cpu",
          .dtype = DType::kF32,
          .dims = {{"b", 1}, {"n", n}, {"c", 32}, {"h", 32}, {"mask", 1}},
          .seed = seed};
}

// Changes element number e of an input.
using Change = std::function<void(Input, int64_t e, float&)>;

Problem changed(const Case& which, const Change& change) {
  const Op& op = registry().op("trimul");
  Problem problem(op, op.path("cpu"), which, test::cpu());
  problem.draw_inputs(which.seed);
  TensorBytes inputs = problem.inputs();
  for (size_t input = 0; change && input < inputs.size(); ++input) {
    auto* const values = reinterpret_cast<float*>(inputs[input].data());
    const auto count = static_cast<int64_t>(inputs[input].size() / sizeof(float));
    for (int64_t e = 0; e < count; ++e) change(static_cast<Input>(input), e, values[e]);
  }
  problem.set_inputs(inputs);
  return problem;
}

// Of the first elements of out, `count` at most.
std::vector<Expected> expected_of(const Problem& problem, const Recipe& recipe, int64_t count = INT64_MAX) {
  Question question = problem.question();
  question.recipe = recipe;
  const Dims& dims = problem.which().dims;
  std::vector<int64_t> elements(
      static_cast<size_t>(std::min(count, dims["b"] * dims["n"] * dims["n"] * dims["c"])));
  std::iota(elements.begin(), elements.end(), 0);
  std::vector<Expected> expected(elements.size());
  registry().oracle("trimul").solve(question, 0)(elements, expected);
  return expected;
}

// What a loop that rounds as `done` says gets wrong in the eyes of `recipe`.
Comparison compare_loop(const Recipe& recipe, const Recipe& done, const Case& which,
                        const Change& change = {}, int64_t count = INT64_MAX) {
  const Problem problem = changed(which, change);
  const std::vector<Expected> expected = expected_of(problem, recipe, count);
  const std::vector<double> got = Loop(which.dims, problem.question().inputs, done).out();
  Comparison comparison;
  for (size_t i = 0; i < expected.size(); ++i)
    comparison.add(expected[i], got[i], static_cast<int64_t>(i), DType::kF64);
  return comparison;
}

// A path that rounds to 16 bits as its recipe says is right, and not ten times better than its recipe.
TEST(TriMulOracle, BoundsPathsWithFactorsOf16Bits) {
  for (const auto& [factor, dtype] : {std::pair{Factor::kF16, DType::kF16}, {Factor::kBF16, DType::kBF16}}) {
    for (uint64_t seed = 0; seed < 4; ++seed) {
      const Comparison c =
          compare_loop(recipe_of(factor, dtype), recipe_of(factor, dtype), problem_of(24, seed));
      EXPECT_EQ(c.wrong, 0) << name_of(dtype) << " " << seed << ": " << c.max_error_over_bound;
      ASSERT_TRUE(largest_allowed_rms(c));
      EXPECT_LE(c.rms(), *largest_allowed_rms(c)) << name_of(dtype) << " " << seed;
      EXPECT_GT(c.rms(), c.predicted_rms() / 10) << name_of(dtype) << " " << seed;
    }
  }
}

// In formats of f32's range, which nothing is scaled for.
TEST(TriMulOracle, BoundsFactorsThatAreSubnormal) {
  for (const Recipe& recipe :
       {recipe_of(Factor::kBF16, DType::kBF16), recipe_of(Factor::kTF32, DType::kF32)}) {
    const auto expect_bounded = [&](const Change& change) {
      const Comparison c = compare_loop(recipe, recipe, problem_of(8, 0), change);
      EXPECT_EQ(c.wrong, 0) << recipe.to_string() << ": " << c.max_error_over_bound;
    };
    expect_bounded([](Input input, int64_t, float& value) {
      if (input == kToOut) value *= 0x1p-131f;
    });
    expect_bounded([](Input input, int64_t, float& value) {
      if (input == kToOutNormWeight || input == kToOutNormBias) value *= 0x1p-131f;
      if (input == kToOut) value *= 0x1p100f;
    });
  }
}

// xn is nearly its bias, whose rounding is that of all edges; the weights are numbers of the format.
TEST(TriMulOracle, BoundsWhatRoundsAlikeAtAllEdges) {
  const Recipe recipe = recipe_of(Factor::kTF32, DType::kF32);
  Case which = problem_of(140, 1);
  which.dims = {{"b", 1}, {"n", 140}, {"c", 16}, {"h", 4}, {"mask", 0}};
  const auto change = [](Input input, int64_t e, float& value) {
    const CounterRandom random(1, input);
    const auto pair = static_cast<uint64_t>(e / 2);
    if (input == kLeftProj || input == kRightProj)
      value = static_cast<float>(rounded(11, random.normal(pair)) * (e % 2 == 0 ? 1 : -1));
    if (input == kLeftGate || input == kRightGate) value = 0;
    if (input == kOutGate || input == kToOut) value = static_cast<float>(rounded(11, value));
    if (input == kNormWeight) value = e == 0 ? 0.01f : 0;
    if (input == kNormBias)
      value = static_cast<float>(1 + random.uniform(pair) + random.uniform(static_cast<uint64_t>(e), 1));
  };
  const Comparison c = compare_loop(recipe, recipe, which, change, 128 * 16);
  EXPECT_EQ(c.wrong, 0) << c.max_error_over_bound;
}

// Edges of padding are equal, but their errors are nothing.
TEST(TriMulOracle, BoundsDoNotDependOnMaskedEdges) {
  for (const Recipe& recipe :
       {recipe_of(Factor::kStored, DType::kF32), recipe_of(Factor::kBF16, DType::kBF16)}) {
    const Case which = problem_of(16, 0);
    const auto padded = [&](bool is_equal) {
      const auto change = [is_equal](Input input, int64_t e, float& value) {
        const int64_t edge = input == kX ? e / 32 : e;
        if (edge % 16 < 6) return;
        if (input == kMask) value = 0;
        if (input == kX && is_equal) value = 0;
      };
      return expected_of(changed(which, change), recipe, 6 * 32);
    };
    const std::vector<Expected> equal = padded(true), different = padded(false);
    for (size_t e = 0; e < equal.size(); ++e) {
      EXPECT_EQ(equal[e].value, different[e].value);
      EXPECT_EQ(equal[e].bound, different[e].bound) << recipe.to_string();
    }
  }
}

// Integers are numbers of the format: as weights they are not rounded, also where gates are saturated.
TEST(TriMulOracle, BoundsOfIntegersAreLessThanValues) {
  Case which = problem_of(9, 483067);
  which.dims = {{"b", 1}, {"n", 9}, {"c", 9}, {"h", 80}, {"mask", 1}};
  which.data = Regime::kIntegers;
  const auto expected = expected_of(changed(which, {}), recipe_of(Factor::kBF16, DType::kBF16));
  const auto known =
      std::ranges::count_if(expected, [](const Expected& e) { return std::abs(e.value) > e.bound; });
  EXPECT_GT(known, std::ssize(expected) / 10);
}

// A problem whose bounds come from all channels at once at its corners only.
Case large_problem() {
  Case which = problem_of(48, 3);
  which.dims = {{"b", 1}, {"n", 48}, {"c", 128}, {"h", 128}, {"mask", 1}};
  return which;
}

TEST(TriMulOracle, BoundsCornersOfLargeProblems) {
  const Recipe recipe = recipe_of(Factor::kBF16, DType::kBF16);
  const Comparison c = compare_loop(recipe, recipe, large_problem(), {}, 48 * 128);
  EXPECT_EQ(c.wrong, 0) << c.max_error_over_bound;
  EXPECT_GT(c.max_error_over_bound, 0.05);  // 0.006 without
}

TEST(TriMulOracle, RejectsFactorsOf16BitsInPathsOfF32) {
  const Comparison c = compare_loop(recipe_of(Factor::kStored, DType::kF32),
                                    recipe_of(Factor::kF16, DType::kF16), problem_of(24, 0));
  EXPECT_GT(c.wrong, 0);
}

TEST(TriMulOracle, SharesOfItsStagesAddUp) {
  const Op& op = registry().op("trimul");
  Problem problem(op, op.path("cpu"), problem_of(16, 1), test::cpu());
  problem.draw_inputs(1);
  Question question = problem.question();
  std::vector<int64_t> elements(static_cast<size_t>(16 * 16 * 32));
  std::iota(elements.begin(), elements.end(), 0);
  for (const Recipe& recipe :
       {recipe_of(Factor::kStored, DType::kF32), recipe_of(Factor::kF16, DType::kF16),
        recipe_of(Factor::kTF32, DType::kF32), recipe_of(Factor::kBF16x3, DType::kF32)}) {
    question.recipe = recipe;
    std::vector<Expected> expected(elements.size());
    registry().oracle("trimul").solve(question, 0)(elements, expected);
    double bound = 0, variance = 0;
    for (const Expected& e : expected) {
      bound += e.bound / static_cast<double>(elements.size());
      variance += e.variance / static_cast<double>(elements.size());
    }
    double shared_bound = 0, shared_variance = 0;
    for (const Share& share : shares(question, elements)) {
      const bool is_nothing = share.stage == Stage::kHiddenStorage && recipe.intermediate == DType::kF32;
      EXPECT_EQ(share.variance <= variance / 0x1p40, is_nothing)
          << name_of(share.stage) << recipe.to_string();
      EXPECT_LE(share.bound, bound) << name_of(share.stage) << " of " << recipe.to_string();
      shared_bound += share.bound;
      shared_variance += share.variance;
    }
    // Square roots of sums are less than the sums of the roots; the rest is of second order.
    EXPECT_GE(shared_bound, bound / 2) << recipe.to_string();
    EXPECT_GE(shared_variance, variance / 2) << recipe.to_string();
    EXPECT_LE(shared_variance, variance * 2) << recipe.to_string();
  }
}

// A path that the loop stands in for: what it is judged by is the recipe.
template <Factor kFactor, DType kBetween>
Path stand_in() {
  Path path = registry().op("trimul").path("cpu");
  path.recipe = [](const Dims&, DType) { return recipe_of(kFactor, kBetween); };
  path.unsupported = [](const Dims& dims, DType) {
    return unsupported_on_cuda(dims["c"], dims["h"], kFactor);
  };
  path.tunables = {};
  path.run = test::untuned(path.run);
  return path;
}

Subject subject_of(const Path& path) {
  return {.op = &registry().op("trimul"), .path = &path, .oracle = &registry().oracle("trimul")};
}

void for_cases(const Path& path, const FuzzOptions& options,
               const std::function<void(const Judged&)>& visit_one) {
  fuzz(subject_of(path), test::cpu(), options, [&](const Judged& judged) {
    visit_one(judged);
    return true;
  });
}

// A path that does round its factors, on data of all kinds.
template <Factor kFactor, DType kBetween>
void expect_right() {
  Path path = stand_in<kFactor, kBetween>();
  path.run = [](const Call& call) {
    const std::vector<double> out = Loop(call.dims, call.inputs, recipe_of(kFactor, kBetween)).out();
    const TensorView& to = call.outputs[0];
    for (int64_t e = 0; e < to.size(); ++e)
      to.as<float>()[offset_of(index_of(e, to.shape), to.strides)] =
          static_cast<float>(out[static_cast<size_t>(e)]);
  };
  FuzzOptions options;
  options.cases = 400;
  options.seed = 7;
  options.max_elements = 1 << 12;
  options.max_shrinks = 0;
  int passed = 0;
  for_cases(path, options, [&](const Judged& judged) {
    EXPECT_NE(judged.verdict.kind, VerdictKind::kFail)
        << judged.which.to_string() << ": " << judged.verdict.reason;
    passed += judged.verdict.kind == VerdictKind::kPass ? 1 : 0;
  });
  EXPECT_GT(passed, 200);
}
TEST(TriMulOracle, PathsOfF16AreRight) {
  expect_right<Factor::kF16, DType::kF16>();
}
TEST(TriMulOracle, PathsOfBF16AreRight) {
  expect_right<Factor::kBF16, DType::kBF16>();
}
TEST(TriMulOracle, PathsOfTF32AreRight) {
  expect_right<Factor::kTF32, DType::kF32>();
}

// Without CUDA there are no paths with these recipes: the CPU path stands in, as in FuzzEveryOp.
template <Factor kFactor, DType kBetween>
void expect_trusted() {
  FuzzOptions options;
  options.cases = 60;
  options.max_shrinks = 0;
  for_cases(stand_in<kFactor, kBetween>(), options, [](const Judged& judged) {
    EXPECT_NE(judged.verdict.kind, VerdictKind::kMistrusted)
        << judged.which.to_string() << ": " << judged.verdict.reason;
  });
}
template <Factor kFactor, DType kBetween>
void expect_large_trusted() {
  const Path path = stand_in<kFactor, kBetween>();
  const Verdict verdict = judge(subject_of(path), large_problem(), test::cpu());
  EXPECT_EQ(verdict.kind, VerdictKind::kPass) << verdict.reason;
}
TEST(TriMulOracle, BoundsOfLargeProblemsMeanSomething) {
  expect_large_trusted<Factor::kF16, DType::kF16>();
  expect_large_trusted<Factor::kBF16, DType::kBF16>();
  expect_large_trusted<Factor::kTF32, DType::kF32>();
}
TEST(TriMulOracle, BoundsOfBF16MeanSomething) {
  expect_trusted<Factor::kBF16, DType::kBF16>();
}
TEST(TriMulOracle, BoundsOfF16MeanSomething) {
  expect_trusted<Factor::kF16, DType::kF16>();
}
}  // namespace
}  // namespace assay::trimul
