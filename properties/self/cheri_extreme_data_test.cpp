// SPDX-License-Identifier: Apache-2.0
// The oracles of the Cheri ops where roundings reach an end of their range. They are compared with
// a plain loop that keeps the contract but does no more scaling or centring than it asks for.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "kernels/cheri/cheri.h"
#include "properties/core/compare.h"
#include "properties/core/random.h"
#include "properties/self/support.h"

namespace assay::cheri {
namespace {

using Floats = std::vector<float>;

// Inputs of one op in f32, dense.
struct Inputs {
  std::string_view op;
  Dims dims;
  std::vector<Floats> tensors;

  std::vector<Expected> expected(int output) const {
    const Op& table = registry().op(op);
    Question question{.dims = dims, .recipe = table.paths.front().recipe(dims, DType::kF32), .inputs = {}};
    for (size_t i = 0; i < tensors.size(); ++i) {
      const Extents shape = shape_of(table.inputs[i], dims);
      question.inputs.push_back({tensors[i].data(), DType::kF32, shape, dense_strides(shape)});
    }
    std::vector<int64_t> elements(
        static_cast<size_t>(element_count(shape_of(table.outputs[static_cast<size_t>(output)], dims))));
    std::iota(elements.begin(), elements.end(), int64_t{0});
    std::vector<Ball> balls(elements.size());
    const Arithmetic arithmetic(Arithmetic::Mode::kBall);
    registry().oracle(op).formula(question, output, arithmetic, 0)(elements, balls);
    std::vector<Expected> answers;
    for (const Ball& ball : balls) {
      answers.push_back({.value = ball.mid,
                         .bound = ball.is_open() ? 0 : ball.radius,
                         .exact = ball.mid,
                         .is_open = ball.is_open()});
    }
    return answers;
  }
};

// The inputs of the gradient: dy, x, w with C channels. `x` and `dy` are functions of the element's
// number.
using ValueAt = std::function<double(int64_t)>;
Inputs gradient_inputs(const Dims& dims, const ValueAt& dy, const ValueAt& x, const Floats& w) {
  Inputs inputs{.op = "cheri_conv_norm_grad", .dims = dims, .tensors = {{}, {}, w}};
  for (int64_t i = 0; i < dims[kN] * dims[kL] * dims[kC]; ++i) {
    inputs.tensors[grad::kDy].push_back(static_cast<float>(dy(i)));
    inputs.tensors[grad::kX].push_back(static_cast<float>(x(i)));
  }
  return inputs;
}

// Left, middle and right tap of each channel.
Floats taps(int64_t channels, float left, float middle, float right) {
  Floats w;
  for (float tap : {left, middle, right}) w.insert(w.end(), static_cast<size_t>(channels), tap);
  return w;
}

// conv is in f32, statistics in f64, y from a mean in f64, m2 from these y, dw in f32 by groups of
// 32. Operations are not fused, and the right tap comes first.
struct Loop {
  Floats y, dx, dw;

  explicit Loop(const Inputs& inputs) {
    const Dims& dims = inputs.dims;
    const int64_t n = dims[kN], l = dims[kL], c = dims[kC], d = dims[kDilation];
    const Floats &dy = inputs.tensors[grad::kDy], &x = inputs.tensors[grad::kX],
                 &w = inputs.tensors[grad::kW];
    const auto at = [](const Floats& of, int64_t i) { return of[static_cast<size_t>(i)]; };
    std::vector<double> sums(static_cast<size_t>(3 * c));
    Floats groups(sums.size());
    std::vector<int> counts(sums.size());
    for (int64_t example = 0; example < n; ++example) {
      const int64_t first = example * l * c;
      // sum_k w[k] * from[l + (k - 1) * d], or backwards.
      const auto convolve = [&](const Floats& from, int64_t begin, int64_t i, int sign) {
        float sum = 0;
        for (int64_t k = 2; k >= 0; --k) {
          const int64_t row = i / c + sign * (k - 1) * d;
          if (row >= 0 && row < l) sum += at(from, begin + row * c + i % c) * at(w, k * c + i % c);
        }
        return sum;
      };
      Floats conv, dconv;
      for (int64_t i = 0; i < l * c; ++i) conv.push_back(convolve(x, first, i, 1));
      const auto count = static_cast<double>(conv.size());
      double mean = 0, squares = 0, m1 = 0, m2 = 0;
      for (float value : conv) mean += value / count;
      for (float value : conv) squares += (value - mean) * (value - mean);
      const auto rstd = static_cast<float>(1 / std::sqrt(squares / count + kEpsilon));
      for (float value : conv) y.push_back(static_cast<float>(value - mean) * rstd);
      for (int64_t i = 0; i < l * c; ++i) {
        m1 += at(dy, first + i) / count;
        m2 += static_cast<double>(at(dy, first + i)) * static_cast<double>(at(y, first + i)) / count;
      }
      for (int64_t i = 0; i < l * c; ++i) {
        const auto centred = static_cast<float>(at(dy, first + i) - m1);
        dconv.push_back((centred - at(y, first + i) * static_cast<float>(m2)) * rstd);
      }
      for (int64_t i = 0; i < l * c; ++i) {
        dx.push_back(convolve(dconv, 0, i, -1));
        for (int64_t k = 0; k < 3; ++k) {
          const int64_t row = i / c + (k - 1) * d;
          if (row < 0 || row >= l) continue;
          const auto tap = static_cast<size_t>(k * c + i % c);
          groups[tap] += at(dconv, i) * at(x, first + row * c + i % c);
          if (++counts[tap] % 32 == 0) sums[tap] += std::exchange(groups[tap], 0.0f);
        }
      }
    }
    for (size_t i = 0; i < sums.size(); ++i) dw.push_back(static_cast<float>(sums[i] + groups[i]));
  }
};

void expect_right(const Inputs& gradient, std::string_view what) {
  const Loop loop(gradient);
  const auto hold = [&](const Floats& got, const Inputs& inputs, int output) {
    const std::vector<Expected> expected = inputs.expected(output);
    Comparison comparison;
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_FALSE(expected[i].is_open);
      comparison.add(expected[i], got[i], static_cast<int64_t>(i), DType::kF32);
    }
    EXPECT_EQ(comparison.wrong, 0) << what << ", output " << output << " of " << inputs.op << ", error/bound "
                                   << comparison.max_error_over_bound;
  };
  hold(loop.y, {"cheri_conv_norm", gradient.dims, {gradient.tensors[grad::kX], gradient.tensors[grad::kW]}},
       0);
  hold(loop.dx, gradient, 0);
  hold(loop.dw, gradient, 1);
}

// All values c of the convolution lie on the grid of their binade. So c - mean rounds off the same
// rest of the mean wherever the difference has a finer grid. The errors agree, and with dy = 1 they
// add up in the mean of dy * y.
TEST(RoundingOfCheri, OfDifferencesFromOneMeanIsNotIndependent) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const CounterRandom random(seed, 0);
    const Dims dims = {{"n", 1}, {"l", 4000}, {"c", 8}, {"dilation", 31}};
    const auto positive = [&](int64_t i) { return 0.5 + random.uniform(static_cast<uint64_t>(i)); };
    expect_right(gradient_inputs(
                     dims, [](int64_t) { return 1.1; }, positive, taps(8, 1.0f / 3, 1.0f / 3, 1.0f / 3)),
                 fmt::format("seed {}", seed));
  }
}

TEST(RoundingOfCheri, CountsWhatUnderflows) {
  const CounterRandom random(3, 0);
  const auto of_size = [&](double size) {
    return [&random, size](int64_t i) { return size * random.normal(static_cast<uint64_t>(i)); };
  };
  const Dims dims = {{"n", 2}, {"l", 31}, {"c", 2}, {"dilation", 3}};
  expect_right(gradient_inputs(dims, of_size(1e-20), of_size(1e18), taps(2, 2e8f, -1e8f, 1e8f)),
               "dconv is below all numbers");
  expect_right(gradient_inputs(dims, of_size(1), of_size(1e-39), taps(2, 0, 1, 0)), "conv is subnormal");
}

// dconv = rstd * dy is beyond f32, and dx = dconv * w is not. A path may overflow on the way.
TEST(RoundingOfCheri, IsOpenWhereDconvMayOverflow) {
  const Dims dims = {{"n", 1}, {"l", 4}, {"c", 1}, {"dilation", 1}};
  const Inputs inputs = gradient_inputs(
      dims, [](int64_t i) { return i % 2 == 0 ? 1e38 : -1e38; },
      [](int64_t i) { return static_cast<double>(i) * 1e-20; }, taps(1, 0, 1e-10f, 0));
  for (const Expected& e : inputs.expected(0)) EXPECT_TRUE(e.is_open);
  EXPECT_TRUE(inputs.expected(1)[1].is_open);
}

// Half of the smallest number rounds to 0. A large weight would have made it visible.
TEST(RoundingOfCheri, OfGeluMayUnderflow) {
  const Inputs inputs{.op = "cheri_block",
                      .dims = {{"n", 1}, {"l", 3}, {"c", 1}, {"dilation", 3}, {"hidden", 1}},
                      .tensors = {{0, -1, -1}, {0, 1, 0}, {0x1p-149f}, {0x1p126f}}};
  // z = 1.4 * 2^-149, stored 2^-149; g = 2^-150, stored 0.
  const Expected first = inputs.expected(0)[0];
  EXPECT_GT(first.value, 0x1p-27);
  EXPECT_TRUE(is_right(first, 0, DType::kF32)) << first.bound;
}

}  // namespace
}  // namespace assay::cheri
