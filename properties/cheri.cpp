// SPDX-License-Identifier: Apache-2.0
// Laws of the Cheri ops: relations between outputs that hold for every path. They need no oracle,
// so no error of the oracle can hide in them. Most hold to the bit, because the order of sums over
// an example depends on the shape alone. The others derive what they allow.
#include "kernels/cheri/cheri.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/core/threshold.h"
#include "properties/core/common_laws.h"

namespace assay::cheri {
namespace {

// With a dilation that reaches beyond the example on both sides, only the middle tap counts.
Violation dilation_beyond_length(const Trial& trial) {
  const Values inputs = draw(trial);
  const auto with_dilation = [&](int64_t dilation) {
    Values changed = inputs;
    changed.dims.set(kDilation.key, dilation);
    return compute(trial, changed);
  };
  const int64_t length = trial.size(kL);
  return differs(trial, with_dilation(length + trial.choice(1000)), with_dilation(length));
}

// Two infinities or NaNs may cancel. They make NaNs of their own example and of sums over examples
// that include it, and of nothing else.
Check nonfinite_stays_in_its_example(Input input) {
  return [input](const Trial& trial) -> Violation {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    constexpr double kNonfinite[] = {kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN()};
    const size_t of = trial.place_of(input);
    const int64_t n = trial.choice(trial.size(kN));
    const auto any_place = [&](uint64_t lane) {
      return Extents{n, trial.choice(trial.size(kL), lane), trial.choice(trial.size(kC), lane + 1)};
    };
    const Extents places[] = {any_place(1), any_place(3)};
    const double values[] = {kNonfinite[trial.choice(3, 5)], kNonfinite[trial.choice(3, 6)]};
    const Values inputs = draw(trial);
    const Values spoiled = changed(
        inputs,
        [&](size_t tensor, const Extents& i) { return tensor == of && (i == places[0] || i == places[1]); },
        [&](size_t, const Extents& i) { return values[i == places[0] ? 0 : 1]; });
    const Values got = compute(trial, spoiled);
    const Values want = compute(trial, inputs);
    const bool has_side_taps = trial.which.dims[kDilation] < trial.size(kL);
    for (size_t tensor = 0; tensor < got.elements.size(); ++tensor) {
      const bool is_of_example = got.shapes[tensor].rank() == 3;  // else dw
      for (size_t i = 0; i < got.elements[tensor].size(); ++i) {
        const Extents index = index_of(static_cast<int64_t>(i), got.shapes[tensor]);
        const double is = got.elements[tensor][i];
        const bool is_spoiled = is_of_example ? index[0] == n : index[0] == 1 || has_side_taps;
        if (is_spoiled ? std::isnan(is) : is == want.elements[tensor][i]) continue;
        return fmt::format("{}{} is {}, with {} at {} and {} at {} of {}: {}", trial.op.outputs[tensor].name,
                           index.to_string(), is, values[0], places[0].to_string(), values[1],
                           places[1].to_string(), input.name, trial.which.to_string());
      }
    }
    return std::nullopt;
  };
}

// If dy changes its sign, dx and dw change theirs.
Violation sign_of_dy(const Trial& trial) {
  const Values inputs = draw(trial);
  const Values negated = changed(
      inputs, [&](size_t tensor, const Extents&) { return tensor == grad::kDy; },
      [&](size_t tensor, const Extents& index) { return -inputs.at(tensor, index); });
  Values got = compute(trial, negated);
  for (auto& tensor : got.elements) {
    for (double& value : tensor) value = -value;
  }
  return differs(trial, positive_zeros(got), positive_zeros(compute(trial, inputs)));
}

constexpr double kUnit = 0x1p-24;

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// Far from 0, y is what it is about 0. All taps are 1 and count alone, and x are eighths, so that
// conv is x and x + 2^20 is exact. By the contract each y is off by 7u of itself: 2u for the
// deviation, 4u for the root, u for their product. The mean is a sum of n numbers in f64, off by
// 4 (n - 1) 2^-53 of the mean magnitude, which is at most 2^20 + 2R, R the range of x.
Violation offset_of_x(const Trial& trial) {
  if (trial.which.dtype != DType::kF32) return std::nullopt;
  constexpr double kOffset = 0x1p20;
  Dims dims = trial.which.dims;
  dims.set(kN.key, 1);
  dims.set(kL.key, 2 + trial.choice(20));
  dims.set(kC.key, 1 + trial.choice(4, 1));
  dims.set(kDilation.key, dims[kL]);
  Values eighths = draw_ordinary(trial, dims);
  std::ranges::fill(eighths.elements[kW], 1.0);
  for (double& value : eighths.elements[kX]) value = std::round(8 * value) / 8;
  Values moved = eighths;
  for (double& value : moved.elements[kX]) value += kOffset;
  const std::vector<double>& x = eighths.elements[kX];
  const auto n = static_cast<double>(x.size());
  const double mean = mean_of(x), range = std::ranges::max(x) - std::ranges::min(x);
  double variance = 0;
  for (double value : x) variance += (value - mean) * (value - mean) / n;
  const double of_mean = 4 * (n - 1) * 0x1p-53 * (kOffset + 2 * range) / std::sqrt(variance + kEpsilon);
  const Values want = compute(trial, eighths), got = compute(trial, moved);
  for (size_t i = 0; i < x.size(); ++i) {
    const double near = want.elements[kY][i], far = got.elements[kY][i];
    if (std::abs(far - near) <= 16 * kUnit * std::abs(near) + 2 * of_mean) continue;
    return fmt::format("y{} of x is {}, of x + {} {}: {}",
                       index_of(static_cast<int64_t>(i), want.shapes[kY]).to_string(), near, kOffset, far,
                       trial.which.to_string());
  }
  return std::nullopt;
}

// dw of equal examples, or of equal rows of an example of which only the middle tap counts, is that
// of one times their number, also with low thresholds. All values are eighths, so that statistics
// are sums of numbers that f64 holds: those of equal rows are the bits of those of one. So dw sums
// equal terms p. By the contract p is off by u of itself, and a group adds at most kSumGroup of
// them in f32: it is off by kSumGroup u. Groups are added up in f64, and dw is rounded once. The
// term alone is off by 2u.
Check copies(Dim of, int64_t count) {
  return [of, count](const Trial& trial) -> Violation {
    if (trial.which.dtype != DType::kF32) return std::nullopt;
    constexpr double kOff = (kSumGroup + 8) * kUnit;
    Dims dims = trial.which.dims;
    dims.set(kN.key, 1);
    dims.set(kL.key, 1);
    dims.set(kC.key, 3 + trial.choice(7));  // of two, dconv would be what rounding leaves
    dims.set(kDilation.key, count);
    Values one = draw_ordinary(trial, dims);
    for (auto& tensor : one.elements) {
      for (double& value : tensor) value = std::round(8 * value) / 8;
    }
    dims.set(of.key, count);
    const Values all = build(trial.op.inputs, dims, [&](size_t tensor, Extents index) {
      if (tensor != grad::kW) index[0] = index[1] = 0;
      return one.at(tensor, index);
    });
    const LowThresholds low;
    const Values of_one = compute(trial, one), of_all = compute(trial, all);
    const auto times = static_cast<double>(count);
    for (size_t i = 0; i < of_one.elements[grad::kDw].size(); ++i) {
      const double is = of_all.elements[grad::kDw][i], term = of_one.elements[grad::kDw][i];
      if (std::abs(is - times * term) <= times * (kOff * std::abs(term) + 0x1p-148)) continue;
      return fmt::format("dw{} of {} = 1 is {}, of {} copies {}: {}",
                         index_of(static_cast<int64_t>(i), of_one.shapes[grad::kDw]).to_string(), of.key,
                         term, count, is, trial.which.to_string());
    }
    return std::nullopt;
  };
}

// dy that is 0 but for some rows, times 2^100, gives dx and dw times it. With low thresholds the
// example is computed in several parts: what a path learns of dy in one has to hold for the others.
Violation scaling_of_some_rows_of_dy(const Trial& trial) {
  if (trial.which.dtype == DType::kF16) return std::nullopt;
  constexpr int kDoublings = 100;
  constexpr int64_t kElements = 600;
  Dims dims = trial.which.dims;
  dims.set(kN.key, 1);
  dims.set(kC.key, 1 + trial.choice(40));
  dims.set(kL.key, kElements / dims[kC] + 1);
  const int64_t first = trial.choice(dims[kL], 1), count = 1 + trial.choice(dims[kL] / 2, 2);
  const Values inputs = changed(
      draw_ordinary(trial, dims),
      [&](size_t tensor, const Extents& i) {
        return tensor == grad::kDy && (i[1] < first || i[1] >= first + count);
      },
      [](size_t, const Extents&) { return 0.0; });
  const auto scale = [](std::vector<double>& values) {
    for (double& value : values) value = std::ldexp(value, kDoublings);
  };
  Values scaled = inputs;
  scale(scaled.elements[grad::kDy]);
  const LowThresholds low;
  const Values of_inputs = compute(trial, inputs);
  Values want = of_inputs;
  for (auto& output : want.elements) scale(output);
  const double normal = std::ldexp(1.0, format_of(trial.which.dtype).min_exponent);
  return differs(trial, compute(trial, scaled), want,
                 [&](size_t output, const Extents& index) -> std::optional<Extents> {
                   if (std::abs(of_inputs.at(output, index)) < normal) return std::nullopt;
                   return index;
                 });
}

// dy as far as 1.75 * 2^127 gives dx times the same power of two, though dy - mean(dy) is beyond
// f32: one element is positive, the others are negative. x is large, so that dx is not. dw may be.
Violation scaling_to_the_limit(const Trial& trial) {
  if (trial.which.dtype == DType::kF16) return std::nullopt;
  constexpr int kDoublingsOfX = 20, kExponent = 127;
  Values inputs = draw_ordinary(trial, trial.which.dims);
  std::vector<double>& dy = inputs.elements[grad::kDy];
  if (dy.empty()) return std::nullopt;
  for (double& value : inputs.elements[grad::kX]) value = std::ldexp(value, kDoublingsOfX);
  for (double& value : dy) value = -std::abs(value);
  const int exponent = std::ilogb(std::min(std::ranges::min(dy), -1.0));
  dy[static_cast<size_t>(trial.choice(static_cast<int64_t>(dy.size())))] = std::ldexp(1.75, exponent);
  Values scaled = inputs;
  for (double& value : scaled.elements[grad::kDy]) value = std::ldexp(value, kExponent - exponent);
  const Values of_inputs = compute(trial, inputs);
  Values want = of_inputs;
  for (double& value : want.elements[grad::kDx]) value = std::ldexp(value, kExponent - exponent);
  const double normal = std::ldexp(1.0, format_of(trial.which.dtype).min_exponent);
  return differs(trial, compute(trial, scaled), want,
                 [&](size_t output, const Extents& index) -> std::optional<Extents> {
                   if (output != grad::kDx || std::abs(of_inputs.at(output, index)) < normal)
                     return std::nullopt;
                   if (std::abs(want.at(output, index)) > max_finite(trial.which.dtype) / 2)
                     return std::nullopt;
                   return index;
                 });
}

// The inputs of a gradient, a direction (u, v) in which x and w move, and one example, in double.
//
// Let c' be how its convolution moves, c' = w * u + v * x. With r = rstd, y moves by
//   J(u,v) = r (c' - mean(c') - y mean(y c'))
// A path computes dconv = r (dy - b - y m), b = mean(dy), m = mean(dy y). Let G = |dy - b| +
// (1 + |y|) mean(|dy| (1 + |y|)), so that |dconv| <= r G, and u = 2^-24. By the contract
//   conv    is off by D = 3u max(sum |w x|). Let q = D r / (1 - D r), D r <= 1/8
//   r       by q + 4u of itself, since r^-1 is a norm of (conv - mean, sqrt(eps))
//   y       by E (1 + |y|), E = 4 (q + 3u)
//   m       by (E + u) mean(|dy| (1 + |y|)), and what r multiplies in dconv by 4 (E + 2u) G
//   dconv   by 8 (E + 2u) r G = (32q + 112u) r G
// Sums of dx and dw are off by at most 40u of their terms' magnitudes. So dx.u + dw.v is off by at
// most sum (33q + 160u) r G (|w| * |u| + |v| * |x|), and by the rounding of dx and dw.
struct Derivative {
  Derivative(const Values& inputs, const Values& direction, int64_t n);

  bool is_known = false;  // D r <= 1/8
  double product = 0;     // dy.J(u,v)
  double error = 0;       // of dx.u + dw.v before the outputs are rounded
};

Derivative::Derivative(const Values& inputs, const Values& direction, int64_t n) {
  const Extents& shape = inputs.shapes[grad::kX];
  const int64_t length = shape[1], channels = shape[2], dilation = inputs.dims[kDilation];
  std::vector<double> conv, dy, moved, reached;  // reached: |w| * |u| + |v| * |x|
  double largest = 0;                            // sum |w x|
  for (int64_t l = 0; l < length; ++l) {
    for (int64_t c = 0; c < channels; ++c) {
      double sum = 0, magnitude = 0, to = 0, reach = 0;
      for (int64_t k = 0; k < 3; ++k) {
        if (k != 1 && dilation >= length) continue;
        const int64_t from = l + (k - 1) * dilation;
        if (from < 0 || from >= length) continue;
        const double x = inputs.at(grad::kX, {n, from, c}), u = direction.at(grad::kX, {n, from, c});
        const double w = inputs.at(grad::kW, {k, c}), v = direction.at(grad::kW, {k, c});
        sum += w * x;
        magnitude += std::abs(w * x);
        to += w * u + v * x;
        reach += std::abs(w * u) + std::abs(v * x);
      }
      conv.push_back(sum);
      moved.push_back(to);
      reached.push_back(reach);
      dy.push_back(inputs.at(grad::kDy, {n, l, c}));
      largest = std::max(largest, magnitude);
    }
  }
  const auto of_all = [&](const auto& element) {
    std::vector<double> values;
    for (size_t i = 0; i < conv.size(); ++i) values.push_back(element(i));
    return values;
  };
  const double mean = mean_of(conv), mean_moved = mean_of(moved), mean_dy = mean_of(dy);
  const double variance = mean_of(of_all([&](size_t i) { return (conv[i] - mean) * (conv[i] - mean); }));
  const double rstd = 1 / std::sqrt(variance + kEpsilon);
  const std::vector<double> y = of_all([&](size_t i) { return (conv[i] - mean) * rstd; });
  const double along_y = mean_of(of_all([&](size_t i) { return y[i] * moved[i]; }));
  const double size = mean_of(of_all([&](size_t i) { return std::abs(dy[i]) * (1 + std::abs(y[i])); }));
  const double off = 3 * kUnit * largest * rstd, q = off / (1 - off);
  is_known = off <= 0.125;
  for (size_t i = 0; i < conv.size(); ++i) {
    product += dy[i] * rstd * (moved[i] - mean_moved - y[i] * along_y);
    const double g = std::abs(dy[i] - mean_dy) + (1 + std::abs(y[i])) * size;
    error += (33 * q + 160 * kUnit) * rstd * g * reached[i];
  }
}

// The gradient is the adjoint of the derivative: dx.u + dw.v = dy.J(u,v) for any direction.
Violation adjointness(const Trial& trial) {
  const Values inputs = draw(trial), direction = draw(trial, 9);
  Derivative whole{inputs, direction, 0};
  for (int64_t n = 1; n < trial.size(kN); ++n) {
    const Derivative of_example(inputs, direction, n);
    whole.is_known &= of_example.is_known;
    whole.product += of_example.product;
    whole.error += of_example.error;
  }
  if (!whole.is_known) return std::nullopt;
  const Values outputs = compute(trial, inputs);
  const FloatFormat format = format_of(trial.which.dtype);
  double got = 0;
  for (const auto& [output, input] : {std::pair(grad::kDx, grad::kX), std::pair(grad::kDw, grad::kW)}) {
    for (size_t i = 0; i < outputs.elements[output].size(); ++i) {
      const double value = outputs.elements[output][i], along = direction.elements[input][i];
      // Out of the range of f16.
      if (std::isinf(value) && trial.which.dtype == DType::kF16) return std::nullopt;
      got += value * along;
      // Half a unit in the last place, of subnormal numbers too.
      whole.error += std::abs(along) * (std::ldexp(std::abs(value), -format.precision) +
                                        std::ldexp(1.0, format.min_exponent - format.precision));
    }
  }
  if (std::abs(got - whole.product) <= whole.error) return std::nullopt;
  return fmt::format("dx.u + dw.v = {}, dy.J(u,v) = {} +- {}: {}", got, whole.product, whole.error,
                     trial.which.to_string());
}

// A perceptron of zeros adds nothing, not even a sign to a zero.
Check zero_weights_copy_x(Input weights) {
  return [weights](const Trial& trial) -> Violation {
    const Values inputs = changed(
        draw(trial),
        [&](size_t tensor, const Extents& i) {
          return tensor == weights || (tensor == kX && (i[1] + i[2]) % 3 == 0);
        },
        [&](size_t tensor, const Extents& i) { return tensor == weights || i[1] % 2 == 0 ? 0.0 : -0.0; });
    const Values want = build(trial.op.outputs, trial.which.dims,
                              [&](size_t, const Extents& index) { return inputs.at(kX, index); });
    return differs(trial, compute(trial, inputs), want);
  };
}

}  // namespace

std::vector<Law> laws() {
  std::vector<Law> all;
  const auto add = [&](std::string_view op, std::string_view name, std::string_view statement, Check check,
                       On on = On::kOrdinaryData) {
    const Dims largest = {{kN, 5}, {kL, 70}, {kC, 40}, {kDilation, 80}, {kHidden, 64}};
    all.push_back(make_law(op, largest, name, statement, std::move(check), on));
  };
  for (std::string_view op : {"cheri_conv_norm", "cheri_conv_norm_grad", "cheri_block"}) {
    add(op, "example_independence", "an example alone gives the same bits, but for what sums examples",
        independence(kN), On::kAnyData);
    add(op, "example_permutation", "permuted examples give the permuted bits, but for what sums examples",
        permutation(kN), On::kAnyData);
    add(op, "dilation_beyond_length", "all dilations that are at least L give the same bits",
        dilation_beyond_length, On::kAnyData);
    add(op, "nonfinite_x_stays_in_its_example",
        "an infinity or a NaN in x makes its example NaN, and what sums it, and nothing else",
        nonfinite_stays_in_its_example(op == "cheri_conv_norm_grad" ? grad::kX : kX));
    add(op, "layout_independence", "the same elements give the same bits wherever they lie",
        layout_independence(), On::kAnyData);
  }
  add("cheri_conv_norm_grad", "nonfinite_dy_stays_in_its_example",
      "an infinity or a NaN in dy makes its example NaN, and what sums it, and nothing else",
      nonfinite_stays_in_its_example(grad::kDy));
  add("cheri_conv_norm_grad", "adjointness", "dx.u + dw.v = dy.J(u,v), J the derivative of the norm",
      adjointness);
  add("cheri_conv_norm_grad", "scaling_of_dy", "dy times a power of two gives dx and dw times it",
      scaling({{grad::kDy, 1}}));
  add("cheri_conv_norm_grad", "scaling_of_some_rows_of_dy",
      "dy that is 0 but for some rows, times 2^100, gives dx and dw times it", scaling_of_some_rows_of_dy,
      On::kAnyData);
  add("cheri_conv_norm_grad", "scaling_to_the_limit",
      "dy times a power of two gives dx times it, up to the end of its range", scaling_to_the_limit);
  add("cheri_conv_norm_grad", "copies_of_an_example",
      "dw of equal examples is that of one times their number", copies(kN, 2048));
  add("cheri_conv_norm_grad", "copies_of_a_row",
      "dw of equal rows is that of one times their number, where only the middle tap counts",
      copies(kL, 8192));
  add("cheri_conv_norm", "offset_of_x", "y of x far from 0 is that of x about 0", offset_of_x, On::kAnyData);
  add("cheri_conv_norm_grad", "sign_of_dy", "-dy gives -dx and -dw", sign_of_dy, On::kAnyData);
  add("cheri_block", "zero_w1_copies_x", "with w1 = 0, out has the bits of x", zero_weights_copy_x(kW1));
  add("cheri_block", "zero_w2_copies_x", "with w2 = 0, out has the bits of x", zero_weights_copy_x(kW2));
  return all;
}

}  // namespace assay::cheri
