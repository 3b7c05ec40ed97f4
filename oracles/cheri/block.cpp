// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "oracles/cheri/convolution.h"

namespace assay::cheri::oracle {
namespace {

enum OwnFault : int { kNoGelu = kOwnFaults, kScaleTwice, kNoScale };

// The places where a recipe rounds between the steps.
class Sites {
 public:
  Sites(const Recipe& recipe, const Arithmetic& arithmetic) : a(arithmetic) {
    static constexpr FloatFormat kTF32 = kTF32Format;
    static const FloatFormat kF16 = format_of(DType::kF16), kBF16 = format_of(DType::kBF16);
    if (recipe.intermediate != DType::kF32) stored_ = format_of(recipe.intermediate);
    is_folded = recipe.factor != Factor::kStored;
    if (is_folded || stored_) sum.unit = 0x1p-23;  // tensor cores truncate
    switch (recipe.factor) {
      case Factor::kStored:
        return;
      case Factor::kF16:
        factor_ = kF16;
        return;
      case Factor::kBF16:
        factor_ = kBF16;
        return;
      case Factor::kTF32:
        factor_ = kTF32;
        return;
      case Factor::kBF16x3:
        sum.parts = &kBF16;
        return;
      case Factor::kTF32x3:
        sum.parts = &kTF32;
        return;
    }
    throw Error("{} has no factors", recipe.to_string());
  }

  Ball stored(Ball value) const { return stored_ ? a.round(*stored_, value) : value; }
  Ball factor(Ball value) const { return factor_ ? a.round(*factor_, value) : value; }

  Sum sum;         // of products
  bool is_folded;  // w2 is multiplied by the scale

 private:
  const Arithmetic& a;
  std::optional<FloatFormat> stored_, factor_;
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
        scale_(a.constant(fault == kNoScale      ? 1
                          : fault == kScaleTwice ? kScale * kScale
                                                 : kScale)) {
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
  return
      [formula](std::span<const int64_t> elements, std::span<Ball> values) { (*formula)(elements, values); };
}

}  // namespace assay::cheri::oracle
