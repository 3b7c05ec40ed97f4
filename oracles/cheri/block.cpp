// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "oracles/cheri/convolution.h"

namespace assay::cheri::oracle {
namespace {

enum OwnFault : int { kNoGelu = kOwnFaults, kScaleTwice, kNoScale };

// out = x + scale * w2 gelu(w1 y)
class Block {
 public:
  Block(const Question& question, const Arithmetic& arithmetic, int fault)
      : a(arithmetic),
        of_(question, kX, kW, arithmetic, fault, kEpsilon / 4),
        x_(question.inputs[kX]),
        recipe_(question.recipe),
        hidden_(static_cast<size_t>(question.dims[kHidden])),
        has_no_gelu_(fault == kNoGelu),
        scale_(a.constant(std::pow(kScale, fault == kNoScale      ? 0
                                           : fault == kScaleTwice ? 2
                                                                  : 1))) {
    for (double w : Reader(question.inputs[kW1]).all()) w1_.push_back(a.round(to_w1_, {w}));
    for (double w : Reader(question.inputs[kW2]).all())
      w2_.push_back(is_folded_ ? a.round(to_w2_, a.multiply({w}, scale_)) : Ball{w});
  }

  const Convolution& of() const { return of_; }

  void operator()(std::span<const int64_t> elements, std::span<Ball> values) const {
    Balls g;
    int64_t row = -1;  // of g
    for (size_t i = 0; i < elements.size(); ++i) {
      const auto [n, l, c] = of_.place(elements[i]);
      if (elements[i] / of_.channels != row) hide(n, l, g);
      row = elements[i] / of_.channels;
      const Row w2 = w2_.row(static_cast<size_t>(c) * hidden_, hidden_);
      const Ball sum = a.round(to_update_, a.dot(g.row(), w2, contraction_));
      const Ball update = is_folded_ ? sum : a.multiply(sum, scale_);
      values[i] = a.round(recipe_.storage, a.add({x_({n, l, c})}, update));
    }
  }

 private:
  // g = gelu(w1 y) of a row.
  void hide(int64_t n, int64_t l, Balls& g) const {
    const auto channels = static_cast<size_t>(of_.channels);
    Balls y;
    for (int64_t c = 0; c < of_.channels; ++c) y.push_back(a.round(to_y_, of_.y(n, l, c)));
    g.clear();
    for (size_t h = 0; h < hidden_; ++h) {
      const Ball z = a.round(to_z_, a.dot(y.row(), w1_.row(h * channels, channels), expansion_));
      const bool passes = has_no_gelu_ && z.mid < 0;
      g.push_back(a.round(to_gelu_, passes ? z : a.gelu(z)));
    }
  }

  const Arithmetic& a;
  Convolution of_;
  Reader x_;
  const Recipe& recipe_;
  const Rounding to_y_ = recipe_.rounding(site::kY), to_z_ = recipe_.rounding(site::kZ),
                 to_gelu_ = recipe_.rounding(site::kGelu), to_update_ = recipe_.rounding(site::kUpdate),
                 to_w1_ = recipe_.rounding(site::kW1), to_w2_ = recipe_.rounding(site::kW2);
  const Sum expansion_ = recipe_.sum(site::kExpansion), contraction_ = recipe_.sum(site::kContraction);
  const bool is_folded_ = to_w2_.format != Format::kStored;
  size_t hidden_;
  bool has_no_gelu_;
  Ball scale_;
  Balls w1_, w2_;
};

}  // namespace

Evaluate block(const Question& question, int, const Arithmetic& a, int fault) {
  const auto formula = std::make_shared<const Block>(question, a, fault);
  if (formula->of().is_unchanged()) return {};
  return [formula](auto elements, auto values) { (*formula)(elements, values); };
}

}  // namespace assay::cheri::oracle
