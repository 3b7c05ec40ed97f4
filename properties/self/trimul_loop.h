// SPDX-License-Identifier: Apache-2.0
// A plain loop of trimul that rounds where a recipe says, and its comparison with the oracle.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "kernels/trimul/trimul.h"
#include "oracles/core/compare.h"
#include "properties/core/problem.h"
#include "properties/core/registry.h"
#include "properties/self/support.h"

namespace assay::trimul::test {

inline Recipe recipe_of(Factor factor, DType intermediate) {
  return {DType::kF32, DType::kF32, DType::kF32, factor, intermediate};
}

// Rounds to `bits` significant bits, to nearest or toward zero.
inline double rounded(int bits, double value) {
  if (!std::isfinite(value)) return value;
  const uint64_t all = std::bit_cast<uint64_t>(value), unit = uint64_t{1} << (53 - bits);
  return std::bit_cast<double>((all + unit / 2 - 1 + (all & unit ? 1 : 0)) & ~(unit - 1));
}
inline double truncated(int bits, double value) {
  return std::bit_cast<double>(std::bit_cast<uint64_t>(value) & ~((uint64_t{1} << (53 - bits)) - 1));
}
// Rounds to nearest in a format with the range of f32, whose subnormal numbers have fewer bits.
inline double rounded_in_range(int bits, double value) {
  if (!std::isfinite(value) || value == 0) return value;
  const int available = std::min(bits, bits + std::ilogb(value) + 126);
  const int last = std::ilogb(value) + 1 - available;
  return available >= bits ? rounded(bits, value)
                           : std::ldexp(std::nearbyint(std::ldexp(value, -last)), last);
}

// How a loop adds up products: without an error, in f32, or in 24 bits toward zero. Split factors
// have three products each.
enum class Sums : uint8_t { kExact, kRounded, kTruncated };

// Rounds factors to 11 or 8 bits, and tensors between the steps if the recipe does not keep them in
// f32. `sums` says how sums are rounded; with kRounded the first norm is in f32.
class Loop {
 public:
  Loop(const Dims& dims, std::vector<ConstTensorView> inputs, const Recipe& recipe, Sums sums = Sums::kExact)
      : b_(dims[kB]),
        n_(dims[kN]),
        c_(dims[kC]),
        h_(dims[kH]),
        sums_(sums),
        is_split_(recipe.factor == Factor::kTF32x3) {
    bits_ = recipe.factor == Factor::kBF16 ? 8 : is_split_ || recipe.factor == Factor::kStored ? 24 : 11;
    bits_between_ = recipe.intermediate == DType::kF32 ? 24 : bits_;
    has_subnormals_ = recipe.factor != Factor::kF16;
    for (const ConstTensorView& view : inputs) inputs_.push_back(dense(view));
    for (Input weight : {kLeftProj, kRightProj, kLeftGate, kRightGate, kOutGate, kToOut}) {
      for (double& value : inputs_[weight]) value = round_to(bits_, value);
    }
    if (dims[kM] == 0) inputs_[kMask].assign(static_cast<size_t>(b_ * n_ * n_), 1);
  }

  // At most the first `count` elements.
  std::vector<double> out(int64_t count = INT64_MAX) const {
    std::vector<double> left, right, gate, result;
    for (int64_t edge = 0; edge < b_ * n_ * n_; ++edge) {
      std::vector<double> x;
      for (int64_t c = 0; c < c_; ++c) x.push_back(at(kX, edge * c_ + c));
      const std::vector<double> xn =
          sums_ == Sums::kRounded ? normalised_in_f32(x) : normalised(x, kNormWeight, kNormBias);
      for (int64_t h = 0; h < h_; ++h) {
        const auto gated = [&](Input proj, Input gates) {
          return round_to(bits_, at(kMask, edge) * dot(proj, h, xn) * sigmoid(dot(gates, h, xn)));
        };
        left.push_back(gated(kLeftProj, kLeftGate));
        right.push_back(gated(kRightProj, kRightGate));
        gate.push_back(round_to(bits_between_, sigmoid(dot(kOutGate, h, xn))));
      }
    }
    for (int64_t edge = 0; edge < b_ * n_ * n_ && edge * c_ < count; ++edge) {
      const int64_t i = edge / n_, j = edge / n_ / n_ * n_ + edge % n_;
      std::vector<double> hidden;
      for (int64_t h = 0; h < h_; ++h) {
        double sum = 0;
        for (int64_t k = 0; k < n_; ++k) {
          sum = add(sum, left[static_cast<size_t>((i * n_ + k) * h_ + h)],
                    right[static_cast<size_t>((j * n_ + k) * h_ + h)]);
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
  double round_to(int bits, double value) const {
    if (is_split_ && bits == bits_) {
      const double high = rounded_in_range(11, value);
      return std::isfinite(value) ? high + rounded_in_range(11, value - high) : value;
    }
    return has_subnormals_ ? rounded_in_range(bits, value) : rounded(bits, value);
  }
  double add(double sum, double a, double b) const {
    if (sums_ == Sums::kExact) return sum + a * b;
    if (sums_ == Sums::kRounded) return static_cast<float>(sum + a * b);
    if (!is_split_) return truncated(24, sum + a * b);
    const double high_a = rounded(11, a), high_b = rounded(11, b);
    sum = truncated(24, sum + rounded(11, a - high_a) * high_b);
    sum = truncated(24, sum + high_a * rounded(11, b - high_b));
    return truncated(24, sum + high_a * high_b);
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

  // A sum in f32 of parts of 32 terms, and of their sums.
  static float sum_in_f32(const std::vector<float>& terms) {
    float sum = 0;
    for (size_t begin = 0; begin < terms.size(); begin += 32) {
      const auto first = terms.begin() + static_cast<std::ptrdiff_t>(begin);
      const auto count = std::min<std::ptrdiff_t>(32, terms.end() - first);
      sum += std::accumulate(first, first + count, 0.0f);
    }
    return sum;
  }

  // A norm as in the contract, with deviations from the first value and multiplications by 1/C.
  std::vector<double> normalised_in_f32(const std::vector<double>& values) const {
    const float share = 1 / static_cast<float>(c_);
    std::vector<float> deviations, squares;
    for (double value : values)
      deviations.push_back(static_cast<float>(value) - static_cast<float>(values[0]));
    const float mean = sum_in_f32(deviations) * share;
    for (float& deviation : deviations) {
      deviation -= mean;
      squares.push_back(deviation * deviation);
    }
    const float root = 1 / std::sqrt(sum_in_f32(squares) * share + static_cast<float>(kEpsilon));
    std::vector<double> result;
    for (size_t i = 0; i < values.size(); ++i) {
      const auto element = static_cast<int64_t>(i);
      const float scaled = deviations[i] * root * static_cast<float>(at(kNormWeight, element));
      result.push_back(scaled + static_cast<float>(at(kNormBias, element)));
    }
    return result;
  }

  double dot(Input weight, int64_t row, const std::vector<double>& values) const {
    double sum = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const auto element = row * static_cast<int64_t>(values.size()) + static_cast<int64_t>(i);
      sum = add(sum, at(weight, element), round_to(bits_, values[i]));
    }
    return sum;
  }

  int64_t b_, n_, c_, h_;
  Sums sums_;
  bool is_split_, has_subnormals_;
  int bits_, bits_between_;
  std::vector<std::vector<double>> inputs_;
};

inline Case problem_of(int64_t n, uint64_t seed) {
  return {.op = "trimul",
          .path = "cpu",
          .dtype = DType::kF32,
          .dims = {{"b", 1}, {"n", n}, {"c", 32}, {"h", 32}, {"mask", 1}},
          .seed = seed};
}

// Changes element number e of an input.
using Change = std::function<void(size_t, int64_t e, float&)>;

inline Problem changed(const Case& which, const Change& change) {
  const Op& op = registry().op("trimul");
  Problem problem(op, op.path("cpu"), which, assay::test::cpu());
  problem.draw_inputs(which.seed);
  TensorBytes inputs = problem.inputs();
  for (size_t input = 0; change && input < inputs.size(); ++input) {
    auto* const values = reinterpret_cast<float*>(inputs[input].data());
    const auto count = static_cast<int64_t>(inputs[input].size() / sizeof(float));
    for (int64_t e = 0; e < count; ++e) change(input, e, values[e]);
  }
  problem.set_inputs(inputs);
  return problem;
}

// At most the first `count` elements of out.
inline std::vector<Expected> expected_of(const Problem& problem, const Recipe& recipe,
                                         int64_t count = INT64_MAX) {
  Question question = problem.question();
  question.recipe = recipe;
  const Dims& dims = problem.which().dims;
  std::vector<int64_t> elements(
      static_cast<size_t>(std::min(count, dims[kB] * dims[kN] * dims[kN] * dims[kC])));
  std::iota(elements.begin(), elements.end(), 0);
  std::vector<Expected> expected(elements.size());
  registry().oracle("trimul").solve(question, 0)(elements, expected);
  return expected;
}

// Compares a loop that rounds as `done` says with what the oracle expects of `recipe`.
inline Comparison compare_loop(const Recipe& recipe, const Recipe& done, const Case& which,
                               const Change& change = {}, int64_t count = INT64_MAX,
                               Sums sums = Sums::kExact) {
  const Problem problem = changed(which, change);
  const std::vector<Expected> expected = expected_of(problem, recipe, count);
  const std::vector<double> got = Loop(which.dims, problem.question().inputs, done, sums).out(count);
  Comparison comparison;
  for (size_t i = 0; i < expected.size(); ++i)
    comparison.add(expected[i], got[i], static_cast<int64_t>(i), DType::kF64);
  return comparison;
}

inline Case sized(int64_t n, int64_t c, int64_t h, int64_t mask = 1) {
  Case which = problem_of(n, 1);
  which.dims = {{"b", 1}, {"n", n}, {"c", c}, {"h", h}, {"mask", mask}};
  return which;
}

inline double sign_of(int64_t i) {
  return i % 2 == 0 ? 1 : -1;
}

// The CPU path, and a loop of sums in f32.
inline void expect_bounded(const Case& which, const Change& change) {
  const Recipe recipe = recipe_of(Factor::kStored, DType::kF32);
  const int64_t count = 2 * which.dims[kC];
  const Comparison of_loop = compare_loop(recipe, recipe, which, change, count, Sums::kRounded);
  EXPECT_EQ(of_loop.wrong, 0) << "loop: " << of_loop.max_error_over_bound;
  Problem problem = changed(which, change);
  problem.run();
  const TensorBytes outputs = problem.outputs();
  const auto* got = reinterpret_cast<const float*>(outputs[kOut].data());
  const std::vector<Expected> expected = expected_of(problem, recipe, count);
  Comparison of_path;
  for (size_t i = 0; i < expected.size(); ++i)
    of_path.add(expected[i], got[i], static_cast<int64_t>(i), DType::kF32);
  EXPECT_EQ(of_path.wrong, 0) << "path: " << of_path.max_error_over_bound;
}

// A problem with N nodes and one batch in which only a few tensors are not 0. Tensors that multiply
// are 1.
struct Sparse {
  int64_t n, c, h;
  Change change;  // applied to 0, or to 1 in the mask and in weights of norms
  Case sized() const { return test::sized(n, c, h); }
  Change all() const {
    return [change = change](size_t input, int64_t e, float& value) {
      value = input == kMask || input == kNormWeight || input == kToOutNormWeight ? 1 : 0;
      change(input, e, value);
    };
  }
};

}  // namespace assay::trimul::test
