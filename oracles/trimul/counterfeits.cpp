// SPDX-License-Identifier: Apache-2.0
// trimul with a fault: values alone.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <utility>

#include "kernels/trimul/trimul.h"
#include "oracles/core/read.h"
#include "oracles/trimul/stages.h"

namespace assay::trimul::oracle {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// left or right of one first node.
struct Side {
  std::once_flag once;
  bool is_nan = false;
  std::vector<double> value;  // (H, N), the second node innermost
};

class Faulty {
 public:
  Faulty(const Question& question, Fault fault)
      : question_(question),
        fault_(fault),
        nodes_(question.dims[kN]),
        channels_(question.dims[kC]),
        hidden_(question.dims[kH]),
        norm_weight_(Reader(question.inputs[kNormWeight]).all()),
        norm_bias_(Reader(question.inputs[kNormBias]).all()),
        out_norm_weight_(Reader(question.inputs[kToOutNormWeight]).all()),
        out_norm_bias_(Reader(question.inputs[kToOutNormBias]).all()),
        left_(question.inputs[kLeftProj]),
        left_gate_(question.inputs[kLeftGate]),
        right_(question.inputs[kRightProj]),
        right_gate_(question.inputs[kRightGate]),
        out_gate_(question.inputs[kOutGate]),
        to_out_(question.inputs[kToOut]),
        lefts_(static_cast<size_t>(question.dims[kB] * nodes_)),
        rights_(static_cast<size_t>(question.dims[kB] * nodes_)) {
    if (fault_ == Fault::kProjectionsAndGatesSwapped) {
      std::swap(left_, left_gate_);
      std::swap(right_, right_gate_);
    }
  }

  // Whether the fault makes no difference on this data.
  bool is_harmless() const {
    // Two normalised values are +-1, nearly whatever they were before.
    if (hidden_ <= 2) return true;
    switch (fault_) {
      case Fault::kMaskIgnored:
        return !mask_matters();
      case Fault::kRightTransposed:
        return nodes_ <= 1;
      case Fault::kProjectionsAndGatesSwapped:
        return left_.values == left_gate_.values && right_.values == right_gate_.values;
    }
    throw Error("Fault({}) is not a fault", static_cast<int>(fault_));
  }

  void answer(std::span<const int64_t> elements, std::span<Expected> expected) const {
    int64_t edge = -1;
    std::vector<double> z;
    for (size_t e = 0; e < elements.size(); ++e) {
      if (elements[e] / channels_ != edge) {
        edge = elements[e] / channels_;
        z = finish(edge / nodes_ / nodes_, edge / nodes_ % nodes_, edge % nodes_);
      }
      expected[e] = {.value = product(to_out_, elements[e] % channels_, z), .bound = 0, .variance = 0};
    }
  }

 private:
  // Masks that are alike change little but the scale of hidden, which its norm takes away.
  bool mask_matters() const {
    double least = HUGE_VAL, most = 0;
    for (int64_t b = 0; b < question_.dims[kB]; ++b) {
      for_mask(question_, b, [&](double m) {
        least = std::min(least, std::abs(m));
        most = std::max(most, std::abs(m));
      });
    }
    return nodes_ > 1 && most >= 2 * least;
  }

  static double product(const Projection& w, int64_t row, const std::vector<double>& factors) {
    const double* weights = &w.values[static_cast<size_t>(row * w.columns)];
    double sum = 0;
    for (size_t k = 0; k < factors.size(); ++k) sum += weights[k] * factors[k];
    return sum;
  }

  static void normalise(std::vector<double>& values, const std::vector<double>& weight,
                        const std::vector<double>& bias) {
    const Statistics s = statistics_of(values.data(), static_cast<int64_t>(values.size()));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = (values[i] - s.mean) / s.sigma * weight[i] + bias[i];
  }

  // Of one edge; NaN if x has an infinity or a NaN.
  std::vector<double> xn(int64_t b, int64_t i, int64_t k) const {
    std::vector<double> values = edge_of(question_, b, i, k);
    if (!std::ranges::all_of(values, [](double x) { return std::isfinite(x); }))
      std::ranges::fill(values, kNan);
    normalise(values, norm_weight_, norm_bias_);
    return values;
  }

  void fill(Side& side, int64_t b, int64_t i, bool is_right) const {
    const Projection& proj = is_right ? right_ : left_;
    const Projection& gates = is_right ? right_gate_ : left_gate_;
    const bool is_transposed = is_right && fault_ == Fault::kRightTransposed;
    side.value.assign(static_cast<size_t>(hidden_ * nodes_), 0);
    for (int64_t k = 0; k < nodes_; ++k) {
      const int64_t first = is_transposed ? k : i, second = is_transposed ? i : k;
      const std::vector<double> factors = xn(b, first, second);
      const double m = fault_ == Fault::kMaskIgnored ? 1 : mask_of(question_, b, first, second);
      for (int64_t h = 0; h < hidden_; ++h) {
        const double p = product(proj, h, factors), g = product(gates, h, factors);
        side.is_nan |= !std::isfinite(p) || std::isnan(g) || !std::isfinite(m);
        if (side.is_nan) return;
        side.value[static_cast<size_t>(h * nodes_ + k)] = p * sigmoid(g) * m;
      }
    }
  }
  const Side& side(std::vector<Side>& sides, int64_t b, int64_t i, bool is_right) const {
    Side& wanted = sides[static_cast<size_t>(b * nodes_ + i)];
    std::call_once(wanted.once, [&] { fill(wanted, b, i, is_right); });
    return wanted;
  }

  // z of one edge.
  std::vector<double> finish(int64_t b, int64_t i, int64_t j) const {
    const auto n = static_cast<size_t>(nodes_);
    std::vector<double> z(static_cast<size_t>(hidden_), kNan);
    const Side &left = side(lefts_, b, i, false), &right = side(rights_, b, j, true);
    if (left.is_nan || right.is_nan) return z;
    for (size_t h = 0; h < z.size(); ++h) {
      const double *l = &left.value[h * n], *r = &right.value[h * n];
      z[h] = 0;
      for (size_t k = 0; k < n; ++k) z[h] += l[k] * r[k];
    }
    normalise(z, out_norm_weight_, out_norm_bias_);
    const std::vector<double> factors = xn(b, i, j);
    for (size_t h = 0; h < z.size(); ++h)
      z[h] *= sigmoid(product(out_gate_, static_cast<int64_t>(h), factors));
    return z;
  }

  const Question& question_;
  Fault fault_;
  int64_t nodes_, channels_, hidden_;
  std::vector<double> norm_weight_, norm_bias_, out_norm_weight_, out_norm_bias_;
  Projection left_, left_gate_, right_, right_gate_, out_gate_, to_out_;
  mutable std::vector<Side> lefts_, rights_;  // filled when they are asked for
};

}  // namespace

Solve counterfeit(Fault fault) {
  return [fault](const Question& question, int) -> Answer {
    auto solved = std::make_shared<const Faulty>(question, fault);
    if (solved->is_harmless()) return nullptr;
    return [solved](std::span<const int64_t> elements, std::span<Expected> expected) {
      solved->answer(elements, expected);
    };
  };
}

}  // namespace assay::trimul::oracle
