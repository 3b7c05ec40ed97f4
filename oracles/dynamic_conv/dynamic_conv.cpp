// SPDX-License-Identifier: Apache-2.0
// Oracle of dynamic_conv and its gradient. Sites: each output is a sum of products in f32, in any
// order, rounded once to the storage dtype. dk is one product, 0 where its tap lies before t = 0.
#include "kernels/dynamic_conv/dynamic_conv.h"

#include "oracles/core/formula.h"

namespace assay::dynamic_conv {
namespace {

enum Fault : int { kFirstTapDropped = 1, kOneStepLate, kTapsReversed };
const std::vector<std::string_view> kFaults{"the first tap is dropped", "inputs are read one step late",
                                            "the taps are reversed"};

// The taps, as a fault sees them.
struct Taps {
  Taps(const Question& question, int fault)
      : count(question.dims[kW]),
        first(fault == kFirstTapDropped ? 1 : 0),
        delay(fault == kOneStepLate ? 1 : 0),
        is_reversed(fault == kTapsReversed) {}
  int64_t at(int64_t w) const { return is_reversed ? count - 1 - w : w; }
  // How many steps before an output its tap w reads.
  int64_t back(int64_t w) const { return count - 1 - w + delay; }

  int64_t count, first, delay;
  bool is_reversed;
};

// out[b,t,d] = sum_w k[b,t,d,w] * x[b,t-back(w),d]
//  dx[b,t,d] = sum_w k[b,t+back(w),d,w] * dout[b,t+back(w),d]
Evaluate sums(const Question& question, const Arithmetic& a, int fault, bool is_dx) {
  const ConstTensorView& summed = question.inputs[is_dx ? grad::kDout : kX];
  const Reader k(question.inputs[is_dx ? grad::kK : kK]), value(summed);
  const Sum sum = question.recipe.sum(is_dx ? site::kDx : site::kOut);
  const Taps taps(question, fault);
  return each(question, a, summed.shape, [=, &a, length = question.dims[kT]](auto at, auto& products) {
    const int64_t b = at[0], t = at[1], d = at[2];
    for (int64_t w = taps.first; w < taps.count; ++w) {
      const int64_t source = is_dx ? t + taps.back(w) : t - taps.back(w);
      if (source >= 0 && source < length)
        products.add(k({b, is_dx ? source : t, d, taps.at(w)}), value({b, source, d}));
    }
    return products.sum(a, sum);
  });
}

// dk[b,t,d,w] = dout[b,t,d] * x[b,t-back(w),d]
Evaluate tap_gradient(const Question& question, const Arithmetic& a, int fault) {
  const Reader dout(question.inputs[grad::kDout]), x(question.inputs[grad::kX]);
  const Taps taps(question, fault);
  return each(question, a, question.inputs[grad::kK].shape, [=, &a](const Extents& at, Products& product) {
    const int64_t b = at[0], t = at[1], d = at[2], w = at[3], source = t - taps.back(taps.at(w));
    if (source < 0 || w < taps.first) return Ball{.is_signed = true};
    product.add(dout({b, t, d}), x({b, source, d}));
    return product.sum(a, {});
  });
}

Evaluate backward(const Question& question, int output, const Arithmetic& a, int fault) {
  const bool is_dx = static_cast<size_t>(output) == grad::kDx;
  return is_dx ? sums(question, a, fault, true) : tap_gradient(question, a, fault);
}

}  // namespace

std::vector<Oracle> oracles() {
  const OpFormula forward = [](const Question& question, int, const Arithmetic& a, int fault) {
    return sums(question, a, fault, false);
  };
  return {
      {.op = "dynamic_conv", .formula = forward, .faults = kFaults, .sums = {site::kOut}, .block_axes = {3}},
      {.op = "dynamic_conv_grad",
       .formula = backward,
       .faults = kFaults,
       .sums = {site::kDx},
       .block_axes = {3, 3}}};
}

}  // namespace assay::dynamic_conv
