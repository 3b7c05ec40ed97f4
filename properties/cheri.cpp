// SPDX-License-Identifier: Apache-2.0
// Laws of the Cheri ops: relations between outputs that hold to the bit for every path, because the
// order of sums over an example depends on the shape alone. They need no oracle, so no error of the
// oracle can hide in them.
#include "kernels/cheri/cheri.h"

#include <cmath>
#include <limits>

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
  for (std::string_view op : {"cheri_conv_norm", "cheri_block"}) {
    add(op, "example_independence", "an example alone gives the same bits", independence(kN), On::kAnyData);
    add(op, "example_permutation", "permuted examples give the permuted bits", permutation(kN), On::kAnyData);
  }
  for (std::string_view op : {"cheri_conv_norm", "cheri_conv_norm_grad", "cheri_block"}) {
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
  add("cheri_conv_norm_grad", "scaling_of_dy", "dy times a power of two gives dx and dw times it",
      scaling({{grad::kDy, 1}}));
  add("cheri_conv_norm_grad", "sign_of_dy", "-dy gives -dx and -dw", sign_of_dy, On::kAnyData);
  add("cheri_block", "zero_w1_copies_x", "with w1 = 0, out has the bits of x", zero_weights_copy_x(kW1));
  add("cheri_block", "zero_w2_copies_x", "with w2 = 0, out has the bits of x", zero_weights_copy_x(kW2));
  return all;
}

}  // namespace assay::cheri
