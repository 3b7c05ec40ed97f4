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

  // sum_k value(l + (k-1)*d) * w[k,c]. What is no Ball is stored.
  template <class Value>
  Ball taps(const Value& value, int64_t l, int64_t d, int64_t c, const Sum& sum) const {
    std::array<double, 3> values{}, radii{}, weights{};
    size_t terms = 0;
    for (int64_t k = first_tap; k < 3; ++k) {
      const int64_t source = l + (k - 1) * d;
      if (source < 0 || source >= length) continue;
      const Ball factor{value(source)};
      values[terms] = factor.mid;
      radii[terms] = factor.radius;
      weights[terms++] = weight(k, c);
    }
    const bool is_stored = std::is_same_v<decltype(value(l)), double>;
    return a.dot({values.data(), is_stored ? nullptr : radii.data(), terms, is_stored},
                 {weights.data(), nullptr, terms, true}, sum);
  }

  Balls conv(int64_t n) const;  // of a whole example
  assay::Moments moments_of(const Balls& conv) const;
  // y = (conv - mean) * rstd
  Ball y(int64_t n, int64_t l, int64_t c) const {
    return a.normalise(taps(
                           [&](int64_t source) {
                             return x_({n, source, c});
                           },
                           l, dilation, c, to_conv_),
                       moments_[n]);
  }
  // Calls visit(n) for every example, in parallel.
  void for_examples(const std::function<void(int64_t)>& visit) const;
  // Whether the fault changes nothing on this data, as far as that is known at once.
  bool is_unchanged() const { return is_unchanged_; }

  int64_t count() const { return length * channels; }  // of an example
  double weight(int64_t k, int64_t c) const { return weights_[static_cast<size_t>(k * channels + c)]; }

  const Arithmetic& a;
  const int64_t examples, length, channels;
  // Those of the fault.
  int64_t dilation, first_tap = 0;

 private:
  Reader x_;
  std::vector<double> weights_;
  bool has_no_epsilon_;
  double least_variance_;
  Sum to_conv_;
  Lazy<assay::Moments> moments_;  // of examples
  bool is_unchanged_ = false;
};

Evaluate conv_norm(const Question& question, int output, const Arithmetic& a, int fault);
Evaluate conv_norm_grad(const Question& question, int output, const Arithmetic& a, int fault);
Evaluate block(const Question& question, int output, const Arithmetic& a, int fault);

}  // namespace assay::cheri::oracle
