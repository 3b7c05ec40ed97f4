// SPDX-License-Identifier: Apache-2.0
#include "oracles/dynamic_conv/dynamic_conv.h"

#include "kernels/dynamic_conv/dynamic_conv.h"
#include "oracles/core/bound.h"
#include "oracles/core/read.h"

namespace assay::dynamic_conv {
namespace {

// What a counterfeit gets wrong; kNothing for the oracle itself.
enum class Fault : uint8_t { kNothing, kFirstTapDropped, kOneStepLate, kTapsReversed };

// Which tap of the kernel the formula's tap w reads, and at which time; the counterfeits differ
// only here.
bool is_dropped(Fault fault, int64_t w) {
  return fault == Fault::kFirstTapDropped && w == 0;
}
int64_t tap(Fault fault, int64_t w, int64_t taps) {
  return fault == Fault::kTapsReversed ? taps - 1 - w : w;
}
int64_t delay(Fault fault) {
  return fault == Fault::kOneStepLate ? 1 : 0;
}

Answer forward(Fault fault, const Question& question, int) {
  return [fault, &question](std::span<const int64_t> elements, std::span<Expected> expected) {
    const Reader x(question.inputs[kX]);
    const Reader k(question.inputs[kK]);
    const int64_t taps = question.dims[kW];
    const Extents shape = question.inputs[kX].shape;
    for (size_t i = 0; i < elements.size(); ++i) {
      const Extents at = index_of(elements[i], shape);
      SumOfProducts sum;
      for (int64_t w = 0; w < taps; ++w) {
        const int64_t source = at[1] + w - taps + 1 - delay(fault);
        if (source < 0 || is_dropped(fault, w)) continue;
        sum.add(k({at[0], at[1], at[2], tap(fault, w, taps)}), x({at[0], source, at[2]}));
      }
      expected[i] = sum.expected(question.recipe);
    }
  };
}

Expected input_gradient(Fault fault, const Question& question, const Extents& at) {
  const Reader dout(question.inputs[grad::kDout]);
  const Reader k(question.inputs[grad::kK]);
  const int64_t taps = question.dims[kW];
  SumOfProducts sum;
  for (int64_t w = 0; w < taps; ++w) {
    const int64_t source = at[1] + taps - 1 - w + delay(fault);
    if (source >= question.dims[kT] || is_dropped(fault, w)) continue;
    sum.add(dout({at[0], source, at[2]}), k({at[0], source, at[2], tap(fault, w, taps)}));
  }
  return sum.expected(question.recipe);
}

Expected tap_gradient(Fault fault, const Question& question, const Extents& at) {
  const Reader dout(question.inputs[grad::kDout]);
  const Reader x(question.inputs[grad::kX]);
  const int64_t taps = question.dims[kW];
  const int64_t source = at[1] + tap(fault, at[3], taps) - taps + 1 - delay(fault);
  SumOfProducts product;
  if (source >= 0 && !is_dropped(fault, at[3])) {
    product.add(dout({at[0], at[1], at[2]}), x({at[0], source, at[2]}));
  }
  return product.expected(question.recipe);
}

Answer backward(Fault fault, const Question& question, int output) {
  const bool is_dx = static_cast<size_t>(output) == grad::kDx;
  return [fault, is_dx, &question](std::span<const int64_t> elements, std::span<Expected> expected) {
    const Extents shape = question.inputs[is_dx ? grad::kX : grad::kK].shape;
    for (size_t i = 0; i < elements.size(); ++i) {
      const Extents at = index_of(elements[i], shape);
      expected[i] = is_dx ? input_gradient(fault, question, at) : tap_gradient(fault, question, at);
    }
  };
}

Oracle make_oracle(std::string_view op, Answer (*answer)(Fault, const Question&, int output)) {
  const auto solve = [answer](Fault fault) -> Solve {
    return [answer, fault](const Question& question, int output) { return answer(fault, question, output); };
  };
  return {.op = op,
          .solve = solve(Fault::kNothing),
          .counterfeits = {{"the first tap is dropped", solve(Fault::kFirstTapDropped)},
                           {"inputs are read one step late", solve(Fault::kOneStepLate)},
                           {"the taps are reversed", solve(Fault::kTapsReversed)}}};
}

}  // namespace

std::vector<Oracle> oracles() {
  return {make_oracle("dynamic_conv", forward), make_oracle("dynamic_conv_grad", backward)};
}

}  // namespace assay::dynamic_conv
