// SPDX-License-Identifier: Apache-2.0
// Laws of trimul: relations between outputs that hold to the bit for every path, because the order
// of each sum depends on the shape alone and is the same for all edges. Two others see the gate of
// the output alone, and derive what they allow.
#include "kernels/trimul/trimul.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "kernels/core/threshold.h"
#include "oracles/core/arithmetic.h"
#include "properties/core/common_laws.h"

namespace assay::trimul {
namespace {

// A mask of ones gives the bits of no mask.
Violation mask_of_ones(const Trial& trial) {
  const Values inputs = draw(trial);
  const Values ones = changed(
      inputs, [](size_t tensor, const Extents&) { return tensor == kMask; },
      [](size_t, const Extents&) { return 1.0; });
  Dims without_mask = trial.which.dims;
  without_mask.set(kM.key, 0);
  const Values none = build(trial.op.inputs, without_mask,
                            [&](size_t tensor, const Extents& index) { return inputs.at(tensor, index); });
  return differs(trial, compute(trial, none), compute(trial, ones));
}

// An edge whose mask is 0 changes nothing but its own output, through the gate.
Violation masked_edges_of(const Trial& trial, const Values& values, const Values& others) {
  const auto is_masked = [](const Extents& i) { return (i[0] + 3 * i[1] + 4 * i[2]) % 5 == 0; };
  const Values inputs = changed(
      values, [&](size_t tensor, const Extents& i) { return tensor == kMask && is_masked(i); },
      [](size_t, const Extents&) { return 0.0; });
  const Values moved =
      mixed(inputs, others, [&](size_t tensor, const Extents& i) { return tensor == kX && is_masked(i); });
  return differs(trial, compute(trial, moved), compute(trial, inputs),
                 [&](size_t, const Extents& i) -> std::optional<Extents> {
                   if (is_masked(i)) return std::nullopt;
                   return i;
                 });
}

Violation masked_edges(const Trial& trial) {
  if (trial.which.dims[kM] == 0) return std::nullopt;  // there is no mask
  return masked_edges_of(trial, draw(trial), draw(trial, 2));
}

// The same of more nodes than a path takes at once, and of more than three times as many.
Violation masked_edges_of_many_nodes(const Trial& trial) {
  const int64_t nodes = (trial.choice(2, 1) == 0 ? 33 : 97) + trial.choice(16);
  const Dims dims = {{kB, 1}, {kN, nodes}, {kC, 3}, {kH, 3}, {kM, 1}};
  return masked_edges_of(trial, draw_ordinary(trial, dims), draw_ordinary(trial, dims, 2));
}

// If every gate of the output is a half, exchanging left and right exchanges hidden[i,j] and
// hidden[j,i].
Violation exchange(const Trial& trial) {
  const Values inputs = changed(
      draw(trial), [](size_t tensor, const Extents&) { return tensor == kOutGate; },
      [](size_t, const Extents&) { return 0.0; });
  Values exchanged = inputs;
  std::swap(exchanged.elements[kLeftProj], exchanged.elements[kRightProj]);
  std::swap(exchanged.elements[kLeftGate], exchanged.elements[kRightGate]);
  return differs(trial, compute(trial, exchanged), compute(trial, inputs),
                 [](size_t, const Extents& i) -> std::optional<Extents> {
                   return Extents{i[0], i[2], i[1], i[3]};
                 });
}

// A path may scale the factors of each example by its own mask, and take examples in groups. Of
// masks near 2^-5 hidden has a variance near epsilon, so a scale of other masks shows. With low
// thresholds each example of this size is a group.
Violation masks_of_other_examples(const Trial& trial) {
  const LowThresholds low;
  const int64_t hidden = trial.choice(2, 1) == 0 ? 17 : 130;  // more than some kernels take at once
  const Values drawn = draw_ordinary(trial, {{kB, 3}, {kN, 16}, {kC, 3}, {kH, hidden}, {kM, 1}});
  const int64_t one = trial.choice(3);
  const auto out_of = [&](int exponent_of_one, int exponent_of_others) {
    return compute(trial, changed(
                              drawn, [](size_t tensor, const Extents&) { return tensor == kMask; },
                              [&](size_t tensor, const Extents& i) {
                                const int exponent = i[0] == one ? exponent_of_one : exponent_of_others;
                                return std::ldexp(drawn.at(tensor, i), exponent);
                              }));
  };
  const Values small = out_of(-5, -5);
  const auto where = [&](bool is_one) {
    return [&, is_one](size_t, const Extents& i) {
      return (i[0] == one) == is_one ? std::optional(i) : std::nullopt;
    };
  };
  if (auto violation = differs(trial, out_of(-5, 7), small, where(true))) return violation;
  return differs(trial, out_of(7, -5), small, where(false));
}

// An infinity at an edge makes NaNs of all edges that share its first node, and of nothing else.
Violation infinity_at(const Trial& trial, const Values& inputs, size_t input, const Extents& at) {
  const Values spoiled = changed(
      inputs, [&](size_t tensor, const Extents& i) { return tensor == input && i == at; },
      [](size_t, const Extents&) { return std::numeric_limits<double>::infinity(); });
  const Values got = compute(trial, spoiled), want = compute(trial, inputs);
  for (size_t e = 0; e < got.elements[kOut].size(); ++e) {
    const Extents i = index_of(static_cast<int64_t>(e), got.shapes[kOut]);
    const double is = got.elements[kOut][e];
    const bool is_reached = i[0] == at[0] && (i[1] == at[1] || i[2] == at[1]);
    if (is_reached ? std::isnan(is) : is == want.elements[kOut][e]) continue;
    return fmt::format("out{} is {}, with an infinite {} at {}: {}", i.to_string(), is,
                       trial.op.inputs[input].name, at.to_string(), trial.which.to_string());
  }
  return std::nullopt;
}

// It may be masked.
Violation infinity_in_x(const Trial& trial) {
  const int64_t n = trial.size(kN);
  return infinity_at(trial, draw(trial), kX,
                     {trial.choice(trial.size(kB)), trial.choice(n, 1), trial.choice(n, 2),
                      trial.choice(trial.size(kC), 3)});
}

// It stands in place of a 0, as a path may scale by the largest finite of its factors. The mask is
// so large that factors in f16 that are not scaled overflow, or so small that sums which are stored
// as if they were large underflow. 2^-4 leaves hidden a variance that epsilon does not hide.
Violation infinity_in_mask(const Trial& trial) {
  const int64_t n = 2 + trial.choice(12);
  const Extents at{trial.choice(2, 1), trial.choice(n, 2), trial.choice(n, 4), 0};
  const int64_t hidden = trial.choice(2, 5) == 0 ? 3 : 130;  // more than some kernels take at once
  const Values drawn = draw_ordinary(trial, {{kB, 2}, {kN, n}, {kC, 3}, {kH, hidden}, {kM, 1}});
  const int large = 20;
  const int small = -4;
  const int exponent = trial.choice(2, 3) == 0 ? large : small;
  const Values inputs = changed(
      drawn, [](size_t tensor, const Extents&) { return tensor == kMask; },
      [&](size_t tensor, const Extents& i) {
        return i == at ? 0.0 : std::ldexp(drawn.at(tensor, i), exponent);
      });
  return infinity_at(trial, inputs, kMask, at);
}

// Hidden channels with equal weights are equal, so only the bias of their norm remains: nothing
// before it shows. The weights of the norm keep their size, by which a path may scale the bias.
Violation equal_channels(const Trial& trial) {
  const auto is_projection = [](size_t tensor) { return tensor >= kLeftProj && tensor <= kRightGate; };
  const Values inputs = rearranged(draw(trial), [&](size_t tensor, Extents index) {
    if (is_projection(tensor)) index[0] = 0;
    return index;
  });
  const Values other_masks =
      mixed(inputs, draw(trial, 2), [](size_t tensor, const Extents&) { return tensor == kMask; });
  const Values others = changed(
      other_masks, [](size_t tensor, const Extents&) { return tensor == kToOutNormWeight; },
      [&](size_t tensor, const Extents& i) { return -inputs.at(tensor, i); });
  return differs(trial, compute(trial, others), compute(trial, inputs));
}

// The gate of the output alone: out[c] = sigmoid(out_gate.weight[c,0] * xn[0]) for each c < H. The
// second norm leaves its bias, ones; to_out.weight is the identity; and of xn only channel 0 is not
// 0. So all sums have one term that is not 0, and nothing but the first norm and the sigmoid is
// rounded, each as oracles/core/arithmetic.h derives from the contract.
Violation gate_alone(const Trial& trial, Values inputs) {
  for (const Rounding& rounding : trial.path.recipe(inputs.dims, trial.which.dtype).roundings) {
    if (rounding.format != Format::kStored) return std::nullopt;  // it rounds its factors
  }
  // Of a far argument the sigmoid may be off by much. It must not be 0.
  constexpr double kLeast = -8, kFar = -86;
  std::ranges::fill(inputs.elements[kToOutNormWeight], 0.0);
  std::ranges::fill(inputs.elements[kToOutNormBias], 1.0);
  const Extents of_gate = inputs.shapes[kOutGate];
  for (int64_t h = 0; h < of_gate[0]; ++h) {
    const double part = trial.random.uniform(static_cast<uint64_t>(h), 1 << 10);
    inputs.elements[kOutGate][static_cast<size_t>(h * of_gate[1])] =
        static_cast<float>((h % 4 == 3 ? kFar : kLeast) * part);
  }
  inputs = changed(
      inputs, [](size_t tensor, const Extents&) { return tensor == kToOut; },
      [](size_t, const Extents& i) { return i[0] == i[1] ? 1.0 : 0.0; });
  const Arithmetic a(Arithmetic::Mode::kBall);
  const auto row_of = [&](size_t tensor) { return Balls(inputs.elements[tensor]); };
  const Balls x = row_of(kX), weight = row_of(kNormWeight), bias = row_of(kNormBias);
  Balls xn(x.size());
  a.layer_norm(x.row(), weight.row(), bias.row(), kEpsilon, false, xn);
  const Values got = compute(trial, inputs);
  for (int64_t c = 0; c < std::min(of_gate[0], of_gate[1]); ++c) {
    const double factor = inputs.at(kOutGate, {c, 0}), out = got.at(kOut, {0, 0, 0, c});
    const Ball want = a.sigmoid(a.multiply({factor}, xn[0]));
    if (std::abs(out - want.mid) <= want.radius) continue;
    return fmt::format("the gate of {} * {} is {}, expected {} +- {}: {}", factor, xn[0].mid, out, want.mid,
                       want.radius, trial.which.to_string());
  }
  return std::nullopt;
}

// One edge. The first norm makes 0 of all channels.
Values of_one_edge(const Trial& trial, int64_t channels, int64_t hidden) {
  Values inputs = draw_ordinary(trial, {{kB, 1}, {kN, 1}, {kC, channels}, {kH, hidden}, {kM, 0}});
  for (size_t tensor : {size_t{kNormWeight}, size_t{kNormBias}})
    std::ranges::fill(inputs.elements[tensor], 0.0);
  return inputs;
}

// The first norm leaves its bias.
Violation gate_of_a_bias(const Trial& trial) {
  Values inputs = of_one_edge(trial, 32, 32);
  inputs.elements[kNormBias][0] = 1;
  return gate_alone(trial, std::move(inputs));
}

// The first channel is far above the others. Its deviation from the mean is the root of the number
// of channels, for which its weight makes up.
Violation gate_of_an_outlier(const Trial& trial) {
  Values inputs = of_one_edge(trial, 256, 8);
  inputs.elements[kX][0] = std::ldexp(inputs.elements[kX][0], 6 + static_cast<int>(trial.choice(16)));
  inputs.elements[kNormWeight][0] = 0x1p-4;
  return gate_alone(trial, std::move(inputs));
}

}  // namespace

std::vector<Law> laws() {
  std::vector<Law> all;
  const auto add = [&](std::string_view name, std::string_view statement, Check check,
                       On on = On::kOrdinaryData) {
    const Dims largest = {{kB, 4}, {kN, 20}, {kC, 40}, {kH, 48}};
    all.push_back(make_law("trimul", largest, name, statement, std::move(check), on));
  };
  add("batch_independence", "a batch alone gives the same bits", independence(kB), On::kAnyData);
  add("batch_permutation", "permuted batches give the permuted bits", permutation(kB), On::kAnyData);
  add("layout_independence", "the same elements give the same bits wherever they lie", layout_independence(),
      On::kAnyData);
  add("mask_of_ones", "a mask of ones gives the bits of no mask", mask_of_ones, On::kAnyData);
  add("masks_of_other_examples", "the mask of a batch is seen by its own outputs only",
      masks_of_other_examples, On::kAnyData);
  add("masked_edges", "x of masked edges is seen by their own outputs only", masked_edges);
  add("masked_edges_of_many_nodes", "x of masked edges is seen by their own outputs only",
      masked_edges_of_many_nodes, On::kAnyData);
  add("gate_of_a_bias", "where both norms leave one bias, out is the sigmoid of its weights", gate_of_a_bias,
      On::kAnyData);
  add("gate_of_an_outlier", "where one channel is far above the others, its gate is that of its deviation",
      gate_of_an_outlier, On::kAnyData);
  add("exchange", "left and right exchanged give the transposed bits, if the gate of the output is constant",
      exchange);
  add("equal_channels", "where all hidden channels have the same weights, the norm of hidden leaves its bias",
      equal_channels);
  add("infinity_in_x",
      "an infinity in x makes the row and the column of its first node NaN, and nothing else", infinity_in_x);
  add("infinity_in_mask",
      "an infinity in the mask makes the row and the column of its first node NaN, and nothing else",
      infinity_in_mask, On::kAnyData);
  add("scaling_of_to_out", "to_out.weight times a power of two gives out times it", scaling({{kToOut, 1}}));
  return all;
}

}  // namespace assay::trimul
