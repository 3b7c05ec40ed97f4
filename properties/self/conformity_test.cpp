// SPDX-License-Identifier: Apache-2.0
#include "properties/core/conformity.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/cheri/cheri.h"
#include "kernels/trimul/trimul.h"
#include "properties/core/judge.h"
#include "properties/core/random.h"
#include "properties/self/support.h"

namespace assay {
namespace {

TEST(RmsLaw, AllowsMoreWhereFewBlocksCarryTheEnergy) {
  EXPECT_EQ(largest_energy(0, 0, 0), 0);
  // Chernoff for 10^4 equal blocks: 4 times as large ones as were sampled count for 2500.
  EXPECT_GT(largest_energy(1e4, 1, 0), 1.1e4);
  EXPECT_LT(largest_energy(1e4, 1, 0), 1.2e4);
  EXPECT_GT(largest_energy(1, 1, 0), 30);
  EXPECT_LT(largest_energy(1, 1, 0), 40);
  // Where no sample flipped, a few may.
  EXPECT_GT(largest_energy(0, 0, 1), 10);
  EXPECT_LT(largest_energy(0, 0, 1), 30);
}

// One output of a case, as its recipe says and as paths of other recipes compute it.
class Sampled {
 public:
  explicit Sampled(std::string_view line, const std::optional<Recipe>& recipe = {})
      : which_(parse_case(line)),
        op_(registry().op(which_.op)),
        oracle_(registry().oracle(op_.name)),
        problem_(op_, op_.path("cpu"), which_, test::cpu()),
        recipe_(recipe.value_or(op_.path("cpu").recipe(which_.dims, which_.dtype))) {
    problem_.draw_inputs(which_.seed);
    elements_.resize(static_cast<size_t>(element_count(shape())));
    std::iota(elements_.begin(), elements_.end(), int64_t{0});
    for (const Ball& ball : in(Arithmetic(Arithmetic::Mode::kBall), recipe_))
      expected_.push_back({.value = ball.mid, .bound = ball.radius, .exact = ball.mid});
  }

  DType dtype() const { return which_.dtype; }
  const Recipe& recipe() const { return recipe_; }
  void forget_doubt_axes() { oracle_.doubt_axes = 0; }
  std::optional<Conformity> of(const Arithmetic& path, const Recipe& recipe) const {
    std::vector<double> got;
    for (const Ball& value : in(path, recipe)) got.push_back(value.mid);
    return conformity_of({.oracle = oracle_,
                          .question = question(recipe_),
                          .output = 0,
                          .shape = shape(),
                          .dtype = which_.dtype,
                          .elements = elements_,
                          .expected = expected_,
                          .got = got});
  }

 private:
  Extents shape() const { return shape_of(op_.outputs.front(), which_.dims); }
  Question question(const Recipe& recipe) const {
    Question question = problem_.question();
    question.recipe = recipe;
    return question;
  }
  std::vector<Ball> in(const Arithmetic& arithmetic, const Recipe& recipe) const {
    std::vector<Ball> values(elements_.size());
    const Question asked = question(recipe);
    oracle_.formula(asked, 0, arithmetic, 0)(elements_, values);
    return values;
  }

  Case which_;
  const Op& op_;
  Oracle oracle_;
  Problem problem_;
  Recipe recipe_;
  std::vector<int64_t> elements_;
  std::vector<Expected> expected_;
};

// Right paths of other seeds than those that the law samples. Of 10^9 one may break it.
TEST(RmsLaw, HoldsForRightPaths) {
  for (const char* line :
       {"dynamic_conv/cpu/f32/b=1/t=40/d=40/w=4", "dynamic_conv/cpu/bf16/b=1/t=40/d=40/w=4",
        "mhc_post/cpu/f16/n=8/hc=4/h=40", "cheri_conv_norm/cpu/f32/n=4/l=30/c=9/dilation=2",
        "cheri_block/cpu/bf16/n=2/l=20/c=9/dilation=2/hidden=16", "trimul/cpu/f32/b=2/n=6/c=8/h=8/mask=1"}) {
    const Sampled sampled(line);
    double largest = 0;
    for (uint64_t seed = 1000; seed < 1032; ++seed) {
      const auto seen = sampled.of(Arithmetic(Arithmetic::Mode::kSampled, seed), sampled.recipe());
      ASSERT_TRUE(seen);
      EXPECT_LE(seen->rms, seen->allowed) << line << " seed " << seed;
      largest = std::max(largest, seen->rms / seen->allowed);
    }
    if (sampled.dtype() != DType::kF32) continue;  // few values flip in 16 bits
    EXPECT_GT(largest, 0.15) << line << ": the law allows far more than right paths need";
  }
}

TEST(RankLaw, AllowsWhatABinomialDistributionExceedsOnceIn1e9) {
  EXPECT_EQ(most_farthest(0), 0);
  EXPECT_EQ(most_farthest(14), 14);  // 4^-14 = 3.7e-9
  EXPECT_EQ(most_farthest(15), 14);  // 4^-15 = 9.3e-10
  EXPECT_EQ(most_farthest(32), 24);
}

// Right paths round either way where their values are in doubt, and paths of another recipe err
// elsewhere in nearly all rows. Each element of these may lie in its ball.
TEST(RankLaw, HoldsForRightPathsAndNotForThoseThatDoNotRound) {
  NOT_SANITIZED("statistics of numbers; the oracles run in BallsOf");
  struct Row {
    const char* line;
    Recipe recipe;
  };
  const Row rows[] = {{"trimul/cpu/f32/b=1/n=32/c=64/h=64/mask=1", trimul::recipe_of(Format::kF16)},
                      {"trimul/cpu/f32/b=1/n=32/c=64/h=64/mask=1", trimul::recipe_of(Format::kBF16)},
                      {"trimul/cpu/f32/b=7/n=7/c=6/h=48/mask=0", trimul::recipe_of(Format::kF16)},
                      {"cheri_block/cpu/f32/n=3/l=40/c=64/dilation=2/hidden=128",
                       cheri::block_recipe(DType::kF32, Format::kBF16)},
                      {"cheri_block/cpu/f16/n=3/l=40/c=64/dilation=2/hidden=128",
                       cheri::block_recipe(DType::kF16, Format::kF16)}};
  for (const auto& [line, recipe] : rows) {
    const Sampled sampled(line, recipe);
    const Recipe not_rounded{.storage = sampled.recipe().storage, .sums = sampled.recipe().sums};
    for (uint64_t seed = 1000; seed < 1008; ++seed) {
      const Arithmetic path(Arithmetic::Mode::kSampled, seed);
      const auto right = sampled.of(path, sampled.recipe()), wrong = sampled.of(path, not_rounded);
      ASSERT_TRUE(right && wrong) << line;
      EXPECT_GT(right->doubts, 0) << line;
      EXPECT_GE(right->rows, 15) << line;
      EXPECT_LE(right->farthest, most_farthest(right->rows)) << line << " seed " << seed;
      EXPECT_GT(wrong->farthest, most_farthest(wrong->rows)) << line << " seed " << seed;
    }
  }
}

TEST(RankLaw, AsksTheOracleWhichElementsShareDoubts) {
  Sampled sampled("trimul/cpu/f32/b=1/n=8/c=16/h=16/mask=1", trimul::recipe_of(Format::kBF16));
  sampled.forget_doubt_axes();
  const Arithmetic path(Arithmetic::Mode::kSampled, 1000);
  EXPECT_EQ(test::error_of([&] { sampled.of(path, sampled.recipe()); }, Error::Kind::kInternal),
            "the oracle of trimul leaves values in doubt, and has no doubt_axes");
}

// Long sums of one sign drift: a plain loop errs more than sums in parts.
TEST(RmsLaw, HoldsForAPlainLoopOverPositiveTerms) {
  constexpr size_t kTerms = 4096, kElements = 128;
  const CounterRandom random(3, 0);
  std::vector<Balls> left(kElements), right(kElements);
  std::vector<double> got;
  for (size_t e = 0; e < kElements; ++e) {
    float sum = 0;
    for (size_t k = 0; k < kTerms; ++k) {
      const auto a = static_cast<float>(0.5 + random.uniform(e * kTerms + k, 0));
      const auto b = static_cast<float>(0.5 + random.uniform(e * kTerms + k, 1));
      left[e].push_back({a});
      right[e].push_back({b});
      sum = std::fma(a, b, sum);
    }
    got.push_back(sum);
  }
  Oracle oracle{.op = "dots", .formula = {}, .block_axes = {1}};
  oracle.formula = [&](const Question&, int, const Arithmetic& a, int) -> Evaluate {
    return [&](std::span<const int64_t> elements, std::span<Ball> values) {
      for (size_t i = 0; i < elements.size(); ++i) {
        const auto e = static_cast<size_t>(elements[i]);
        values[i] = a.round(DType::kF32, a.dot(left[e].row(), right[e].row(), {}));
      }
    };
  };
  const Question question{.dims = {}, .recipe = {}, .inputs = {}};
  std::vector<int64_t> elements(kElements);
  for (size_t e = 0; e < kElements; ++e) elements[e] = static_cast<int64_t>(e);
  std::vector<Ball> balls(kElements);
  const Arithmetic in_balls(Arithmetic::Mode::kBall);
  oracle.formula(question, 0, in_balls, 0)(elements, balls);
  std::vector<Expected> expected;
  for (const Ball& ball : balls)
    expected.push_back({.value = ball.mid, .bound = ball.radius, .exact = ball.mid});
  const auto seen = conformity_of({.oracle = oracle,
                                   .question = question,
                                   .output = 0,
                                   .shape = {static_cast<int64_t>(kElements)},
                                   .dtype = DType::kF32,
                                   .elements = elements,
                                   .expected = expected,
                                   .got = got});
  ASSERT_TRUE(seen);
  EXPECT_LE(seen->rms, seen->allowed);
}

// Rounding errors of a block may all be large together.
TEST(RmsLaw, AllowsMoreWhereElementsShareABlock) {
  const Case which = parse_case("mhc_post/cpu/f32/n=8/hc=4/h=40");
  const Op& op = registry().op(which.op);
  Problem problem(op, op.path("cpu"), which, test::cpu());
  problem.draw_inputs(which.seed);
  const Question question = problem.question();
  const Extents shape = shape_of(op.outputs.front(), which.dims);
  std::vector<int64_t> elements;
  for (int64_t i = 0; i < element_count(shape); ++i) elements.push_back(i);
  std::vector<Ball> balls(elements.size());
  Oracle oracle = registry().oracle(op.name);
  const Arithmetic in_balls(Arithmetic::Mode::kBall);
  oracle.formula(question, 0, in_balls, 0)(elements, balls);
  std::vector<Expected> expected;
  std::vector<double> got;
  for (const Ball& ball : balls) {
    expected.push_back({.value = ball.mid, .bound = ball.radius, .exact = ball.mid});
    got.push_back(ball.mid);
  }
  const auto allowed = [&](int block_axes) {
    oracle.block_axes = {block_axes};
    return conformity_of({.oracle = oracle,
                          .question = question,
                          .output = 0,
                          .shape = shape,
                          .dtype = which.dtype,
                          .elements = elements,
                          .expected = expected,
                          .got = got})
        ->allowed;
  };
  EXPECT_GT(allowed(0), 2 * allowed(3));
  EXPECT_GT(allowed(1), allowed(2));
}

// One block holds nearly all of the energy there, and four samples of it happen to be small.
TEST(RmsLaw, TakesMoreSamplesBeforeItFailsAPath) {
  const Case which =
      parse_case("trimul/cpu/f32/b=7/n=7/c=33/h=32/mask=1/data=heavy_tail/state=first_call/seed=987128");
  const Op& op = registry().op(which.op);
  const Verdict verdict = judge({&op, &op.path("cpu"), &registry().oracle(op.name)}, which, test::cpu());
  EXPECT_EQ(verdict.kind, VerdictKind::kPass) << verdict.reason;
}

TEST(RmsLaw, NeedsEnoughElements) {
  for (int64_t d : {9, 10}) {
    const Case which = parse_case(fmt::format("dynamic_conv/cpu/f32/b=1/t=7/d={}/w=4", d));
    const Op& op = registry().op(which.op);
    const Verdict verdict = judge({&op, &op.path("cpu"), &registry().oracle(op.name)}, which, test::cpu());
    EXPECT_EQ(verdict.kind, VerdictKind::kPass) << verdict.reason;
    EXPECT_EQ(verdict.outputs.front().obeys_rms_law, 7 * d >= kFewestOfLaw);
  }
}

}  // namespace
}  // namespace assay
