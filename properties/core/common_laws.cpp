// SPDX-License-Identifier: Apache-2.0
#include "properties/core/common_laws.h"

#include <algorithm>
#include <cmath>

namespace assay {
namespace {

// The index, with number(i) in place of i along each axis that is this dimension.
template <class Number>
Extents along(Dim dim, const TensorInfo& tensor, Extents index, const Number& number) {
  const std::vector<std::string_view> axes = axes_of(tensor);
  for (int axis = 0; axis < index.rank(); ++axis) {
    if (axes[static_cast<size_t>(axis)] == dim.key) index[axis] = number(index[axis]);
  }
  return index;
}

bool has_axis(const TensorInfo& tensor, Dim dim) {
  return std::ranges::count(axes_of(tensor), dim.key) != 0;
}

// The same for an output. One without the dimension sums over it and is not compared.
template <class Number>
std::optional<Extents> along_output(Dim dim, const TensorInfo& output, const Extents& index,
                                    const Number& number) {
  if (!has_axis(output, dim)) return std::nullopt;
  return along(dim, output, index, number);
}

void require_output_with(Dim dim, const Op& op) {
  if (std::ranges::none_of(op.outputs, [&](const TensorInfo& output) { return has_axis(output, dim); }))
    throw Error("no output of {} has the dimension {}", op.name, dim.key);
}

}  // namespace

Check independence(Dim dim) {
  return [dim](const Trial& trial) {
    require_output_with(dim, trial.op);
    const Values inputs = draw(trial);
    const int64_t chosen = trial.choice(trial.size(dim));
    const auto to_chosen = [&](int64_t) { return chosen; };
    Dims alone = trial.which.dims;
    alone.set(dim.key, 1);
    const Values part = build(trial.op.inputs, alone, [&](size_t tensor, const Extents& index) {
      return inputs.at(tensor, along(dim, trial.op.inputs[tensor], index, to_chosen));
    });
    return differs(trial, compute(trial, part), compute(trial, inputs),
                   [&](size_t output, const Extents& index) {
                     return along_output(dim, trial.op.outputs[output], index, to_chosen);
                   });
  };
}

Check permutation(Dim dim) {
  return [dim](const Trial& trial) {
    require_output_with(dim, trial.op);
    const std::vector<int64_t> order = trial.permutation(trial.size(dim));
    const auto to_place = [&](int64_t i) { return order[static_cast<size_t>(i)]; };
    const Values inputs = draw(trial);
    const Values moved = rearranged(inputs, [&](size_t tensor, const Extents& index) {
      return along(dim, trial.op.inputs[tensor], index, to_place);
    });
    return differs(trial, compute(trial, moved), compute(trial, inputs),
                   [&](size_t output, const Extents& index) {
                     return along_output(dim, trial.op.outputs[output], index, to_place);
                   });
  };
}

Check scaling(std::vector<Scaled> inputs, int power_of_outputs) {
  return [inputs = std::move(inputs), power_of_outputs](const Trial& trial) {
    const int doublings = 1 + static_cast<int>(trial.choice(4));
    const auto scale = [&](std::vector<double>& values, int power) {
      for (double& value : values) value = std::ldexp(value, doublings * power);
    };
    const Values unscaled = draw(trial);
    Values scaled = unscaled;
    for (const Scaled& input : inputs) scale(scaled.elements[trial.place_of(input.input)], input.power);
    const Values of_unscaled = compute(trial, unscaled);
    Values want = of_unscaled;
    for (auto& output : want.elements) scale(output, power_of_outputs);
    // With drawn elements of one dtype, a sum of products is 0 or too large to be stored as 0.
    const bool zeros_are_exact =
        trial.inputs == nullptr && std::ranges::none_of(trial.op.inputs, [](const TensorInfo& tensor) {
          return tensor.dtype.has_value();
        });
    return differs(trial, compute(trial, scaled), want,
                   [&](size_t output, const Extents& index) -> std::optional<Extents> {
                     const DType dtype = trial.op.outputs[output].dtype.value_or(trial.which.dtype);
                     const double normal = std::ldexp(1.0, format_of(dtype).min_exponent);
                     const double result = std::abs(of_unscaled.at(output, index));
                     if (result < normal && !(result == 0 && zeros_are_exact)) return std::nullopt;
                     if (std::abs(want.at(output, index)) > max_finite(dtype) / 2) return std::nullopt;
                     return index;
                   });
  };
}

Check additivity(std::vector<Input> inputs) {
  return [inputs = std::move(inputs)](const Trial& trial) {
    const Values a = draw_integers(trial, 0);
    const auto is_summed = [&](size_t tensor, const Extents&) {
      return std::ranges::any_of(inputs, [&](Input input) { return trial.place_of(input) == tensor; });
    };
    const Values b = mixed(a, draw_integers(trial, 1), is_summed);
    const Values sum = changed(a, is_summed, [&](size_t tensor, const Extents& index) {
      return a.at(tensor, index) + b.at(tensor, index);
    });
    const Values of_a = compute(trial, a);
    const Values of_b = compute(trial, b);
    const Values want = build(trial.op.outputs, trial.which.dims, [&](size_t output, const Extents& index) {
      return of_a.at(output, index) + of_b.at(output, index);
    });
    return differs(trial, positive_zeros(compute(trial, sum)), positive_zeros(want));
  };
}

Check layout_independence() {
  return [](const Trial& trial) -> Violation {
    const Values inputs = draw(trial);
    const Values want = compute(trial, inputs);
    for (Layout layout : {Layout::kStrided, Layout::kMisaligned, Layout::kTransposed, Layout::kMixed}) {
      Trial other = trial;
      other.which.layout = layout;
      if (auto violation = differs(other, compute(other, inputs), want)) return violation;
    }

    const auto outermost_repeated = rearranged(inputs, [](size_t, Extents index) {
      index[0] = 0;
      return index;
    });
    Trial broadcast = trial;
    broadcast.which.layout = Layout::kBroadcast;
    if (auto violation =
            differs(broadcast, compute(broadcast, outermost_repeated), compute(trial, outermost_repeated))) {
      return violation;
    }

    const auto chosen = static_cast<size_t>(trial.choice(static_cast<int64_t>(inputs.shapes.size())));
    const int axis = static_cast<int>(trial.choice(inputs.shapes[chosen].rank(), 1));
    const Values one_repeated = rearranged(inputs, [&](size_t tensor, Extents index) {
      if (tensor == chosen) index[axis] = 0;
      return index;
    });
    const auto repeat = [&](Call& call) { call.inputs[chosen].strides[axis] = 0; };
    return differs(trial, compute(trial, one_repeated, repeat), compute(trial, one_repeated));
  };
}

}  // namespace assay
