// SPDX-License-Identifier: Apache-2.0
#include "oracles/cheri/convolution.h"

#include <algorithm>

#include "kernels/core/parallel.h"
#include "oracles/core/each.h"

namespace assay::cheri::oracle {

Convolution::Convolution(const Question& question, Input x, Input w, const Arithmetic& arithmetic, int fault,
                         double least_variance)
    : a(arithmetic),
      examples(question.dims[kL] * question.dims[kC] == 0 ? 0 : question.dims[kN]),
      length(question.dims[kL]),
      channels(question.dims[kC]),
      dilation(question.dims[kDilation]),
      x_(question.inputs[x]),
      weights_(Reader(question.inputs[w]).all()),
      has_no_epsilon_(fault == kNoEpsilon),
      least_variance_(least_variance),
      to_conv_(question.recipe.sum(site::kConv)),
      moments_(examples, [this](int64_t n) { return moments_of(conv(n)); }) {
  const int64_t right = dilation;
  if (fault == kDilationTooLarge) ++dilation;
  if (fault == kDilationTooSmall && dilation > 1) --dilation;
  if (fault == kFirstTapDropped) first_tap = 1;
  // From a distance of L on, only the middle tap meets an element.
  const bool is_changed = (first_tap > 0 || dilation != right) && std::min(dilation, right) < length;
  if (fault > 0 && fault <= kFirstTapDropped) is_unchanged_ = !is_changed;
  if (!has_no_epsilon_) return;
  for_examples([this](int64_t n) { moments_[n]; });
  is_unchanged_ = true;
  for (int64_t n = 0; n < examples; ++n) is_unchanged_ &= !(moments_[n].variance.mid < least_variance_);
}

void Convolution::for_examples(const std::function<void(int64_t)>& visit) const {
  parallel_for(examples, std::max<int64_t>(1, 4096 / std::max<int64_t>(count(), 1)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t n = begin; n < end; ++n) visit(n);
               });
}

Balls Convolution::conv(int64_t n) const {
  const std::vector<double> x = x_.all({n});
  Balls values(x.size());
  for (int64_t i = 0; i < count(); ++i) {
    const int64_t c = i % channels;
    const auto at = [&](int64_t l) { return x[static_cast<size_t>(l * channels + c)]; };
    values.set(static_cast<size_t>(i), taps(at, i / channels, dilation, c, to_conv_));
  }
  return values;
}

Moments Convolution::moments_of(const Balls& conv) const {
  const Moments moments = a.moments(conv.row(), kEpsilon);
  return has_no_epsilon_ && moments.variance.mid < least_variance_ ? a.moments(conv.row(), 0) : moments;
}

Evaluate conv_norm(const Question& question, int, const Arithmetic& a, int fault) {
  const auto of = std::make_shared<const Convolution>(question, kX, kW, a, fault, 1.0);
  if (of->is_unchanged()) return {};
  return each(question, a, question.inputs[kX].shape,
              [of](const Extents& at, Products&) { return of->y(at[0], at[1], at[2]); });
}

}  // namespace assay::cheri::oracle
