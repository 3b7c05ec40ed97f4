// SPDX-License-Identifier: Apache-2.0
// Laws of mhc_post: relations between outputs that hold to the bit for every path, because the
// contract fixes the order of the sums. They need no oracle, so no error of the oracle can hide in
// them.
#include "kernels/mhc_post/mhc_post.h"

#include <array>
#include <cmath>
#include <limits>

#include "properties/core/common_laws.h"

namespace assay::mhc_post {
namespace {

// Output streams in another order, with their weights, give the same bits in that order.
Violation output_stream_permutation(const Trial& trial) {
  const std::vector<int64_t> order = trial.permutation(trial.size(kHc));
  const auto permuted = [&](Extents index, int axis) {
    index[axis] = order[static_cast<size_t>(index[axis])];
    return index;
  };
  const Values inputs = draw(trial);
  const Values moved = rearranged(inputs, [&](size_t tensor, const Extents& index) {
    return tensor == kPost ? permuted(index, 1) : tensor == kComb ? permuted(index, 2) : index;
  });
  return differs(trial, compute(trial, moved), compute(trial, inputs),
                 [&](size_t, const Extents& index) { return permuted(index, 1); });
}

// Residual streams in another order, with their weights, make sums of the same terms. For integers
// these are exact.
Violation residual_stream_permutation(const Trial& trial) {
  const std::vector<int64_t> order = trial.permutation(trial.size(kHc));
  const Values inputs = draw_integers(trial);
  const Values moved = rearranged(inputs, [&](size_t tensor, Extents index) {
    if (tensor == kResidual || tensor == kComb) index[1] = order[static_cast<size_t>(index[1])];
    return index;
  });
  return differs(trial, positive_zeros(compute(trial, moved)), positive_zeros(compute(trial, inputs)));
}

// The weights of other output streams change nothing in a stream.
Violation weight_independence(const Trial& trial) {
  const Values inputs = draw(trial);
  const int64_t stream = trial.choice(trial.size(kHc));
  const Values other_weights = mixed(inputs, draw(trial, 2), [&](size_t tensor, const Extents& index) {
    return (tensor == kPost && index[1] != stream) || (tensor == kComb && index[2] != stream);
  });
  return differs(
      trial, compute(trial, other_weights), compute(trial, inputs),
      [&](size_t, const Extents& index) { return index[1] == stream ? std::optional(index) : std::nullopt; });
}

// Let each output stream choose x or one stream of the residual: its weight is 1, all other weights
// are 0. The output is what was chosen. The other terms are zeros. They can change its sign only if
// it is 0.
Violation weight_of_one_copies(const Trial& trial) {
  const int64_t streams = trial.size(kHc);
  const auto chosen = [&](int64_t n, int64_t i) {  // x for -1
    return trial.choice(streams + 1, static_cast<uint64_t>(1 + n * streams + i)) - 1;
  };
  const Values inputs = changed(
      draw(trial), [](size_t tensor, const Extents&) { return tensor == kPost || tensor == kComb; },
      [&](size_t tensor, const Extents& index) {
        const int64_t source = tensor == kPost ? -1 : index[1];
        const int64_t output = tensor == kPost ? index[1] : index[2];
        return source == chosen(index[0], output) ? 1.0 : 0.0;
      });
  const Values want = build(trial.op.outputs, trial.which.dims, [&](size_t, const Extents& index) {
    const int64_t source = chosen(index[0], index[1]);
    return source < 0 ? inputs.at(kX, {index[0], index[2]})
                      : inputs.at(kResidual, {index[0], source, index[2]});
  });
  return differs(trial, positive_zeros(compute(trial, inputs)), positive_zeros(want));
}

// No term is skipped because its weight is 0: an infinity makes a NaN of each output that has it as
// a term, and of no other.
Violation infinity_times_zero(const Trial& trial) {
  const bool of_x = trial.choice(2) == 0;
  const int64_t token = trial.choice(trial.size(kN), 1);
  const int64_t stream = trial.choice(trial.size(kHc), 2);
  const int64_t column = trial.choice(trial.size(kH), 3);
  const Values inputs = changed(
      draw(trial),
      [&](size_t tensor, const Extents& i) {
        if (of_x) return tensor == kPost || (tensor == kX && i == Extents{token, column});
        return (tensor == kComb && i[1] == stream) ||
               (tensor == kResidual && i == Extents{token, stream, column});
      },
      [](size_t tensor, const Extents&) {
        return tensor == kX || tensor == kResidual ? std::numeric_limits<double>::infinity() : 0.0;
      });
  const Values got = compute(trial, inputs);
  for (size_t i = 0; i < got.elements[kOut].size(); ++i) {
    const Extents index = index_of(static_cast<int64_t>(i), got.shapes[kOut]);
    const bool is_reached = index[0] == token && index[2] == column;
    if (std::isnan(got.elements[kOut][i]) == is_reached) continue;
    return fmt::format("out{} is {}, with an infinite {} of weight 0 at token {}, column {}: {}",
                       index.to_string(), got.elements[kOut][i], of_x ? "x" : "residual", token, column,
                       trial.which.to_string());
  }
  return std::nullopt;
}

// The sums begin with a product, not with 0: a sum of negative zeros alone is -0.
Violation negative_zeros(const Trial& trial) {
  const Values inputs = changed(
      draw(trial), [](size_t, const Extents&) { return true; },
      [](size_t tensor, const Extents&) { return tensor == kX || tensor == kResidual ? -0.0 : 1.0; });
  const Values want = build(trial.op.outputs, trial.which.dims, [](size_t, const Extents&) { return -0.0; });
  return differs(trial, compute(trial, inputs), want);
}

// post may have a last axis of size 1, with any stride, in any layout.
Violation shape_of_post(const Trial& trial) {
  constexpr std::array kLayouts = {Layout::kDense, Layout::kStrided, Layout::kTransposed};
  Trial laid_out = trial;
  laid_out.which.layout = kLayouts[static_cast<size_t>(trial.choice(kLayouts.size()))];
  const Values inputs = draw(trial);
  const auto add_axis = [&](Call& call) {
    call.inputs[kPost].shape.push_back(1);
    call.inputs[kPost].strides.push_back(trial.choice(4, 1));
  };
  return differs(laid_out, compute(laid_out, inputs, add_axis), compute(laid_out, inputs));
}

}  // namespace

std::vector<Law> laws() {
  std::vector<Law> all;
  const auto add = [&](std::string_view name, std::string_view statement, Check check,
                       On on = On::kOrdinaryData) {
    const Dims largest = {{kN, 9}, {kH, 80}};
    all.push_back(make_law("mhc_post", largest, name, statement, std::move(check), on));
  };
  add("token_independence", "a token alone gives the same bits", independence(kN), On::kAnyData);
  add("hidden_independence", "a column alone gives the same bits", independence(kH), On::kAnyData);
  add("weight_independence", "the weights of other output streams change nothing", weight_independence,
      On::kAnyData);
  add("token_permutation", "permuted tokens give the permuted bits", permutation(kN), On::kAnyData);
  add("hidden_permutation", "permuted columns give the permuted bits", permutation(kH), On::kAnyData);
  add("output_stream_permutation", "permuted output streams give the permuted bits",
      output_stream_permutation, On::kAnyData);
  add("residual_stream_permutation",
      "residual streams permuted with their weights give the same, exactly, for small integers",
      residual_stream_permutation, On::kAnyData);
  add("scaling_of_streams", "x and residual times a power of two give out times it",
      scaling({{kX, 1}, {kResidual, 1}}));
  add("scaling_of_weights", "post and comb times a power of two give out times it",
      scaling({{kPost, 1}, {kComb, 1}}));
  add("scaling_of_x_against_post", "x times a power of two and post divided by it give the same bits",
      scaling({{kX, 1}, {kPost, -1}}, 0));
  add("scaling_of_residual_against_comb",
      "residual times a power of two and comb divided by it give the same bits",
      scaling({{kResidual, 1}, {kComb, -1}}, 0));
  add("additivity_in_streams", "out is additive in x and residual, exactly, for small integers",
      additivity({kX, kResidual}), On::kAnyData);
  add("additivity_in_weights", "out is additive in post and comb, exactly, for small integers",
      additivity({kPost, kComb}), On::kAnyData);
  add("weight_of_one_copies", "a weight of 1 among zeros copies its stream or x", weight_of_one_copies);
  add("infinity_times_zero", "an infinity of weight 0 makes its outputs NaN, and no other",
      infinity_times_zero);
  add("negative_zeros", "a sum of negative zeros is -0", negative_zeros, On::kAnyData);
  add("layout_independence", "the same elements give the same bits wherever they lie", layout_independence(),
      On::kAnyData);
  add("shape_of_post", "post of shape (N,HC,1) gives the same bits as (N,HC)", shape_of_post, On::kAnyData);
  return all;
}

}  // namespace assay::mhc_post
