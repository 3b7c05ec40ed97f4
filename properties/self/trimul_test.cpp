// SPDX-License-Identifier: Apache-2.0
// The oracle of trimul for recipes with factors of 8 and 11 bits, held against a plain loop that rounds where they say,
// and what its stages add to the error.
#include "oracles/trimul/trimul.h"

#include <cmath>
#include <functional>
#include <numeric>

#include "kernels/trimul/trimul.h"
#include "oracles/core/compare.h"
#include "properties/core/fuzz.h"
#include "properties/core/problem.h"
#include "properties/self/support.h"

namespace assay::trimul {
namespace {

Recipe recipe_of(Factor factor, DType intermediate) {
  return {DType::kF32, DType::kF32, DType::kF32, factor, intermediate};
}

// To so many significant bits, whatever the exponent: f16 as well is scaled so that nothing overflows.
double rounded(int bits, double value) {
  if (!std::isfinite(value)) return value;
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, bits)), exponent - bits);
}

// Rounds factors to 11 or 8 bits, and what lies between the steps if that is no f32; nothing else.
class Loop {
 public:
  Loop(const Dims& dims, std::vector<ConstTensorView> inputs, const Recipe& recipe)
      : b_(dims["b"]), n_(dims["n"]), c_(dims["c"]), h_(dims["h"]) {
    bits_ = recipe.factor == Factor::kBF16 ? 8 : 11;
    bits_between_ = recipe.intermediate == DType::kF32 ? 24 : bits_;
    for (const ConstTensorView& view : inputs) inputs_.push_back(dense(view));
    for (Input weight : {kLeftProj, kRightProj, kLeftGate, kRightGate, kOutGate, kToOut}) {
      for (double& value : inputs_[weight]) value = rounded(bits_, value);
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
          return rounded(bits_, at(kMask, edge) * dot(proj, h, xn) * sigmoid(dot(gates, h, xn)));
        };
        left.push_back(gated(kLeftProj, kLeftGate));
        right.push_back(gated(kRightProj, kRightGate));
        gate.push_back(rounded(bits_between_, sigmoid(dot(kOutGate, h, xn))));
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
        hidden.push_back(rounded(bits_between_, sum));
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
    for (int64_t e = 0; e < view.size(); ++e) {
      int64_t rest = e, offset = 0;
      for (int axis = view.shape.rank(); axis-- > 0; rest /= view.shape[axis])
        offset += rest % view.shape[axis] * view.strides[axis];
      values.push_back(static_cast<const float*>(view.data)[offset]);
    }
    return values;
  }
  double at(Input input, int64_t element) const { return inputs_[input][static_cast<size_t>(element)]; }
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
      sum += at(weight, element) * rounded(bits_, values[i]);
    }
    return sum;
  }

  int64_t b_, n_, c_, h_;
  int bits_, bits_between_;
  std::vector<std::vector<double>> inputs_;
};

Case problem_of(int64_t n, uint64_t seed) {
  return {.op = "trimul",
          .path = "cpu",
          .dtype = DType::kF32,
          .dims = {{"b", 1}, {"n", n}, {"c", 32}, {"h", 32}, {"mask", 1}},
          .seed = seed};
}

// What a loop that rounds as `done` says gets wrong in the eyes of `recipe`.
Comparison compare_loop(const Recipe& recipe, const Recipe& done, const Case& which) {
  const Op& op = registry().op("trimul");
  Problem problem(op, op.path("cpu"), which, test::cpu());
  problem.draw_inputs(which.seed);
  Question question = problem.question();
  question.recipe = recipe;
  const std::vector<double> got = Loop(which.dims, question.inputs, done).out();
  std::vector<int64_t> elements(got.size());
  std::iota(elements.begin(), elements.end(), 0);
  std::vector<Expected> expected(got.size());
  registry().oracle("trimul").solve(question, 0)(elements, expected);
  Comparison comparison;
  for (size_t i = 0; i < got.size(); ++i) comparison.add(expected[i], got[i], elements[i], DType::kF64);
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
  return path;
}

void for_cases(const Path& path, const FuzzOptions& options,
               const std::function<void(const Judged&)>& visit_one) {
  const Subject subject{
      .op = &registry().op("trimul"), .path = &path, .oracle = &registry().oracle("trimul")};
  fuzz(subject, test::cpu(), options, [&](const Judged& judged) {
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
    for (size_t e = 0; e < out.size(); ++e) {
      int64_t rest = static_cast<int64_t>(e), offset = 0;
      for (int axis = 4; axis-- > 0; rest /= to.shape[axis])
        offset += rest % to.shape[axis] * to.strides[axis];
      static_cast<float*>(to.data)[offset] = static_cast<float>(out[e]);
    }
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

}  // namespace
}  // namespace assay::trimul
