// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "oracles/cheri/convolution.h"

namespace assay::cheri::oracle {
namespace {

enum OwnFault : int { kNoGelu = kOwnFaults, kScaleTwice, kNoScale };

// The places where a recipe rounds between the steps.
class Sites {
 public:
  Sites(const Recipe& recipe, const Arithmetic& arithmetic)
      : is_folded(recipe.factor != Factor::kStored), a(arithmetic), intermediate_(recipe.intermediate) {
    const bool is_split = recipe.factor == Factor::kBF16x3 || recipe.factor == Factor::kTF32x3;
    (is_split ? sum.parts : factor_) = factor_format(recipe.factor);
    if (is_folded || intermediate_ != DType::kF32) sum.unit = 0x1p-23;  // tensor cores truncate
  }

  Ball stored(Ball value) const {
    return intermediate_ == DType::kF32 ? value : a.round(intermediate_, value);
  }
  Ball factor(Ball value) const { return factor_ ? a.round(*factor_, value) : value; }

  Sum sum;         // of products
  bool is_folded;  // w2 is multiplied by the scale

 private:
  const Arithmetic& a;
  DType intermediate_;
  const FloatFormat* factor_ = nullptr;
};

// out = x + scale * w2 gelu(w1 y)
class Block {
 public:
  Block(const Question& question, const Arithmetic& arithmetic, int fault)
      : a(arithmetic),
        of_(question, kX, kW, arithmetic, fault, kEpsilon / 4),
        x_(question.inputs[kX]),
        storage_(question.recipe.storage),
        at_(question.recipe, arithmetic),
        hidden_(static_cast<size_t>(question.dims[kHidden])),
        has_no_gelu_(fault == kNoGelu),
        scale_(a.constant(std::pow(kScale, fault == kNoScale      ? 0
                                           : fault == kScaleTwice ? 2
                                                                  : 1))) {
    for (double w : Reader(question.inputs[kW1]).all()) w1_.push_back(at_.factor({w}));
    for (double w : Reader(question.inputs[kW2]).all())
      w2_.push_back(at_.is_folded ? at_.factor(a.multiply({w}, scale_)) : Ball{w});
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
      const Ball sum = at_.stored(a.dot(g.row(), w2, at_.sum));
      values[i] = a.round(storage_, a.add({x_({n, l, c})}, at_.is_folded ? sum : a.multiply(sum, scale_)));
    }
  }

 private:
  // g = gelu(w1 y) of a row.
  void hide(int64_t n, int64_t l, Balls& g) const {
    const auto channels = static_cast<size_t>(of_.channels);
    Balls y;
    for (int64_t c = 0; c < of_.channels; ++c) y.push_back(at_.factor(at_.stored(of_.y(n, l, c))));
    g.clear();
    for (size_t h = 0; h < hidden_; ++h) {
      const Ball z = at_.stored(a.dot(y.row(), w1_.row(h * channels, channels), at_.sum));
      const bool passes = has_no_gelu_ && z.mid < 0;
      g.push_back(at_.factor(at_.stored(passes ? z : a.gelu(z))));
    }
  }

  const Arithmetic& a;
  Convolution of_;
  Reader x_;
  DType storage_;
  Sites at_;
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
