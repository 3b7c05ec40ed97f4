// SPDX-License-Identifier: Apache-2.0
#include "oracles/cheri/cheri.h"

#include <algorithm>

#include "kernels/core/parallel.h"

namespace assay::cheri {
namespace oracle {

Convolution::Convolution(const Question& question, Input x, Input w, const Arithmetic& arithmetic, int fault,
                         double least_variance)
    : a(arithmetic),
      examples(question.dims[kL] * question.dims[kC] == 0 ? 0 : question.dims[kN]),
      length(question.dims[kL]),
      channels(question.dims[kC]),
      dilation(question.dims[kDilation]),
      x_(question.inputs[x]),
      weights_(Reader(question.inputs[w]).all()),
      least_variance_(fault == kNoEpsilon ? least_variance : 0),
      to_conv_(question.recipe.sum(site::kConv)),
      moments_(examples, [this](int64_t n) { return moments_of(conv(n)); }) {
  if (fault == kDilationTooLarge) ++dilation;
  if (fault == kDilationTooSmall && dilation > 1) --dilation;
  if (fault == kFirstTapDropped) first_tap = 1;
  if (fault != kNoEpsilon) return;
  for_examples([this](int64_t n) { moments_[n]; });
  is_unchanged_ = true;
  for (int64_t n = 0; n < examples; ++n) is_unchanged_ &= !(moments_[n].variance.mid < least_variance_);
}

void Convolution::for_examples(const std::function<void(int64_t)>& visit) const {
  parallel_for(examples, std::max<int64_t>(1, 4096 / std::max<int64_t>(length * channels, 1)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t n = begin; n < end; ++n) visit(n);
               });
}

Balls Convolution::conv(int64_t n) const {
  const Balls x(x_.all({n}));
  Balls values(x.size());
  Products products;
  for (int64_t i = 0; i < length * channels; ++i) {
    const int64_t c = i % channels;
    const auto at = [&](int64_t l) { return x[static_cast<size_t>(l * channels + c)]; };
    values.set(static_cast<size_t>(i), taps(at, i / channels, dilation, c, to_conv_, products));
  }
  return values;
}

Moments Convolution::moments_of(const Balls& conv) const {
  const Moments moments = a.moments(conv.row(), kEpsilon);
  return moments.variance.mid < least_variance_ ? a.moments(conv.row(), 0) : moments;
}

Evaluate conv_norm(const Question& question, int, const Arithmetic& a, int fault) {
  const auto of = std::make_shared<const Convolution>(question, kX, kW, a, fault, 1.0);
  if (of->is_unchanged()) return {};
  return each(question, a, question.inputs[kX].shape,
              [of](const Extents& at, Products& products) { return of->y(at[0], at[1], at[2], products); });
}

}  // namespace oracle

std::vector<Oracle> oracles() {
  const std::string_view large = "the dilation is one too large", small = "the dilation is one too small",
                         dropped = "the first tap is dropped",
                         no_eps = "eps is left out where the variance is below 1",
                         no_eps_in_tiny = "eps is left out where the variance is below a quarter of it";
  const std::vector<Plant::Kind> eps{Plant::Kind::kEpsilonTimes10, Plant::Kind::kEpsilonOver10};
  return {{.op = "cheri_conv_norm",
           .formula = oracle::conv_norm,
           .faults = {large, small, dropped, no_eps},
           .sums = {site::kConv},
           .plants = eps,
           .block_axes = {1}},
          {.op = "cheri_conv_norm_grad",
           .formula = oracle::conv_norm_grad,
           .faults = {large, small, dropped, no_eps, "mean(dy) is not subtracted"},
           .sums = {site::kConv, site::kDx, site::kDw},
           .plants = eps,
           .block_axes = {1, 0}},
          {.op = "cheri_block",
           .formula = oracle::block,
           .faults = {large, small, dropped, no_eps_in_tiny, "the GELU lets negative values pass",
                      "the scale is applied twice", "the scale is left out"},
           .sums = {site::kConv, site::kExpansion, site::kContraction},
           .plants = {eps[0], eps[1], Plant::Kind::kGeluOff},
           .block_axes = {1},
           .doubt_axes = 2}};
}

}  // namespace assay::cheri
