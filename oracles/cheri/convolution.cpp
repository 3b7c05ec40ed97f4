// SPDX-License-Identifier: Apache-2.0
#include "oracles/cheri/convolution.h"

#include <algorithm>

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
      moments_(examples, [this](int64_t n) { return moments_of(n); }) {
  const int64_t right = dilation;
  if (fault == kDilationTooLarge) ++dilation;
  if (fault == kDilationTooSmall && dilation > 1) --dilation;
  if (fault == kFirstTapDropped) first_tap = 1;
  // From a distance of L on, only the middle tap meets an element.
  const bool is_changed = (first_tap > 0 || dilation != right) && std::min(dilation, right) < length;
  if (fault > 0 && fault <= kFirstTapDropped) is_unchanged_ = !is_changed;
  if (has_no_epsilon_) {
    moments_.compute_all();
    is_unchanged_ = true;
    for (int64_t n = 0; n < examples; ++n) is_unchanged_ &= !(moments(n).variance.mid < least_variance_);
  }
}

// conv[n,l,c] = sum_k x[n,l+(k-1)*d,c] * w[k,c]
Ball Convolution::conv(int64_t n, int64_t l, int64_t c) const {
  std::array<double, 3> inputs{}, taps{};
  size_t count = 0;
  for (int64_t k = first_tap; k < 3; ++k) {
    const int64_t source = l + (k - 1) * dilation;
    if (source < 0 || source >= length) continue;
    inputs[count] = x_({n, source, c});
    taps[count++] = weight(k, c);
  }
  return a.dot({inputs.data(), nullptr, count}, {taps.data(), nullptr, count}, {});
}

Moments Convolution::moments_of(int64_t n) const {
  Balls values(static_cast<size_t>(count()));
  for (int64_t i = 0; i < count(); ++i)
    values.set(static_cast<size_t>(i), conv(n, i / channels, i % channels));
  const Moments moments = a.moments(values.row(), kEpsilon);
  if (has_no_epsilon_ && moments.variance.mid < least_variance_) return a.moments(values.row(), 0);
  return moments;
}

}  // namespace assay::cheri::oracle
