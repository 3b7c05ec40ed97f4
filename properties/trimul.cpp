// SPDX-License-Identifier: Apache-2.0
// Laws of trimul: relations between outputs that hold to the bit for every path, because the order
// of each sum depends on the shape alone and is the same for all edges.
#include "kernels/trimul/trimul.h"

#include <cmath>
#include <limits>
#include <utility>

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
Violation masked_edges(const Trial& trial) {
  if (trial.which.dims[kM] == 0) return std::nullopt;  // there is no mask
  const auto is_masked = [](const Extents& i) { return (i[0] + 3 * i[1] + 5 * i[2]) % 4 == 0; };
  const Values inputs = changed(
      draw(trial), [&](size_t tensor, const Extents& i) { return tensor == kMask && is_masked(i); },
      [](size_t, const Extents&) { return 0.0; });
  const Values others = draw(trial, 2);
  const Values moved =
      mixed(inputs, others, [&](size_t tensor, const Extents& i) { return tensor == kX && is_masked(i); });
  return differs(trial, compute(trial, moved), compute(trial, inputs),
                 [&](size_t, const Extents& i) -> std::optional<Extents> {
                   if (is_masked(i)) return std::nullopt;
                   return i;
                 });
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

// An infinity in x, masked or not, makes NaNs of all edges that share its first node, and of
// nothing else.
Violation infinity_in_x(const Trial& trial) {
  const int64_t n = trial.size(kN);
  const Extents at{trial.choice(trial.size(kB)), trial.choice(n, 1), trial.choice(n, 2),
                   trial.choice(trial.size(kC), 3)};
  const Values inputs = draw(trial);
  const Values spoiled = changed(
      inputs, [&](size_t tensor, const Extents& i) { return tensor == kX && i == at; },
      [](size_t, const Extents&) { return std::numeric_limits<double>::infinity(); });
  const Values got = compute(trial, spoiled), want = compute(trial, inputs);
  for (size_t e = 0; e < got.elements[kOut].size(); ++e) {
    const Extents i = index_of(static_cast<int64_t>(e), got.shapes[kOut]);
    const double is = got.elements[kOut][e];
    const bool is_reached = i[0] == at[0] && (i[1] == at[1] || i[2] == at[1]);
    if (is_reached ? std::isnan(is) : is == want.elements[kOut][e]) continue;
    return fmt::format("out{} is {}, with an infinite x at {}: {}", i.to_string(), is, at.to_string(),
                       trial.which.to_string());
  }
  return std::nullopt;
}

// Hidden channels with equal weights are equal, so only the bias of their norm remains: nothing
// before it shows.
Violation equal_channels(const Trial& trial) {
  const auto is_projection = [](size_t tensor) { return tensor >= kLeftProj && tensor <= kRightGate; };
  const Values inputs = rearranged(draw(trial), [&](size_t tensor, Extents index) {
    if (is_projection(tensor)) index[0] = 0;
    return index;
  });
  const Values others = mixed(inputs, draw(trial, 2), [](size_t tensor, const Extents&) {
    return tensor == kMask || tensor == kToOutNormWeight;
  });
  return differs(trial, compute(trial, others), compute(trial, inputs));
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
  add("masked_edges", "x of masked edges is seen by their own outputs only", masked_edges);
  add("exchange", "left and right exchanged give the transposed bits, if the gate of the output is constant",
      exchange);
  add("equal_channels", "where all hidden channels have the same weights, the norm of hidden leaves its bias",
      equal_channels);
  add("infinity_in_x",
      "an infinity in x makes the row and the column of its first node NaN, and nothing else", infinity_in_x);
  add("scaling_of_to_out", "to_out.weight times a power of two gives out times it", scaling({{kToOut, 1}}));
  return all;
}

}  // namespace assay::trimul
