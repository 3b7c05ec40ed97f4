// SPDX-License-Identifier: Apache-2.0
#include "oracles/dynamic_conv/dynamic_conv.h"

#include "kernels/dynamic_conv/dynamic_conv.h"
#include "oracles/core/each.h"
#include "oracles/core/read.h"

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
Evaluate forward(const Question& question, int, const Arithmetic& a, int fault) {
  const Reader x(question.inputs[kX]), k(question.inputs[kK]);
  const Sum out = question.recipe.sum(site::kOut);
  const Taps taps(question, fault);
  return each(question, a, question.inputs[kX].shape, [=, &a](const Extents& at, Products& products) {
    const int64_t b = at[0], t = at[1], d = at[2];
    for (int64_t w = taps.first; w < taps.count; ++w) {
      const int64_t source = t - taps.back(w);
      if (source >= 0) products.add(k({b, t, d, taps.at(w)}), x({b, source, d}));
    }
    return products.sum(a, out);
  });
}

// dx[b,t,d] = sum_w k[b,t+back(w),d,w] * dout[b,t+back(w),d]
Evaluate input_gradient(const Question& question, const Arithmetic& a, int fault) {
  const Reader dout(question.inputs[grad::kDout]), k(question.inputs[grad::kK]);
  const Sum dx = question.recipe.sum(site::kDx);
  const Taps taps(question, fault);
  return each(question, a, question.inputs[grad::kX].shape,
              [=, &a, length = question.dims[kT]](const Extents& at, Products& products) {
                const int64_t b = at[0], t = at[1], d = at[2];
                for (int64_t w = taps.first; w < taps.count; ++w) {
                  const int64_t source = t + taps.back(w);
                  if (source < length) products.add(k({b, source, d, taps.at(w)}), dout({b, source, d}));
                }
                return products.sum(a, dx);
              });
}

// dk[b,t,d,w] = dout[b,t,d] * x[b,t-back(w),d]
Evaluate tap_gradient(const Question& question, const Arithmetic& a, int fault) {
  const Reader dout(question.inputs[grad::kDout]), x(question.inputs[grad::kX]);
  const Taps taps(question, fault);
  return each(question, a, question.inputs[grad::kK].shape, [=, &a](const Extents& at, Products&) {
    const int64_t b = at[0], t = at[1], d = at[2], w = at[3], source = t - taps.back(taps.at(w));
    return source < 0 || w < taps.first ? Ball{.is_signed = true}
                                        : a.multiply({dout({b, t, d})}, {x({b, source, d})});
  });
}

Evaluate backward(const Question& question, int output, const Arithmetic& a, int fault) {
  const bool is_dx = static_cast<size_t>(output) == grad::kDx;
  return is_dx ? input_gradient(question, a, fault) : tap_gradient(question, a, fault);
}

}  // namespace

std::vector<Oracle> oracles() {
  return {
      {.op = "dynamic_conv", .formula = forward, .faults = kFaults, .sums = {site::kOut}, .block_axes = {3}},
      {.op = "dynamic_conv_grad",
       .formula = backward,
       .faults = kFaults,
       .sums = {site::kDx},
       .block_axes = {3, 3}}};
}

}  // namespace assay::dynamic_conv
