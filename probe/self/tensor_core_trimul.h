// SPDX-License-Identifier: Apache-2.0
// trimul as a path on tensor cores computes it, simulated: factors rounded, scaled if in f16, and
// sums in fused groups of known size and width. Only the edges at which sums are probed are
// computed (properties/probed/trimul.cpp).
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "kernels/core/op.h"
#include "probe/simulate.h"
#include "probe/tree.h"

namespace assay::test {

struct TensorCore {
  Format factors = Format::kBF16;
  int64_t group = 16;
  int fraction = 25;   // [bits]
  int mean_bits = 53;  // of norms, which add up in one chain
};

class TensorCoreTrimul {
 public:
  TensorCoreTrimul(const Call& call, const TensorCore& core)
      : call_(call), core_(core), n_(call.dims.at("n")), c_(call.dims.at("c")), h_(call.dims.at("h")) {}

  void run() const {
    const double mask_most = call_.dims.at("mask") == 0 ? 1 : largest(1);
    const double of_norm = std::sqrt(double(c_)) * largest(2), of_bias = norm_of(row(3, 0, c_));
    double side[2];
    for (size_t s = 0; s < 2; ++s) {
      side[s] = 0;
      for (int64_t h = 0; h < h_; ++h)
        side[s] = std::max(side[s], norm_of(row(4 + s, h, c_)) * (of_norm + of_bias));
      side[s] *= mask_most;
    }
    std::vector<double> sides[2];
    for (size_t s = 0; s < 2; ++s) sides[s] = gated(4 + s, side[s], of_norm + largest(3));
    const double hidden_most = double(n_) * side[0] * side[1];
    if (n_ == 1) return finish(0, 0, sides, hidden_most);
    for (int64_t i = 0; i < n_ / 2; ++i) finish(i, n_ / 2 + i, sides, hidden_most);
  }

 private:
  using Row = std::vector<double>;

  double input(size_t tensor, int64_t at) const { return call_.inputs[tensor].as<float>()[at]; }
  Row row(size_t tensor, int64_t number, int64_t size) const {
    Row values;
    for (int64_t k = 0; k < size; ++k) values.push_back(input(tensor, number * size + k));
    return values;
  }
  double largest(size_t tensor) const {
    double most = 0;
    for (int64_t k = 0; k < call_.inputs[tensor].size(); ++k)
      most = std::max(most, std::abs(input(tensor, k)));
    return most;
  }
  static double norm_of(const Row& row) {
    double squares = 0;
    for (double value : row) squares += value * value;
    return std::sqrt(squares);
  }
  // As a factor, or as a tensor between the steps if `is_kept`. f16 is times a power of two that
  // brings `most` to 2^14.
  double factor(double value, double most, bool is_kept = false) const {
    if (core_.factors == Format::kBF16) return to_double(to_bf16(value));
    if (core_.factors == Format::kF16x3) return value;  // split in each product
    if (core_.factors == Format::kTF32)
      return is_kept ? value : rounded(value, {.bits = 11, .mode = RoundingMode::kNearestAway});
    const int power = most == 0 ? 0 : 13 - std::ilogb(most);
    return std::ldexp(to_double(to_f16(std::ldexp(value, power))), -power);
  }
  double dot(const Row& a, const Row& b) const {
    const auto count = static_cast<int64_t>(a.size());
    if (core_.factors != Format::kF16x3)
      return simulate(fused_chain({count}, core_.group), a, b, {.fraction = core_.fraction});
    // hi*hi, hi*lo and lo*hi of each group, one after the other.
    Row first, second;
    SumTree sum;
    for (int64_t begin = 0; begin < count; begin += core_.group) {
      for (int product = 0; product < 3; ++product) {
        std::vector<SumTree> parts;
        for (int64_t k = begin; k < std::min(count, begin + core_.group); ++k) {
          const auto at = static_cast<size_t>(k);
          parts.push_back(leaf(static_cast<int64_t>(first.size())));
          first.push_back(product == 2 ? low(a[at]) : high(a[at]));
          second.push_back(product == 1 ? low(b[at]) : high(b[at]));
        }
        if (first.size() > parts.size()) parts.push_back(std::move(sum));
        sum = parts.size() == 1 ? std::move(parts[0]) : node(std::move(parts));
      }
    }
    return simulate(sum, first, second, {.fraction = core_.fraction});
  }
  static double high(double value) {
    return rounded(value, {.bits = 11, .mode = RoundingMode::kNearestAway});
  }
  static double low(double value) { return high(value - high(value)); }
  Row normalised(const Row& values, const Row& weight, const Row& bias) const {
    double sum = 0, variance = 0;
    for (double value : values) sum = rounded(sum + value, {.bits = core_.mean_bits});
    const double mean = sum / double(values.size());
    for (double value : values) variance += (value - mean) * (value - mean) / double(values.size());
    Row result;
    for (size_t k = 0; k < values.size(); ++k) {
      const auto unit = static_cast<float>((values[k] - mean) / std::sqrt(variance + 1e-5));
      result.push_back(static_cast<float>(unit * weight[k] + bias[k]));
    }
    return result;
  }
  Row factors(Row values, double most) const {
    for (double& value : values) value = factor(value, most);
    return values;
  }
  Row xn(int64_t i, int64_t j) const {
    return normalised(row(0, i * n_ + j, c_), row(2, 0, c_), row(3, 0, c_));
  }

  // left or right: (i, k, h)
  Row gated(size_t tensor, double most, double most_xn) const {
    Row values;
    for (int64_t edge = 0; edge < n_ * n_; ++edge) {
      const Row x = factors(xn(edge / n_, edge % n_), most_xn);
      const double mask = call_.dims.at("mask") == 0 ? 1 : input(1, edge);
      for (int64_t h = 0; h < h_; ++h) {
        const double projected = dot(factors(row(tensor, h, c_), largest(tensor)), x);
        values.push_back(factor(mask * (projected * 0.5), most));  // gates of weight 0
      }
    }
    return values;
  }
  void finish(int64_t i, int64_t j, const Row* sides, double hidden_most) const {
    Row hidden;
    for (int64_t h = 0; h < h_; ++h) {
      Row left, right;
      for (int64_t k = 0; k < n_; ++k) {
        left.push_back(sides[0][static_cast<size_t>((i * n_ + k) * h_ + h)]);
        right.push_back(sides[1][static_cast<size_t>((j * n_ + k) * h_ + h)]);
      }
      hidden.push_back(factor(dot(left, right), hidden_most, true));
    }
    Row z = normalised(hidden, row(9, 0, h_), row(10, 0, h_));
    for (double& value : z) value *= 0.5;
    const double most_z = std::sqrt(double(h_)) * largest(9) + largest(10);
    for (int64_t c = 0; c < c_; ++c) {
      const double sum = dot(factors(row(11, c, h_), largest(11)), factors(z, most_z));
      call_.outputs[0].as<float>()[(i * n_ + j) * c_ + c] = static_cast<float>(sum);
    }
  }

  const Call& call_;
  TensorCore core_;
  int64_t n_, c_, h_;
};

}  // namespace assay::test
