// SPDX-License-Identifier: Apache-2.0
#include "oracles/dynamic_conv/dynamic_conv.h"

#include "kernels/dynamic_conv/dynamic_conv.h"
#include "oracles/core/read.h"

namespace assay::dynamic_conv {
namespace {

enum Fault : int { kFirstTapDropped = 1, kOneStepLate, kTapsReversed };
const std::vector<std::string_view> kFaults{"the first tap is dropped", "inputs are read one step late",
                                            "the taps are reversed"};

// What the faults change: which taps count, in which order, and when inputs are read.
struct Taps {
  Taps(int fault, int64_t taps)
      : count(taps),
        first(fault == kFirstTapDropped ? 1 : 0),
        delay(fault == kOneStepLate ? 1 : 0),
        is_reversed(fault == kTapsReversed) {}
  int64_t at(int64_t w) const { return is_reversed ? count - 1 - w : w; }

  int64_t count, first, delay;
  bool is_reversed;
};

Evaluate forward(const Question& question, int, const Arithmetic& a, int fault) {
  return [&, fault](std::span<const int64_t> elements, std::span<Ball> values) {
    const Reader x(question.inputs[kX]), k(question.inputs[kK]);
    const Taps taps(fault, question.dims[kW]);
    Balls weights, inputs;
    for (size_t i = 0; i < elements.size(); ++i) {
      const Extents at = index_of(elements[i], question.inputs[kX].shape);
      const int64_t b = at[0], t = at[1], d = at[2];
      weights.clear(), inputs.clear();
      for (int64_t w = taps.first; w < taps.count; ++w) {
        const int64_t source = t + w - taps.count + 1 - taps.delay;
        if (source < 0) continue;
        weights.push_back({k({b, t, d, taps.at(w)})});
        inputs.push_back({x({b, source, d})});
      }
      values[i] = a.round(question.recipe.storage,
                          a.dot(weights.row(), inputs.row(), question.recipe.sum(site::kOut)));
    }
  };
}

Evaluate input_gradient(const Question& question, const Arithmetic& a, int fault) {
  return [&, fault](std::span<const int64_t> elements, std::span<Ball> values) {
    const Reader dout(question.inputs[grad::kDout]), k(question.inputs[grad::kK]);
    const Taps taps(fault, question.dims[kW]);
    Balls weights, gradients;
    for (size_t i = 0; i < elements.size(); ++i) {
      const Extents at = index_of(elements[i], question.inputs[grad::kX].shape);
      const int64_t b = at[0], t = at[1], d = at[2];
      weights.clear(), gradients.clear();
      for (int64_t w = taps.first; w < taps.count; ++w) {
        const int64_t source = t + taps.count - 1 - w + taps.delay;
        if (source >= question.dims[kT]) continue;
        weights.push_back({k({b, source, d, taps.at(w)})});
        gradients.push_back({dout({b, source, d})});
      }
      values[i] = a.round(question.recipe.storage,
                          a.dot(weights.row(), gradients.row(), question.recipe.sum(site::kDx)));
    }
  };
}

Evaluate tap_gradient(const Question& question, const Arithmetic& a, int fault) {
  return [&, fault](std::span<const int64_t> elements, std::span<Ball> values) {
    const Reader dout(question.inputs[grad::kDout]), x(question.inputs[grad::kX]);
    const Taps taps(fault, question.dims[kW]);
    for (size_t i = 0; i < elements.size(); ++i) {
      const Extents at = index_of(elements[i], question.inputs[grad::kK].shape);
      const int64_t b = at[0], t = at[1], d = at[2], w = at[3];
      const int64_t source = t + taps.at(w) - taps.count + 1 - taps.delay;
      const bool is_outside = source < 0 || w < taps.first;
      values[i] = is_outside
                      ? Ball{}
                      : a.round(question.recipe.storage, a.multiply({dout({b, t, d})}, {x({b, source, d})}));
    }
  };
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
