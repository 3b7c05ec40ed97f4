// SPDX-License-Identifier: Apache-2.0
// The Cheri ops in 1600 bits, each element from the inputs alone. Differences from a mean are taken
// as count * value - sum, so that what is 0 is exactly 0.
#include "oracles/core/self/audit.h"

#include <vector>

#include "kernels/cheri/cheri.h"

namespace assay::cheri {
namespace {

using test::Dense;
using test::ExactSum;
using test::Real;

// One example of x, convolved and normalised.
class Example {
 public:
  Example(const Dense& x, const Dense& w, const Dims& dims, int64_t n)
      : x_(x), w_(w), length_(dims[kL]), channels_(dims[kC]), dilation_(dims[kDilation]), n_(n) {
    count_ = Real(static_cast<double>(length_ * channels_));
    for (int64_t i = 0; i < length_ * channels_; ++i) {
      conv_.push_back(convolution(i / channels_, i % channels_));
      sum_ += conv_.back();
    }
    Real squares;
    for (const Real& conv : conv_) squares += (count_ * conv - sum_) * (count_ * conv - sum_);
    rstd_ = Real(1) / sqrt(squares / (count_ * count_ * count_) + Real(1) / Real(1000));
  }

  Real y(int64_t l, int64_t c) const {
    return (count_ * conv_[static_cast<size_t>(l * channels_ + c)] - sum_) * rstd_ / count_;
  }

  // The gradient of the loss by conv.
  std::vector<Real> gradient(const Dense& dy) const {
    Real sum, product;
    for (int64_t i = 0; i < length_ * channels_; ++i) {
      const int64_t l = i / channels_, c = i % channels_;
      sum += dy({n_, l, c});
      product += Real(dy({n_, l, c})) * y(l, c);
    }
    std::vector<Real> result;
    for (int64_t i = 0; i < length_ * channels_; ++i) {
      const int64_t l = i / channels_, c = i % channels_;
      result.push_back((count_ * dy({n_, l, c}) - sum - y(l, c) * product) * rstd_ / count_);
    }
    return result;
  }

 private:
  Real convolution(int64_t l, int64_t c) const {
    Real sum = Real(w_({1, c})) * x_({n_, l, c});
    if (l >= dilation_) sum += Real(w_({0, c})) * x_({n_, l - dilation_, c});
    if (l < length_ - dilation_) sum += Real(w_({2, c})) * x_({n_, l + dilation_, c});
    return sum;
  }

  const Dense &x_, &w_;
  int64_t length_, channels_, dilation_, n_;
  Real count_, sum_, rstd_;
  std::vector<Real> conv_;
};

void y_value(const std::vector<Dense>& in, const Dims& dims, const Extents& at, ExactSum& result) {
  result.add(Example(in[kX], in[kW], dims, at[0]).y(at[1], at[2]));
}

void dx_value(const std::vector<Dense>& in, const Dims& dims, const Extents& at, ExactSum& result) {
  const Dense &dy = in[grad::kDy], &x = in[grad::kX], &w = in[grad::kW];
  const int64_t l = at[1], c = at[2], d = dims[kDilation];
  const std::vector<Real> dconv = Example(x, w, dims, at[0]).gradient(dy);
  const auto by = [&](int64_t row, int64_t tap) {
    return dconv[static_cast<size_t>(row * dims[kC] + c)] * w({tap, c});
  };
  Real sum = by(l, 1);
  if (l >= d) sum += by(l - d, 2);
  if (l < dims[kL] - d) sum += by(l + d, 0);
  result.add(sum);
}

void dw_value(const std::vector<Dense>& in, const Dims& dims, const Extents& at, ExactSum& result) {
  const Dense &dy = in[grad::kDy], &x = in[grad::kX], &w = in[grad::kW];
  const int64_t tap = at[0], c = at[1], d = dims[kDilation];
  Real sum;
  for (int64_t n = 0; n < dims[kN]; ++n) {
    const std::vector<Real> dconv = Example(x, w, dims, n).gradient(dy);
    for (int64_t l = 0; l < dims[kL]; ++l) {
      const int64_t from = tap == 0 ? l - d : tap == 1 ? l : l + d;
      if (from < 0 || from >= dims[kL]) continue;
      sum += dconv[static_cast<size_t>(l * dims[kC] + c)] * x({n, from, c});
    }
  }
  result.add(sum);
}

Real gelu(const Real& z) {
  const Real cubic = z + Real(44715) / Real(1000000) * z * z * z;
  return z / Real(2) * (Real(1) + tanh(sqrt(Real(2) / Real::pi()) * cubic));
}

void out_value(const std::vector<Dense>& in, const Dims& dims, const Extents& at, ExactSum& result) {
  const Dense &x = in[kX], &w1 = in[kW1], &w2 = in[kW2];
  result.add(Real(x(at)));
  if (dims[kHidden] == 0) return;
  const Example example(x, in[kW], dims, at[0]);
  Real sum;
  for (int64_t h = 0; h < dims[kHidden]; ++h) {
    Real z;
    for (int64_t c = 0; c < dims[kC]; ++c) z += example.y(at[1], c) * w1({h, c});
    sum += gelu(z) * w2({at[2], h});
  }
  result.add(Real(15) / Real(100) * sum);
}

}  // namespace

std::vector<test::Audit> audits() {
  return {{"cheri_conv_norm", {y_value}},
          {"cheri_conv_norm_grad", {dx_value, dw_value}},
          {"cheri_block", {out_value}}};
}

}  // namespace assay::cheri
