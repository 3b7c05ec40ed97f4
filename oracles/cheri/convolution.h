// SPDX-License-Identifier: Apache-2.0
// The normalised convolution, which all Cheri ops begin with.
#pragma once

#include <array>
#include <vector>

#include "kernels/cheri/cheri.h"
#include "oracles/core/lazy.h"
#include "oracles/core/oracle.h"
#include "oracles/core/read.h"

namespace assay::cheri::oracle {

// The faults of every op; further ones follow them.
enum Fault : int { kDilationTooLarge = 1, kDilationTooSmall, kFirstTapDropped, kNoEpsilon, kOwnFaults };

class Convolution {
 public:
  // kNoEpsilon leaves eps out where the variance is less than `least_variance`.
  Convolution(const Question& question, Input x, Input w, const Arithmetic& a, int fault,
              double least_variance);

  Ball conv(int64_t n, int64_t l, int64_t c) const {
    return conv_of([&](int64_t source) { return x_({n, source, c}); }, l, c);
  }
  Balls conv(int64_t n) const;  // of a whole example
  assay::Moments moments_of(const Balls& conv) const;
  // Computed when first asked for.
  const assay::Moments& moments(int64_t n) const { return moments_[n]; }
  Ball y(int64_t n, int64_t l, int64_t c) const { return a.normalise(conv(n, l, c), moments(n)); }
  // Calls visit(n) for every example, in parallel.
  void for_examples(const std::function<void(int64_t)>& visit) const;
  // Whether the fault changes nothing on this data, as far as that is known at once.
  bool is_unchanged() const { return is_unchanged_; }

  // n, l, c of element number i of an output (N, L, C).
  std::array<int64_t, 3> place(int64_t i) const { return {i / count(), i / channels % length, i % channels}; }
  int64_t count() const { return length * channels; }  // of an example
  double weight(int64_t k, int64_t c) const { return weights_[static_cast<size_t>(k * channels + c)]; }

  const Arithmetic& a;
  const int64_t examples, length, channels;
  // Those of the fault.
  int64_t dilation, first_tap = 0;

 private:
  // conv[n,l,c] = sum_k x[n,l+(k-1)*d,c] * w[k,c], where x(l) is x[n,l,c].
  template <class X>
  Ball conv_of(const X& x, int64_t l, int64_t c) const {
    std::array<double, 3> inputs{}, taps{};
    size_t terms = 0;
    for (int64_t k = first_tap; k < 3; ++k) {
      const int64_t source = l + (k - 1) * dilation;
      if (source < 0 || source >= length) continue;
      inputs[terms] = x(source);
      taps[terms++] = weight(k, c);
    }
    return a.dot({inputs.data(), nullptr, terms}, {taps.data(), nullptr, terms}, to_conv_);
  }

  Reader x_;
  std::vector<double> weights_;
  bool has_no_epsilon_;
  double least_variance_;
  Sum to_conv_;
  Lazy<assay::Moments> moments_;
  bool is_unchanged_ = false;
};

Evaluate conv_norm(const Question& question, int output, const Arithmetic& a, int fault);
Evaluate conv_norm_grad(const Question& question, int output, const Arithmetic& a, int fault);
Evaluate block(const Question& question, int output, const Arithmetic& a, int fault);

}  // namespace assay::cheri::oracle
