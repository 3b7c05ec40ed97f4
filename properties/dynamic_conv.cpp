// SPDX-License-Identifier: Apache-2.0
// Laws of dynamic_conv and its gradient: relations between outputs that hold to the bit for every
// path, because the contract fixes the order of the sums. They need no oracle, so no error of the
// oracle can hide in them.
#include "kernels/dynamic_conv/dynamic_conv.h"

#include <limits>
#include <numeric>

#include "properties/core/common_laws.h"

namespace assay::dynamic_conv {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool is_padding(const Extents& tap, int64_t taps) {
  return tap[1] + tap[3] - taps + 1 < 0;
}

Violation causality(const Trial& trial) {
  const Values inputs = draw(trial);
  const int64_t now = trial.choice(trial.size(kT));
  const Values other_future =
      mixed(inputs, draw(trial, 2), [&](size_t, const Extents& i) { return i[1] > now; });
  return differs(trial, compute(trial, other_future), compute(trial, inputs),
                 [&](size_t, const Extents& i) { return i[1] <= now ? std::optional(i) : std::nullopt; });
}

// dk looks back as out does, dx looks forward. So x after `now` changes later dk only; dout and k
// before `now` change earlier gradients only.
Violation causality_of_gradients(const Trial& trial) {
  const Values inputs = draw(trial);
  const Values others = draw(trial, 2);
  const Values want = compute(trial, inputs);
  const int64_t now = trial.choice(trial.size(kT));
  const Values other_past = mixed(
      inputs, others, [&](size_t tensor, const Extents& i) { return tensor != grad::kX && i[1] < now; });
  const Values other_future = mixed(
      inputs, others, [&](size_t tensor, const Extents& i) { return tensor == grad::kX && i[1] >= now; });
  if (auto violation = differs(trial, compute(trial, other_past), want, [&](size_t, const Extents& i) {
        return i[1] >= now ? std::optional(i) : std::nullopt;
      })) {
    return violation;
  }
  return differs(trial, compute(trial, other_future), want, [&](size_t output, const Extents& i) {
    return output == grad::kDx || i[1] < now ? std::optional(i) : std::nullopt;
  });
}

// One step of zeros before the sequence moves the result by one step and changes no bit of it.
Violation delay(const Trial& trial) {
  const Values inputs = draw(trial);
  Dims later = trial.which.dims;
  later.set(kT.key, trial.size(kT) + 1);
  const Values delayed = build(trial.op.inputs, later, [&](size_t tensor, Extents index) {
    if (--index[1] < 0) return tensor == kK ? 1.0 : 0.0;
    return inputs.at(tensor, index);
  });
  return differs(trial, positive_zeros(compute(trial, delayed)), positive_zeros(compute(trial, inputs)),
                 [](size_t, Extents index) { return --index[1] < 0 ? std::nullopt : std::optional(index); });
}

// A tap of 1 among zeros copies its element of x. The other terms are zeros. They can change its
// sign only if it is 0.
Violation unit_tap_copies(const Trial& trial) {
  const int64_t taps = trial.size(kW);
  const auto chosen = [&](const Extents& i) {
    const int64_t place = (i[0] * trial.size(kT) + i[1]) * trial.size(kD) + i[2];
    return trial.choice(taps, static_cast<uint64_t>(place));
  };
  const Values inputs = changed(
      draw(trial), [](size_t tensor, const Extents&) { return tensor == kK; },
      [&](size_t, const Extents& i) { return i[3] == chosen(i) ? 1.0 : 0.0; });
  const Values want = build(trial.op.outputs, trial.which.dims, [&](size_t, const Extents& i) {
    const int64_t from = i[1] + chosen(i) - taps + 1;
    return from < 0 ? 0.0 : inputs.at(kX, {i[0], from, i[2]});
  });
  return differs(trial, positive_zeros(compute(trial, inputs)), positive_zeros(want));
}

Check padding_is_left_out(Input k) {
  return [k](const Trial& trial) {
    const Values inputs = draw(trial);
    const Values infinite = changed(
        inputs, [&](size_t tensor, const Extents& i) { return tensor == k && is_padding(i, trial.size(kW)); },
        [](size_t, const Extents&) { return kInfinity; });
    return differs(trial, compute(trial, infinite), compute(trial, inputs));
  };
}

Violation padding_has_no_gradient(const Trial& trial) {
  const Values infinite = changed(
      draw(trial), [&](size_t tensor, const Extents&) { return tensor == grad::kDout; },
      [](size_t, const Extents&) { return kInfinity; });
  const Values zeros = build(trial.op.outputs, trial.which.dims, [](size_t, const Extents&) { return 0.0; });
  return differs(trial, compute(trial, infinite), zeros, [&](size_t output, const Extents& index) {
    return output == grad::kDk && is_padding(index, trial.size(kW)) ? std::optional(index) : std::nullopt;
  });
}

double inner_product(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// Adjointness: the dot products dout.out, dx.x and dk.k are equal, each the sum of dout*k*x over
// all taps. Factors in -2..2 make every number an integer of at most 32, which each dtype holds.
Violation adjointness(const Trial& trial) {
  const Values inputs = draw_integers(trial, 9);
  const Values gradients = compute(trial, inputs);
  const double by_x = inner_product(inputs.elements[grad::kX], gradients.elements[grad::kDx]);
  const double by_k = inner_product(inputs.elements[grad::kK], gradients.elements[grad::kDk]);
  const Op& forward_op = ops().front();
  const Values of_forward =
      build(forward_op.inputs, trial.which.dims, [&](size_t tensor, const Extents& index) {
        return inputs.at(tensor == kX ? grad::kX : grad::kK, index);
      });
  for (const Path& forward : forward_op.paths) {
    if (forward.device != trial.path.device) continue;
    const double by_out = inner_product(inputs.elements[grad::kDout],
                                        compute(trial.on(forward_op, forward), of_forward).elements[kOut]);
    if (by_out == by_x && by_out == by_k) continue;
    return fmt::format("dout.out = {}, dx.x = {}, dk.k = {}: {}", by_out, by_x, by_k,
                       trial.which.to_string());
  }
  return std::nullopt;
}

}  // namespace

std::vector<Law> laws() {
  std::vector<Law> all;
  const auto add = [&](std::string_view op, std::string_view name, std::string_view statement, Check check,
                       On on = On::kOrdinaryData) {
    const Dims largest = {{kB, 3}, {kT, 40}, {kD, 40}};
    all.push_back(make_law(op, largest, name, statement, std::move(check), on));
  };
  add("dynamic_conv", "causality", "x and k after a time change nothing up to it", causality, On::kAnyData);
  add("dynamic_conv", "delay", "a step of zeros before x moves out by one step", delay);
  add("dynamic_conv", "unit_tap_copies", "a tap of 1 among zeros copies its element of x", unit_tap_copies);
  add("dynamic_conv_grad", "causality",
      "dout and k before a time change no gradient from it on; x from a time on changes no dk before it, nor "
      "dx",
      causality_of_gradients, On::kAnyData);
  add("dynamic_conv_grad", "padding_has_no_gradient", "dk is 0 in the padding, even for infinite dout",
      padding_has_no_gradient, On::kAnyData);
  add("dynamic_conv_grad", "adjointness", "dout.out = dx.x = dk.k, exactly, for small integers", adjointness,
      On::kAnyData);
  const auto add_common = [&](std::string_view op, Input first, Input k) {
    add(op, "batch_independence", "an entry of the batch alone gives the same bits", independence(kB),
        On::kAnyData);
    add(op, "channel_independence", "a channel alone gives the same bits", independence(kD), On::kAnyData);
    add(op, "channel_permutation", "permuted channels give the permuted bits", permutation(kD), On::kAnyData);
    add(op, "scaling", "the first input times a power of two gives the results times it",
        scaling({{first, 1}}));
    add(op, "layout_independence", "the same elements give the same bits wherever they lie",
        layout_independence(), On::kAnyData);
    add(op, "padding_is_left_out", "infinite taps in the padding change nothing", padding_is_left_out(k),
        On::kAnyData);
  };
  add_common("dynamic_conv", kX, kK);
  add_common("dynamic_conv_grad", grad::kDout, grad::kK);
  return all;
}

}  // namespace assay::dynamic_conv
