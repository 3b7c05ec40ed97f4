// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "oracles/cheri/cheri.h"

namespace assay::cheri::oracle {
namespace {

enum OwnFault : int { kNoGelu = kOwnFaults, kScaleTwice, kNoScale };

// What the elements of all rows share.
struct Block {
  Block(const Question& question, const Arithmetic& a, int fault)
      : of(question, kX, kW, a, fault, kEpsilon / 4),
        scale(a.constant(fault == kNoScale ? 1 : std::pow(kScale, fault == kScaleTwice ? 2 : 1))) {
    const Rounding to_w1 = question.recipe.rounding(site::kW1), to_w2 = question.recipe.rounding(site::kW2);
    is_folded = to_w2.format != Format::kStored;
    for (double w : Reader(question.inputs[kW1]).all()) w1.push_back(a.round(to_w1, {w}));
    for (double w : Reader(question.inputs[kW2]).all())
      w2.push_back(is_folded ? a.round(to_w2, a.multiply({w, 0, true}, scale)) : Ball{w});
  }

  Convolution of;
  Ball scale;
  bool is_folded;  // the scale, into w2
  Balls w1, w2;
};

}  // namespace

// out = x + scale * w2 gelu(w1 y)
Evaluate block(const Question& question, int, const Arithmetic& a, int fault) {
  const auto block = std::make_shared<const Block>(question, a, fault);
  if (block->of.is_unchanged()) return {};
  const auto rounding = [&](const Site& site) { return question.recipe.rounding(site); };
  return each_row(
      question, a, question.inputs[kX].shape,
      [=, &a, x = Reader(question.inputs[kX]), hidden = static_cast<size_t>(question.dims[kHidden]),
       to_y = rounding(site::kY), to_z = rounding(site::kZ), to_gelu = rounding(site::kGelu),
       to_update = rounding(site::kUpdate), expansion = question.recipe.sum(site::kExpansion),
       contraction = question.recipe.sum(site::kContraction)](const Extents& row) {
        Balls y, g;
        Products products;
        for (int64_t c = 0; c < block->of.channels; ++c)
          y.push_back(a.round(to_y, block->of.y(row[0], row[1], c, products)));
        for (size_t h = 0; h < hidden; ++h) {
          const Ball z = a.round(to_z, a.dot(y.row(), block->w1.row(h * y.size(), y.size()), expansion));
          const bool passes = fault == kNoGelu && z.mid < 0;
          g.push_back(a.round(to_gelu, passes ? z : a.gelu(z)));
        }
        return [=, &a](size_t c) {
          const Ball sum = a.round(to_update, a.dot(g.row(), block->w2.row(c * hidden, hidden), contraction));
          const Ball update = block->is_folded ? sum : a.multiply(sum, block->scale);
          return a.add(x({row[0], row[1], static_cast<int64_t>(c)}), update);
        };
      });
}

}  // namespace assay::cheri::oracle
