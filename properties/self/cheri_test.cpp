// SPDX-License-Identifier: Apache-2.0
// What the oracles of the Cheri ops expect for each recipe and kind of input, and which path `auto`
// takes.
#include "kernels/cheri/cheri.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

#include "kernels/core/build.h"
#include "oracles/cheri/statistics.h"
#include "oracles/core/bound.h"
#include "properties/core/problem.h"
#include "properties/self/gpu.h"
#include "properties/self/support.h"

namespace assay {
namespace {

Recipe recipe_of(DType storage) {
  return {.storage = storage, .product = DType::kF32, .accumulate = DType::kF32};
}

// What the oracle of an op expects of output number `output`. `change` may alter the drawn inputs.
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

// A bound of ten times the actual rounding would say little. The variance must be tighter still.
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

// If the convolution is exact, the mean of an example shows in y only by what two f32 cannot hold
// of it.
TEST(BoundOfCheri, OfExactConvolutionsDoesNotGrowWithTheMean) {
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
  const auto centred = expected_of_case(line, recipe_of(DType::kF32), 0, shifted(0));
  const auto far = expected_of_case(line, recipe_of(DType::kF32), 0, shifted(1e6f));
  constexpr double kLost = 1e6 * 0x1p-47;  // by sums in double
  for (size_t i = 0; i < centred.size(); ++i) {
    EXPECT_LE(std::abs(far[i].value - centred[i].value), kLost);
    EXPECT_LE(far[i].bound, centred[i].bound + kLost);
  }
}

// A coarser recipe allows a larger error and predicts a larger one.
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
  for (Input zeroed : {cheri::kW1, cheri::kW2}) {
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
        std::memcpy(&x, &drawn[cheri::kX][i * sizeof(float)], sizeof(float));
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

// Opposite values have opposite errors, which add up in sums of odd terms, for any mean. So do
// exact values equally far from the mean once it is subtracted.
TEST(BoundOfCheri, CountsOppositeValuesAsOne) {
  const auto repeats = [](double unit, std::initializer_list<double> values) {
    std::vector<cheri::oracle::ConvValue> conv;
    for (double value : values) {
      conv.push_back({.value = value, .error = unit * std::abs(value), .magnitude = std::abs(value)});
    }
    return cheri::oracle::statistics_of(conv).repeats;
  };
  EXPECT_EQ(repeats(0x1p-24, {1.5, -1.5, 0.75, -1.5, 1.5}), 4);
  EXPECT_EQ(repeats(0x1p-24, {1, 2, 4, -8}), 1);
  EXPECT_EQ(repeats(0, {1, 1, 5, 5}), 4);
}

// The contract says: one element of dy makes its whole example NaN, and each dw that sums a term of
// it. Nothing is left open.
TEST(BoundOfCheri, NonfiniteDyIsNanInItsExample) {
  constexpr int64_t kCount = 5 * 7;  // elements of an example
  for (const float value : {HUGE_VALF, -HUGE_VALF, NAN}) {
    const auto spoil_second_example = [value](TensorBytes& inputs) {
      std::memcpy(&inputs[cheri::grad::kDy][(kCount + 9) * sizeof(float)], &value, sizeof value);
    };
    for (const int64_t dilation : {2, 5}) {
      const std::string line = fmt::format("cheri_conv_norm_grad/cpu/f32/n=3/l=5/c=7/dilation={}", dilation);
      const auto solve = [&](Output output) {
        return expected_of_case(line, recipe_of(DType::kF32), static_cast<int>(output.place),
                                spoil_second_example);
      };
      const auto dx = solve(cheri::grad::kDx), dw = solve(cheri::grad::kDw);
      for (size_t i = 0; i < dx.size(); ++i) {
        EXPECT_FALSE(dx[i].is_open);
        EXPECT_EQ(std::isnan(dx[i].value), i / kCount == 1) << i;
      }
      for (size_t i = 0; i < dw.size(); ++i) {
        const bool sums_nothing = i / 7 != 1 && dilation >= 5;
        EXPECT_FALSE(dw[i].is_open);
        EXPECT_TRUE(sums_nothing ? dw[i].value == 0 && dw[i].bound == 0 : std::isnan(dw[i].value)) << i;
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

}  // namespace
}  // namespace assay
