// SPDX-License-Identifier: Apache-2.0
// trimul in 1600 bits, each output from the inputs alone. Differences from a mean are taken as
// count * value - sum, so that what is 0 is exactly 0.
#include "oracles/core/self/audit.h"

#include <cstring>
#include <vector>

#include "kernels/trimul/trimul.h"

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

// All elements of the output, row-major.
class Formula {
 public:
  Formula(const std::vector<Dense>& in, const Dims& dims)
      : in_(in), dims_(dims), nodes_(dims[kN]), hidden_(dims[kH]) {}

  std::vector<Real> out() const {
    std::vector<Real> result;
    for (int64_t b = 0; b < dims_[kB]; ++b) {
      const std::vector<Real> left = factor(b, kLeftProj, kLeftGate),
                              right = factor(b, kRightProj, kRightGate);
      for (int64_t i = 0; i < nodes_; ++i) {
        for (int64_t j = 0; j < nodes_; ++j) {
          std::vector<Real> hidden;
          for (int64_t h = 0; h < hidden_; ++h) {
            Real sum;
            for (int64_t k = 0; k < nodes_; ++k) sum += left[at(i, k, h)] * right[at(j, k, h)];
            hidden.push_back(sum);
          }
          append(b, i, j, hidden, result);
        }
      }
    }
    return result;
  }

 private:
  size_t at(int64_t i, int64_t k, int64_t h) const {
    return static_cast<size_t>((i * nodes_ + k) * hidden_ + h);
  }

  // The channels of one edge.
  void append(int64_t b, int64_t i, int64_t j, const std::vector<Real>& hidden, std::vector<Real>& to) const {
    std::vector<Real> z;
    if (hidden_ > 0) z = layer_norm(hidden, in_[kToOutNormWeight], in_[kToOutNormBias]);
    const std::vector<Real> xn = normalised(b, i, j);
    for (size_t h = 0; h < z.size(); ++h) z[h] = z[h] * sigmoid(dot(kOutGate, static_cast<int64_t>(h), xn));
    for (int64_t c = 0; c < dims_[kC]; ++c) to.push_back(dot(kToOut, c, z));
  }

  std::vector<Real> normalised(int64_t b, int64_t i, int64_t k) const {
    std::vector<Real> x;
    for (int64_t c = 0; c < dims_[kC]; ++c) x.push_back(Real(in_[kX]({b, i, k, c})));
    return layer_norm(x, in_[kNormWeight], in_[kNormBias]);
  }

  Real dot(Input weight, int64_t row, const std::vector<Real>& values) const {
    Real sum;
    for (size_t i = 0; i < values.size(); ++i) sum += values[i] * in_[weight]({row, static_cast<int64_t>(i)});
    return sum;
  }

  std::vector<Real> factor(int64_t b, Input projection, Input gate) const {
    std::vector<Real> result;
    for (int64_t i = 0; i < nodes_; ++i) {
      for (int64_t k = 0; k < nodes_; ++k) {
        const std::vector<Real> xn = normalised(b, i, k);
        for (int64_t h = 0; h < hidden_; ++h) {
          Real value = dot(projection, h, xn) * sigmoid(dot(gate, h, xn));
          if (dims_[kM] == 1) value = value * in_[kMask]({b, i, k, 0});
          result.push_back(value);
        }
      }
    }
    return result;
  }

  const std::vector<Dense>& in_;
  const Dims& dims_;
  int64_t nodes_, hidden_;
};

// Every element of the inputs: what the output depends on.
std::vector<double> elements_of(const std::vector<Dense>& in, const Dims& dims) {
  const int64_t b = dims[kB], n = dims[kN], c = dims[kC], h = dims[kH];
  const Extents shapes[] = {
      {b, n, n, c}, {b, n, n, dims[kM]}, {c}, {c}, {h, c}, {h, c}, {h, c}, {h, c}, {h, c}, {h}, {h}, {c, h}};
  std::vector<double> elements;
  for (size_t tensor = 0; tensor < in.size(); ++tensor) {
    for (int64_t i = 0; i < element_count(shapes[tensor]); ++i) {
      elements.push_back(in[tensor](index_of(i, shapes[tensor])));
    }
  }
  return elements;
}

// All outputs share most of the work, so those of the last inputs are kept.
void out_value(const std::vector<Dense>& in, const Dims& dims, const Extents& at, ExactSum& result) {
  static std::vector<double> inputs;
  static Dims sizes;
  static std::vector<Real> outputs;
  const std::vector<double> now = elements_of(in, dims);
  const bool is_same = sizes == dims && now.size() == inputs.size() &&
                       std::memcmp(now.data(), inputs.data(), now.size() * sizeof(double)) == 0;
  if (!is_same) {
    inputs = now;
    sizes = dims;
    outputs = Formula(in, dims).out();
  }
  const Extents shape{dims[kB], dims[kN], dims[kN], dims[kC]};
  result.add(outputs[static_cast<size_t>(offset_of(at, dense_strides(shape)))]);
}

}  // namespace

std::vector<test::Audit> audits() {
  return {{"trimul", {out_value}}};
}

}  // namespace assay::trimul
