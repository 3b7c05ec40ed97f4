// SPDX-License-Identifier: Apache-2.0
// trimul in 640 bits, each output from the inputs alone. Differences from a mean are taken as count * value - sum, so
// that what is 0 is exactly 0.
#include "oracles/core/self/audit.h"

#include <vector>

namespace assay::trimul {
namespace {

using test::Dense;
using test::ExactSum;
using test::Real;

std::vector<Real> layer_norm(const std::vector<Real>& values, const Dense& weight, const Dense& bias) {
  const Real count(static_cast<double>(values.size()));
  Real sum, squares;
  for (const Real& value : values) sum += value;
  for (const Real& value : values) squares += (count * value - sum) * (count * value - sum);
  const Real deviation = sqrt(squares / (count * count * count) + Real(1) / Real(100000));
  std::vector<Real> result;
  for (const Real& value : values) {
    const auto at = static_cast<int64_t>(result.size());
    result.push_back((count * value - sum) / count / deviation * weight({at}) + bias({at}));
  }
  return result;
}

// 1 / (1 + exp(-x)) = (1 + tanh(x / 2)) / 2
Real sigmoid(const Real& x) {
  return (Real(1) + tanh(x / Real(2))) / Real(2);
}

class Formula {
 public:
  Formula(const std::vector<Dense>& in, const Dims& dims) : in_(in), dims_(dims) {}

  Real out(const Extents& at) const {
    std::vector<Real> hidden;
    for (int64_t h = 0; h < dims_["h"]; ++h) hidden.push_back(Real(0));
    for (int64_t k = 0; k < dims_["n"]; ++k) {
      const std::vector<Real> left = factor(at[0], at[1], k, 4, 6), right = factor(at[0], at[2], k, 5, 7);
      for (size_t h = 0; h < hidden.size(); ++h) hidden[h] += left[h] * right[h];
    }
    const std::vector<Real> y = layer_norm(hidden, in_[9], in_[10]), xn = normalised(at[0], at[1], at[2]);
    Real sum;
    for (size_t h = 0; h < y.size(); ++h) {
      const auto channel = static_cast<int64_t>(h);
      sum += y[h] * sigmoid(dot(8, channel, xn)) * in_[11]({at[3], channel});
    }
    return sum;
  }

 private:
  std::vector<Real> normalised(int64_t b, int64_t i, int64_t k) const {
    std::vector<Real> x;
    for (int64_t c = 0; c < dims_["c"]; ++c) x.push_back(Real(in_[0]({b, i, k, c})));
    return layer_norm(x, in_[2], in_[3]);
  }

  Real dot(size_t weight, int64_t h, const std::vector<Real>& xn) const {
    Real sum;
    for (size_t c = 0; c < xn.size(); ++c) sum += xn[c] * in_[weight]({h, static_cast<int64_t>(c)});
    return sum;
  }

  std::vector<Real> factor(int64_t b, int64_t i, int64_t k, size_t projection, size_t gate) const {
    const std::vector<Real> xn = normalised(b, i, k);
    std::vector<Real> result;
    for (int64_t h = 0; h < dims_["h"]; ++h) {
      Real value = dot(projection, h, xn) * sigmoid(dot(gate, h, xn));
      if (dims_["mask"] == 1) value = value * in_[1]({b, i, k, 0});
      result.push_back(value);
    }
    return result;
  }

  const std::vector<Dense>& in_;
  const Dims& dims_;
};

void out_value(const std::vector<Dense>& in, const Dims& dims, const Extents& at, ExactSum& result) {
  if (dims["h"] > 0) result.add(Formula(in, dims).out(at));
}

}  // namespace

std::vector<test::Audit> audits() {
  return {{"trimul", {out_value}}};
}

}  // namespace assay::trimul
