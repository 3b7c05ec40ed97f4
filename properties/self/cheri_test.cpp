// SPDX-License-Identifier: Apache-2.0
// What the oracles of the Cheri ops say for each recipe and kind of input, and which path `auto`
// takes.
#include "kernels/cheri/cheri.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

#include "kernels/core/build.h"
#include "properties/core/problem.h"
#include "properties/self/gpu.h"
#include "properties/self/support.h"

namespace assay {
namespace {

Recipe recipe_of(DType storage) {
  return cheri::grad_recipe({}, storage);
}

// The balls of output number `output`. `change` may alter the drawn inputs.
std::vector<Ball> balls_of_case(std::string_view line, const Recipe& recipe, int output = 0,
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
  std::vector<Ball> balls(elements.size());
  const Arithmetic arithmetic(Arithmetic::Mode::kBall);
  registry().oracle(which.op).formula(question, output, arithmetic, 0)(elements, balls);
  return balls;
}

double mean_radius(const std::vector<Ball>& balls) {
  double sum = 0;
  for (const Ball& ball : balls) sum += ball.radius;
  return sum / static_cast<double>(balls.size());
}

// Of the values' scale, which is 1 for y and about 3 for dx. Terms of dw grow with their number.
TEST(BallOfCheri, IsNotIdle) {
  const Recipe recipe = recipe_of(DType::kF32);
  EXPECT_LE(mean_radius(balls_of_case("cheri_conv_norm/cpu/f32/n=2/l=128/c=64/dilation=5", recipe)), 2e-6);
  const std::string_view gradient = "cheri_conv_norm_grad/cpu/f32/n=2/l=128/c=64/dilation=5";
  EXPECT_LE(mean_radius(balls_of_case(gradient, recipe, 0)), 1e-5);
  EXPECT_LE(mean_radius(balls_of_case(gradient, recipe, 1)), 2e-3);
}

// If the convolution is exact, the mean of an example shows in y only by what two f32 cannot hold
// of it.
TEST(BallOfCheri, OfExactConvolutionsDoesNotGrowWithTheMean) {
  const auto shifted = [](float shift) {
    return [shift](TensorBytes& inputs) {
      const auto at = [&](size_t tensor, size_t i) { return &inputs[tensor][i * sizeof(float)]; };
      for (size_t i = 0; i < 16 * 8; ++i) {
        float x = 0;
        std::memcpy(&x, at(cheri::kX, i), sizeof x);
        x += shift;
        std::memcpy(at(cheri::kX, i), &x, sizeof x);
      }
      for (size_t i = 0; i < 3 * 8; ++i) {
        const float w = i / 8 == 1 ? 1 : 0;
        std::memcpy(at(cheri::kW, i), &w, sizeof w);
      }
    };
  };
  const std::string_view line = "cheri_conv_norm/cpu/f32/n=1/l=16/c=8/dilation=1/data=integers";
  const auto centred = balls_of_case(line, recipe_of(DType::kF32), 0, shifted(0));
  const auto far = balls_of_case(line, recipe_of(DType::kF32), 0, shifted(1e6f));
  constexpr double kLost = 1e6 * 0x1p-42;  // by sums in double and by two f32
  for (size_t i = 0; i < centred.size(); ++i) {
    EXPECT_LE(std::abs(far[i].mid - centred[i].mid), kLost + far[i].radius);
    EXPECT_LE(far[i].radius, centred[i].radius + kLost + 0x1p-23 * std::abs(far[i].mid));
  }
}

// A recipe that rounds moves the computed value away from the exact one. Where it rounds, the ball
// is narrower than where roundings are in doubt.
TEST(BallOfCheri, OfTheBlockFollowsTheRecipe) {
  const std::string_view line = "cheri_block/cpu/f32/n=2/l=16/c=64/dilation=3/hidden=64";
  const auto f32 = balls_of_case(line, recipe_of(DType::kF32));
  const auto moved_by = [&](Format factor, bool rounds_between = false) {
    Recipe recipe = cheri::block_recipe(DType::kF32, factor);
    for (Site site : {cheri::site::kZ, cheri::site::kUpdate}) {
      if (rounds_between) std::ranges::find(recipe.roundings, site, &Rounding::site)->format = factor;
    }
    const auto balls = balls_of_case(line, recipe);
    double squares = 0;
    for (size_t i = 0; i < balls.size(); ++i) squares += std::pow(balls[i].mid - f32[i].mid, 2);
    const double rms = std::sqrt(squares / static_cast<double>(balls.size()));
    if (factor != Format::kBF16x3) {  // whose parts are not rounded
      EXPECT_LT(mean_radius(balls), rms) << name_of(factor);
    }
    return rms;
  };
  const double f16 = moved_by(Format::kF16), bf16 = moved_by(Format::kBF16);
  EXPECT_LT(100 * moved_by(Format::kBF16x3), f16);
  EXPECT_LT(4 * f16, bf16);
  EXPECT_LT(4 * mean_radius(f32), bf16);
  EXPECT_LT(1.1 * bf16, moved_by(Format::kBF16, true));
}

TEST(BallOfCheri, IsZeroWhereNothingIsAdded) {
  for (Input zeroed : {cheri::kW1, cheri::kW2}) {
    for (Format factor : {Format::kStored, Format::kF16, Format::kBF16, Format::kBF16x3}) {
      const Recipe recipe = cheri::block_recipe(DType::kF32, factor);
      TensorBytes drawn;
      const auto expected = balls_of_case("cheri_block/cpu/f32/n=2/l=5/c=7/dilation=2/hidden=16", recipe, 0,
                                          [&](TensorBytes& inputs) {
                                            std::ranges::fill(inputs[zeroed], std::byte{0});
                                            drawn = inputs;
                                          });
      for (size_t i = 0; i < expected.size(); ++i) {
        float x = 0;
        std::memcpy(&x, &drawn[cheri::kX][i * sizeof(float)], sizeof(float));
        EXPECT_EQ(expected[i].mid, x);
        EXPECT_EQ(expected[i].radius, 0);
      }
    }
  }
  for (const Ball& ball :
       balls_of_case("cheri_conv_norm/cpu/f32/n=3/l=1/c=1/dilation=1/data=huge", recipe_of(DType::kF32))) {
    EXPECT_EQ(ball.mid, 0);
    EXPECT_EQ(ball.radius, 0);
  }
}

// The contract says: one element of dy makes its whole example NaN, and each dw that sums a term of
// it. Nothing is left open.
TEST(BallOfCheri, NonfiniteDyIsNanInItsExample) {
  constexpr int64_t kCount = 5 * 7;  // elements of an example
  for (const float value : {HUGE_VALF, -HUGE_VALF, NAN}) {
    const auto spoil_second_example = [value](TensorBytes& inputs) {
      std::memcpy(&inputs[cheri::grad::kDy][(kCount + 9) * sizeof(float)], &value, sizeof value);
    };
    for (const int64_t dilation : {2, 5}) {
      const std::string line = fmt::format("cheri_conv_norm_grad/cpu/f32/n=3/l=5/c=7/dilation={}", dilation);
      const auto solve = [&](Output output) {
        return balls_of_case(line, recipe_of(DType::kF32), static_cast<int>(output.place),
                             spoil_second_example);
      };
      const auto dx = solve(cheri::grad::kDx), dw = solve(cheri::grad::kDw);
      for (size_t i = 0; i < dx.size(); ++i) {
        EXPECT_FALSE(dx[i].is_open());
        EXPECT_EQ(std::isnan(dx[i].mid), i / kCount == 1) << i;
      }
      for (size_t i = 0; i < dw.size(); ++i) {
        const bool sums_nothing = i / 7 != 1 && dilation >= 5;
        EXPECT_FALSE(dw[i].is_open());
        EXPECT_TRUE(sums_nothing ? dw[i].mid == 0 && dw[i].radius == 0 : std::isnan(dw[i].mid)) << i;
      }
    }
  }
}

// The bytes of the output of a path of cheri_block for the inputs of the case.
TensorBytes outputs_of_block(const Path& path, const Case& which, Device& device) {
  Problem problem(registry().op("cheri_block"), path, which, device);
  problem.draw_inputs(which.seed);
  problem.run();
  return problem.outputs();
}

// The dispatch of the source: if gradients are wanted, it takes the training path, to the bit, even
// if the fused kernel serves the size. No path of the table wants gradients.
TEST(BlockAuto, TrainsWhereGradientsAreWanted) {
  const test::Gpu gpu = test::gpu();
  if (gpu.device == nullptr) GTEST_SKIP() << gpu.why_not;
  if constexpr (kHasCuda) {
    const Op& op = registry().op("cheri_block");
    Path wanting = op.path("auto");
    wanting.run = [](const Call& call) {
      const auto& in = call.inputs;
      cheri::block_auto(
          {in[cheri::kX], in[cheri::kW], in[cheri::kW1], in[cheri::kW2], call.outputs[cheri::kOut]}, true,
          {.dilation = call.dims[cheri::kDilation],
           .context = context_of(call),
           .stream = call.stream,
           .versions = call.versions});
    };
    for (DType dtype : wanting.dtypes) {
      Case which = parse_case("cheri_block/auto/f32/n=2/l=65/c=64/dilation=3/hidden=128");
      which.dtype = dtype;
      const TensorBytes train = outputs_of_block(op.path("cuda.train"), which, *gpu.device);
      const TensorBytes fused = outputs_of_block(op.path("cuda.fused"), which, *gpu.device);
      EXPECT_NE(train, fused) << name_of(dtype);  // otherwise the test would show nothing
      EXPECT_EQ(outputs_of_block(wanting, which, *gpu.device), train) << name_of(dtype);
      EXPECT_EQ(outputs_of_block(op.path("auto"), which, *gpu.device), fused) << name_of(dtype);
    }
  }
}

// Tensors without elements are served whatever their other sizes are.
TEST(Cheri, RingsServeWhatTheyCanCount) {
  if constexpr (!kHasCuda) GTEST_SKIP() << "this build has no CUDA";
  constexpr int64_t kRows = int64_t{1} << 27, kChannels = 19'968;
  for (std::string_view op : {"cheri_conv_norm", "cheri_conv_norm_grad"}) {
    const auto serves = [&](int64_t n, int64_t l, int64_t c) {
      const Dims dims{{cheri::kN, n}, {cheri::kL, l}, {cheri::kC, c}, {cheri::kDilation, 4}};
      return !registry().op(op).path("cuda.ring").unsupported(dims, DType::kF32).has_value();
    };
    EXPECT_TRUE(serves(1, kRows, kChannels)) << op;
    EXPECT_FALSE(serves(1, kRows + 1, 1)) << op;
    EXPECT_FALSE(serves(1, 1, kChannels + 1)) << op;
    EXPECT_TRUE(serves(0, kRows + 1, 1)) << op;
    EXPECT_TRUE(serves(1, 0, kChannels + 1)) << op;
  }
}

}  // namespace
}  // namespace assay
