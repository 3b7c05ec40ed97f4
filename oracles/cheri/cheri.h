// SPDX-License-Identifier: Apache-2.0
// Oracles of the Cheri ops. Where a path may round stands in the contract (kernels/cheri/cheri.h):
//
//   conv        a sum of three products in f32, which is not rounded again
//   statistics  of these very values, in f64 (Arithmetic::moments)
//   y, dconv    differences and products in f32
//   dw          at most kSumGroup products in f32, such groups in f64
//   outputs     rounded to the storage dtype
//
// cheri_block also rounds at the other sites of the recipe. Where w2 has a format, it is multiplied
// by the scale before it is rounded. Tensor cores add up truncating.
#pragma once

#include <vector>

#include "kernels/cheri/cheri.h"
#include "oracles/core/formula.h"

namespace assay::cheri::oracle {

// The faults of every op; further ones follow them.
enum Fault : int { kDilationTooLarge = 1, kDilationTooSmall, kFirstTapDropped, kNoEpsilon, kOwnFaults };

// The normalised convolution, which all of them begin with.
class Convolution {
 public:
  // kNoEpsilon leaves eps out where the variance is less than `least_variance`.
  Convolution(const Question& question, Input x, Input w, const Arithmetic& a, int fault,
              double least_variance);

  // sum_k value(l + (k-1)*d) * w[k,c]
  template <class Value>
  Ball taps(const Value& value, int64_t l, int64_t d, int64_t c, const Sum& sum, Products& products) const {
    for (int64_t k = first_tap; k < 3; ++k) {
      const int64_t source = l + (k - 1) * d;
      if (source < 0 || source >= length) continue;
      products.add(value(source), weights_[static_cast<size_t>(k * channels + c)]);
    }
    return products.sum(a, sum);
  }

  Balls conv(int64_t n) const;  // of a whole example
  assay::Moments moments_of(const Balls& conv) const;
  // y = (conv - mean) * rstd
  Ball y(int64_t n, int64_t l, int64_t c, Products& products) const {
    const auto at = [&](int64_t source) { return x_({n, source, c}); };
    return a.normalise(taps(at, l, dilation, c, to_conv_, products), moments_[n]);
  }
  // Calls visit(n) for every example, in parallel.
  void for_examples(const std::function<void(int64_t)>& visit) const;
  // Whether no variance is so small that kNoEpsilon changes something.
  bool is_unchanged() const { return is_unchanged_; }

  const Arithmetic& a;
  const int64_t examples, length, channels;
  // Those of the fault.
  int64_t dilation, first_tap = 0;

 private:
  Reader x_;
  Balls weights_;
  double least_variance_;  // with eps
  Sum to_conv_;
  Lazy<assay::Moments> moments_;  // of examples
  bool is_unchanged_ = false;
};

Evaluate conv_norm(const Question& question, int output, const Arithmetic& a, int fault);
Evaluate conv_norm_grad(const Question& question, int output, const Arithmetic& a, int fault);
Evaluate block(const Question& question, int output, const Arithmetic& a, int fault);

}  // namespace assay::cheri::oracle
