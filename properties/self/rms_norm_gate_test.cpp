// SPDX-License-Identifier: Apache-2.0
// The fused op that CONTRIBUTING.md shows: x by its rms, times weight, times silu of a gate.
#include <cmath>

#include "oracles/core/formula.h"
#include "properties/core/random.h"
#include "properties/self/support.h"

namespace assay::rms_norm_gate {
namespace {

constexpr size_t kX = 0, kGate = 1, kWeight = 2;
constexpr double kEpsilon = 1e-6;
namespace site {
constexpr Site kSquares{0, "squares"};
}

Evaluate formula(const Question& question, int, const Arithmetic& a, int) {
  const auto row_of = [&question](size_t input, const Extents& row) {
    return Balls(Reader(question.inputs[input]).all(row));
  };
  return each_row(question, a, question.inputs[kX].shape, [=, &question, &a](const Extents& row) {
    const Balls x = row_of(kX, row), gate = row_of(kGate, row), weight = row_of(kWeight, {});
    const Ball rstd = a.rsqrt(a.mean_square(x.row(), question.recipe.sum(site::kSquares)), kEpsilon);
    return [=, &a](size_t h) {
      const Ball normalised = a.multiply(a.multiply(x[h], rstd), weight[h]);
      return a.multiply(normalised, a.multiply(gate[h], a.sigmoid(gate[h])));
    };
  });
}

// Rows of x and of the gate, and the weight, in f32.
class Problem {
 public:
  Problem(int64_t rows, int64_t hidden, uint64_t seed, double spread) : shape_{rows, hidden} {
    const auto draw = [&](uint64_t stream, int64_t count) {
      const CounterRandom random(seed, stream);
      std::vector<float> values;
      for (int64_t i = 0; i < count; ++i) {
        const auto at = static_cast<uint64_t>(i);
        values.push_back(static_cast<float>(random.normal(at) * std::exp(spread * random.normal(at + 1000))));
      }
      return values;
    };
    x_ = draw(0, rows * hidden), gate_ = draw(1, rows * hidden), weight_ = draw(2, hidden);
    question_.recipe.storage = DType::kF32;
    const auto add = [&](const std::vector<float>& values, const Extents& shape) {
      question_.inputs.push_back({values.data(), DType::kF32, shape, dense_strides(shape)});
    };
    add(x_, shape_), add(gate_, shape_), add(weight_, {hidden});
  }
  Problem(const Problem&) = delete;
  Problem& operator=(const Problem&) = delete;

  std::vector<Ball> evaluate(const Arithmetic& a) const {
    std::vector<int64_t> elements;
    for (int64_t i = 0; i < element_count(shape_); ++i) elements.push_back(i);
    std::vector<Ball> values(elements.size());
    formula(question_, 0, a, 0)(elements, values);
    return values;
  }

 private:
  Extents shape_;
  std::vector<float> x_, gate_, weight_;
  Question question_{.dims = {}, .recipe = {.storage = DType::kF32}, .inputs = {}};
};

const Arithmetic kBall(Arithmetic::Mode::kBall);

// The largest distance of sampled paths over radii; more than 1 if one leaves its ball.
double reach_of(const Problem& problem, uint64_t seeds) {
  const std::vector<Ball> balls = problem.evaluate(kBall);
  double most = 0;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    const std::vector<Ball> path = problem.evaluate(Arithmetic(Arithmetic::Mode::kSampled, seed));
    for (size_t i = 0; i < balls.size(); ++i) {
      const double distance = std::abs(path[i].mid - balls[i].mid);
      if (!(distance <= balls[i].radius)) return HUGE_VAL;
      if (distance > 0) most = std::max(most, distance / balls[i].radius);
    }
  }
  return most;
}

TEST(RmsNormGate, HoldsSampledPaths) {
  for (const double spread : {0.0, 1.0, 5.0}) {
    for (const int64_t hidden : {1, 2, 7, 33, 64, 500}) EXPECT_LE(reach_of({3, hidden, 1, spread}, 100), 1);
    EXPECT_LE(reach_of({1, 16384, 1, spread}, 10), 1);
  }
}

// In any order, n squares go through n roundings.
TEST(RmsNormGate, IsTightForLongRows) {
  const std::vector<Ball> balls = Problem(1, 16384, 1, 0).evaluate(kBall);
  for (const Ball& ball : balls) ASSERT_LT(ball.radius, 16384 * 0x1p-24 / 2 / 16 * std::abs(ball.mid));
}

TEST(RmsNormGate, IsWhatTheFormulaSays) {
  const std::vector<Ball> exact = Problem(2, 3, 1, 0).evaluate(Arithmetic(Arithmetic::Mode::kExact));
  const std::vector<Ball> balls = Problem(2, 3, 1, 0).evaluate(kBall);
  for (size_t i = 0; i < exact.size(); ++i) {
    EXPECT_EQ(exact[i].radius, 0);
    EXPECT_LE(std::abs(exact[i].mid - balls[i].mid), balls[i].radius);
  }
  EXPECT_NE(exact[0].mid, exact[3].mid);  // of the second row
}

// A sum of squares that is kept in bf16 or lacks its last term leaves the balls.
TEST(RmsNormGate, SeesFaultsOfItsSum) {
  const Problem problem(64, 20, 1, 0);
  const std::vector<Ball> balls = problem.evaluate(kBall);
  for (Plant::Kind kind : {Plant::Kind::kSumInBF16, Plant::Kind::kLastTermDropped}) {
    const std::vector<Ball> wrong =
        problem.evaluate(Arithmetic(Plant{.kind = kind, .site = site::kSquares}, 7));
    int64_t outside = 0;
    for (size_t i = 0; i < balls.size(); ++i)
      outside += std::abs(wrong[i].mid - balls[i].mid) > balls[i].radius ? 1 : 0;
    EXPECT_GT(outside, 0);
  }
}

}  // namespace
}  // namespace assay::rms_norm_gate
