// SPDX-License-Identifier: Apache-2.0
#include "oracles/trimul/trimul.h"

#include <algorithm>
#include <memory>

#include "kernels/trimul/trimul.h"
#include "oracles/core/lazy.h"
#include "oracles/core/read.h"

namespace assay::trimul {
namespace {

enum Fault : int {
  kMaskIgnored = 1,
  kRightTransposed,
  kProjectionsAndGatesSwapped,
  kGateOfAnother,
  kOneEdgeLarger
};

enum Stage : int { kNormIn, kProject, kGate, kContract, kStoreHidden, kNormOut, kGateOut, kProjectOut };
const std::vector<std::string_view> kStages{"norm_in",        "projections", "gates",    "contraction",
                                            "hidden_storage", "norm_out",    "out_gate", "out_projection"};

// Second nodes whose sides are computed together, so that they are written side by side.
constexpr size_t kTogether = 8;

double largest_of(const std::vector<double>& values) {
  double largest = 0;
  for (double value : values) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  return largest;
}

// The weights of a product as factors, (rows, columns).
struct Matrix {
  Matrix(const ConstTensorView& view, const Arithmetic& a, const Rounding& to_weights)
      : columns(static_cast<size_t>(view.shape[1])) {
    const std::vector<double> stored = Reader(view).all();
    const double largest = largest_of(stored);
    for (double w : stored) {
      const Ball factor = a.round(to_weights, {w}, std::ldexp(largest, -38));
      // A finite weight that is infinite as a factor makes an infinity or a NaN of out.
      values.push_back(std::isfinite(w) && !std::isfinite(factor.mid) ? Ball::open() : factor);
    }
    for (size_t i = 0; columns > 0 && i < stored.size(); i += columns) {
      double squares = 0;
      for (size_t c = i; c < i + columns; ++c)
        squares += std::isfinite(stored[c]) ? stored[c] * stored[c] : 0;
      largest_norm = std::max(largest_norm, std::sqrt(squares));
    }
  }
  Row row(size_t i) const { return values.row(i * columns, columns); }

  Balls values;
  size_t columns;
  double largest_norm = 0;  // of a row
};

struct Norm {
  Norm(const ConstTensorView& weight, const ConstTensorView& bias)
      : weight(Reader(weight).all()), bias(Reader(bias).all()) {
    const double root = std::sqrt(static_cast<double>(weight.shape[0]));
    const double largest_weight = largest_of(Reader(weight).all());
    largest = root * largest_weight + largest_of(Reader(bias).all());
    double squares = 0;
    for (double b : Reader(bias).all()) squares += std::isfinite(b) ? b * b : 0;
    norm = root * largest_weight + std::sqrt(squares);
  }

  Balls weight, bias;
  double largest;  // A of its results
  double norm;     // what their vector's norm is at most
};

class Formula {
 public:
  Formula(const Question& q, const Arithmetic& a, int fault)
      : q_(q),
        a_(a),
        fault_(fault),
        nodes_(static_cast<size_t>(q.dims[kN])),
        channels_(static_cast<size_t>(q.dims[kC])),
        hidden_(static_cast<size_t>(q.dims[kH])),
        norm_(q.inputs[kNormWeight], q.inputs[kNormBias]),
        to_norm_(q.inputs[kToOutNormWeight], q.inputs[kToOutNormBias]),
        projections_{matrix(kLeftProj, kProject), matrix(kRightProj, kProject)},
        gates_{matrix(kLeftGate, kProject), matrix(kRightGate, kProject)},
        out_gate_(matrix(kOutGate, kGateOut)),
        to_out_(matrix(kToOut, kProjectOut)),
        left_(q.dims[kB] * q.dims[kN], [this](int64_t edge) { return side(0, edge); }),
        right_(q.dims[kB] * q.dims[kN], [this](int64_t edge) { return side(1, edge); }) {
    if (fault == kProjectionsAndGatesSwapped) std::swap(projections_, gates_);
    const double largest_mask = q.dims[kM] == 0 ? 1 : largest_of(Reader(q.inputs[kMask]).all());
    for (int side = 0; side < 2; ++side)
      largest_side_[side] = projections_[side].largest_norm * norm_.norm * largest_mask;
  }

  void evaluate(std::span<const int64_t> elements, std::span<Ball> values) const {
    const Arithmetic& project_out = a_.at(kProjectOut);
    Balls z(hidden_);
    for (size_t e = 0, edge = SIZE_MAX; e < elements.size(); ++e) {
      const auto at = static_cast<size_t>(elements[e]);
      if (at / channels_ != edge) {
        edge = at / channels_;
        finish(edge / nodes_ / nodes_, edge / nodes_ % nodes_, edge % nodes_, z);
      }
      Ball value = project_out.dot(to_out_.row(at % channels_), z.row(), update_);
      if (fault_ == kOneEdgeLarger && edge == 0) value.mid *= 1.5;
      values[e] = project_out.round(q_.recipe.storage, value);
    }
  }

 private:
  Matrix matrix(Input input, Stage stage) const {
    return {q_.inputs[input], a_.at(stage), q_.recipe.rounding(site::kWeights)};
  }

  Ball mask(size_t b, size_t i, size_t k) const {
    if (q_.dims[kM] == 0 || fault_ == kMaskIgnored) return {1};
    return {Reader(q_.inputs[kMask])({int64_t(b), int64_t(i), int64_t(k), 0})};
  }

  // xn[b,i,k,:] as factors
  void normalise(size_t b, size_t i, size_t k, Balls& xn) const {
    const Balls x(Reader(q_.inputs[kX]).all({int64_t(b), int64_t(i), int64_t(k)}));
    a_.at(kNormIn).layer_norm(x.row(), norm_.weight.row(), norm_.bias.row(), kEpsilon, false, xn);
    const double lost = std::ldexp(norm_.largest, -38);
    for (size_t c = 0; c < channels_; ++c) xn.set(c, a_.at(kProject).round(to_xn_, xn[c], lost));
  }

  // left[b,i,k,h], or right, for all k and h: (H, N), k innermost.
  Balls side(size_t which, int64_t first_node) const {
    const size_t b = static_cast<size_t>(first_node) / nodes_, i = static_cast<size_t>(first_node) % nodes_;
    const bool is_transposed = which == 1 && fault_ == kRightTransposed;
    const Matrix &projection = projections_[which], &gate = gates_[which];
    const Arithmetic &project = a_.at(kProject), &gating = a_.at(kGate);
    const double lost = std::ldexp(largest_side_[which], -38);
    Balls values(hidden_ * nodes_);
    for (size_t k = 0; k < nodes_; k += kTogether) {
      const size_t count = std::min(kTogether, nodes_ - k);
      std::vector<Balls> xn(count, Balls(channels_));
      std::vector<Row> rows;
      std::vector<Ball> masks(count), p(count), g(count);
      for (size_t j = 0; j < count; ++j) {
        const size_t first = is_transposed ? k + j : i, second = is_transposed ? i : k + j;
        normalise(b, first, second, xn[j]);
        rows.push_back(xn[j].row());
        masks[j] = mask(b, first, second);
      }
      for (size_t h = 0; h < hidden_; ++h) {
        project.dots(projection.row(h), rows, projecting_, p);
        project.dots(gate.row(fault_ == kGateOfAnother && h == 0 ? hidden_ - 1 : h), rows, projecting_, g);
        for (size_t j = 0; j < count; ++j) {
          Ball value = gating.multiply(masks[j], gating.multiply(p[j], gating.sigmoid(g[j])));
          const bool overflows = std::isinf(value.mid) && p[j].is_finite() && masks[j].is_finite();
          if (to_sides_.is_scaled && overflows) value = Ball::open();
          values.set(h * nodes_ + k + j, a_.at(kContract).round(to_sides_, value, lost));
        }
      }
    }
    return values;
  }

  // z[b,i,j,:] as factors
  void finish(size_t b, size_t i, size_t j, Balls& z) const {
    const Balls& left = left_[static_cast<int64_t>(b * nodes_ + i)];
    const Balls& right = right_[static_cast<int64_t>(b * nodes_ + j)];
    const double largest_hidden = static_cast<double>(nodes_) * largest_side_[0] * largest_side_[1];
    Balls hidden(hidden_), xn(channels_);
    for (size_t h = 0; h < hidden_; ++h) {
      const Ball sum =
          a_.at(kContract).dot(left.row(h * nodes_, nodes_), right.row(h * nodes_, nodes_), contraction_);
      hidden.set(h, a_.at(kStoreHidden).round(to_hidden_, sum, std::ldexp(largest_hidden, -37)));
    }
    a_.at(kNormOut).layer_norm(hidden.row(), to_norm_.weight.row(), to_norm_.bias.row(), kEpsilon,
                               to_hidden_.format != Format::kStored, z);
    normalise(b, i, j, xn);
    const Arithmetic& gating = a_.at(kGateOut);
    for (size_t h = 0; h < hidden_; ++h) {
      const Ball gate = gating.sigmoid(gating.dot(out_gate_.row(h), xn.row(), projecting_));
      const Ball gated = gating.multiply(z[h], gating.round(to_gate_, gate, 0x1p-38));
      z.set(h, a_.at(kProjectOut).round(to_z_, gated, std::ldexp(to_norm_.largest, -38)));
    }
  }

  const Question& q_;
  const Arithmetic& a_;
  int fault_;
  const Rounding to_xn_ = q_.recipe.rounding(site::kXn), to_sides_ = q_.recipe.rounding(site::kSides),
                 to_hidden_ = q_.recipe.rounding(site::kHidden), to_gate_ = q_.recipe.rounding(site::kGate),
                 to_z_ = q_.recipe.rounding(site::kZ);
  const Sum projecting_ = q_.recipe.sum(site::kProjections), contraction_ = q_.recipe.sum(site::kContraction),
            update_ = q_.recipe.sum(site::kUpdate);
  size_t nodes_, channels_, hidden_;
  Norm norm_, to_norm_;
  Matrix projections_[2], gates_[2], out_gate_, to_out_;
  double largest_side_[2];    // A of left and right
  Lazy<Balls> left_, right_;  // of the first nodes of all examples
};

Evaluate formula(const Question& question, int, const Arithmetic& arithmetic, int fault) {
  if (fault == kMaskIgnored && question.dims[kM] == 0) return {};
  const auto solved = std::make_shared<const Formula>(question, arithmetic, fault);
  return [solved](std::span<const int64_t> elements, std::span<Ball> values) {
    solved->evaluate(elements, values);
  };
}

}  // namespace

std::vector<Oracle> oracles() {
  return {{.op = "trimul",
           .formula = formula,
           .faults = {"the mask is ignored", "right is read transposed", "projections and gates are swapped"},
           .slips = {"one channel has the gate of another", "one edge is half as large again"},
           .sums = {site::kProjections, site::kContraction, site::kUpdate},
           .plants = {Plant::Kind::kSigmoidOff, Plant::Kind::kEpsilonTimes10, Plant::Kind::kEpsilonOver10},
           .stages = kStages,
           .block_axes = {2},
           .doubt_axes = 2,
           .shares_rows = true}};
}

}  // namespace assay::trimul
