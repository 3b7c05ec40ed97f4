// SPDX-License-Identifier: Apache-2.0
// The oracle of trimul for recipes with 16-bit factors, held against a plain loop that rounds where they say, and what its
// stages add to the error.
#include "oracles/trimul/trimul.h"

#include <cmath>
#include <numeric>

#include "kernels/trimul/trimul.h"
#include "oracles/core/compare.h"
#include "properties/core/problem.h"
#include "properties/self/support.h"

namespace assay::trimul {
namespace {

Recipe recipe_of(Factor factor, DType intermediate) {
  return {DType::kF32, DType::kF32, DType::kF32, factor, intermediate};
}

// Rounds to f16 or bf16, as a power of two times the value.
double rounded(DType dtype, double value, double scale = 1) {
  return visit(dtype, [&]<class T>(std::type_identity<T>) {
    return to_double(from_double<T>(value * scale)) / scale;
  });
}

class Loop {
 public:
  Loop(const Problem& problem, DType dtype) : question_(problem.question()), dtype_(dtype) {
    n_ = question_.dims["n"];
    c_ = question_.dims["c"];
    h_ = question_.dims["h"];
  }

  std::vector<double> out() const {
    std::vector<double> left, right, gate, result;
    for (int64_t edge = 0; edge < n_ * n_; ++edge) {
      std::vector<double> x;
      for (int64_t c = 0; c < c_; ++c) x.push_back(at(kX, edge * c_ + c));
      const std::vector<double> xn = normalised(x, kNormWeight, kNormBias);
      for (int64_t h = 0; h < h_; ++h) {
        const auto gated = [&](Input proj, Input gates) {
          return rounded(dtype_, at(kMask, edge) * dot(proj, h, xn) * sigmoid(dot(gates, h, xn)));
        };
        left.push_back(gated(kLeftProj, kLeftGate));
        right.push_back(gated(kRightProj, kRightGate));
        gate.push_back(rounded(dtype_, sigmoid(dot(kOutGate, h, xn))));
      }
    }
    for (int64_t edge = 0; edge < n_ * n_; ++edge) {
      const int64_t i = edge / n_, j = edge % n_;
      std::vector<double> hidden;
      for (int64_t h = 0; h < h_; ++h) {
        double sum = 0;
        for (int64_t k = 0; k < n_; ++k) {
          sum += left[static_cast<size_t>((i * n_ + k) * h_ + h)] *
                 right[static_cast<size_t>((j * n_ + k) * h_ + h)];
        }
        hidden.push_back(rounded(dtype_, sum, 0x1p-8));
      }
      std::vector<double> z = normalised(hidden, kToOutNormWeight, kToOutNormBias);
      for (size_t h = 0; h < z.size(); ++h) z[h] *= gate[static_cast<size_t>(edge * h_) + h];
      for (int64_t c = 0; c < c_; ++c) result.push_back(dot(kToOut, c, z));
    }
    return result;
  }

 private:
  double at(Input input, int64_t element) const {
    return static_cast<const float*>(question_.inputs[input].data)[element];
  }
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

  // The factors are rounded here.
  double dot(Input weight, int64_t row, const std::vector<double>& values) const {
    double sum = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const auto element = row * static_cast<int64_t>(values.size()) + static_cast<int64_t>(i);
      sum += rounded(dtype_, at(weight, element)) * rounded(dtype_, values[i]);
    }
    return sum;
  }

  Question question_;
  DType dtype_;
  int64_t n_, c_, h_;
};

Case problem_of(int64_t n, uint64_t seed) {
  return {.op = "trimul",
          .path = "cpu",
          .dtype = DType::kF32,
          .dims = {{"b", 1}, {"n", n}, {"c", 32}, {"h", 32}, {"mask", 1}},
          .seed = seed};
}

// What a loop that rounds to `dtype` gets wrong in the eyes of `recipe`.
Comparison compare_loop(const Recipe& recipe, DType dtype, const Case& which) {
  const Op& op = registry().op("trimul");
  Problem problem(op, op.path("cpu"), which, test::cpu());
  problem.draw_inputs(which.seed);
  Question question = problem.question();
  question.recipe = recipe;
  const std::vector<double> got = Loop(problem, dtype).out();
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
      const Comparison c = compare_loop(recipe_of(factor, dtype), dtype, problem_of(24, seed));
      EXPECT_EQ(c.wrong, 0) << name_of(dtype) << " " << seed << ": " << c.max_error_over_bound;
      ASSERT_TRUE(largest_allowed_rms(c));
      EXPECT_LE(c.rms(), *largest_allowed_rms(c)) << name_of(dtype) << " " << seed;
      EXPECT_GT(c.rms(), c.predicted_rms() / 10) << name_of(dtype) << " " << seed;
    }
  }
}

TEST(TriMulOracle, RejectsFactorsOf16BitsInPathsOfF32) {
  const Comparison c = compare_loop(recipe_of(Factor::kStored, DType::kF32), DType::kF16, problem_of(24, 0));
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

}  // namespace
}  // namespace assay::trimul
