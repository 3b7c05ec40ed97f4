// SPDX-License-Identifier: Apache-2.0
// Oracle of trimul: the formula of the contract (kernels/trimul/trimul.h) over an Arithmetic.
//
// What a recipe does at its sites (site::) stands in the contract, also A. left and right are
// rounded as mask * (p * sigmoid(g)), the gate as the sigmoid alone, z as y * gate.
#include "kernels/trimul/trimul.h"

#include <algorithm>

#include "oracles/core/formula.h"

namespace assay::trimul {
namespace {

enum Fault : int { kMaskIgnored = 1, kRightTransposed, kGatesSwapped, kGateOfAnother, kOneEdgeLarger };

enum Stage : int { kNormIn, kProject, kGate, kContract, kStoreHidden, kNormOut, kGateOut, kProjectOut };
const std::vector<std::string_view> kStages{"norm_in",        "projections", "gates",    "contraction",
                                            "hidden_storage", "norm_out",    "out_gate", "out_projection"};

// The largest of the finite values, and the norm of their vector.
struct Size {
  explicit Size(std::span<const double> values) {
    for (double value : values) {
      if (!std::isfinite(value)) continue;
      largest = std::max(largest, std::abs(value));
      norm = std::hypot(norm, value);
    }
  }

  double largest = 0, norm = 0;
};

// The weights of a product as factors, (rows, columns).
struct Matrix {
  Matrix(const ConstTensorView& view, const Arithmetic& a, const Rounding& to_weights)
      : columns(static_cast<size_t>(view.shape[1])) {
    const std::vector<double> stored = Reader(view).all();
    const double lost = std::ldexp(Size(stored).largest, -38);
    for (double w : stored) {
      const Ball factor = a.round(to_weights, {w}, lost);
      // A finite weight that is infinite as a factor makes an infinity or a NaN of out.
      values.push_back(std::isfinite(w) && !std::isfinite(factor.mid) ? Ball::open() : factor);
    }
    for (size_t i = 0; i < stored.size(); i += columns)
      largest_norm = std::max(largest_norm, Size(std::span(stored).subspan(i, columns)).norm);
  }
  Row row(size_t i) const { return values.row(i * columns, columns); }

  Balls values;
  size_t columns;
  double largest_norm = 0;  // of a row
};

struct Norm {
  Norm(const ConstTensorView& weight, const ConstTensorView& bias)
      : weight(Reader(weight).all()), bias(Reader(bias).all()) {
    const Size of_weight(Reader(weight).all()), of_bias(Reader(bias).all());
    const double scaled = std::sqrt(static_cast<double>(weight.shape[0])) * of_weight.largest;
    largest = scaled + of_bias.largest;
    norm = scaled + of_bias.norm;
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
        hidden_(static_cast<size_t>(q.dims[kH])),
        norm_(q.inputs[kNormWeight], q.inputs[kNormBias]),
        to_norm_(q.inputs[kToOutNormWeight], q.inputs[kToOutNormBias]),
        projections_{matrix(kLeftProj, kProject), matrix(kRightProj, kProject)},
        gates_{matrix(kLeftGate, kProject), matrix(kRightGate, kProject)},
        out_gate_(matrix(kOutGate, kGateOut)),
        to_out_(matrix(kToOut, kProjectOut)),
        xn_(keeps_xn_ ? q.dims[kB] * q.dims[kN] * q.dims[kN] : 0,
            [this](int64_t at) { return normalised(at); }),
        left_(q.dims[kB] * q.dims[kN], [this](int64_t edge) { return side(0, edge); }),
        right_(q.dims[kB] * q.dims[kN], [this](int64_t edge) { return side(1, edge); }) {
    if (fault == kGatesSwapped) std::swap(projections_, gates_);
    const double largest_mask = q.dims[kM] == 0 ? 1 : Size(Reader(q.inputs[kMask]).all()).largest;
    for (int side = 0; side < 2; ++side)
      largest_side_[side] = projections_[side].largest_norm * norm_.norm * largest_mask;
  }

  // out[b,i,j,c] of an edge's z
  Ball out(const Extents& edge, const Balls& z, size_t c) const {
    Ball value = a_.at(kProjectOut).dot(to_out_.row(c), z.row(), update_);
    if (fault_ == kOneEdgeLarger && edge == Extents{0, 0, 0}) value.mid *= 1.5;
    return value;
  }

  // z[b,i,j,:] as factors
  Balls z(const Extents& edge) const {
    const int64_t b = edge[0], i = edge[1], j = edge[2], first_node = b * q_.dims[kN];
    const Balls &left = left_[first_node + i], &right = right_[first_node + j];
    const double largest_hidden = static_cast<double>(nodes_) * largest_side_[0] * largest_side_[1];
    Balls hidden(hidden_), z(hidden_);
    for (size_t h = 0; h < hidden_; ++h) {
      const Ball sum =
          a_.at(kContract).dot(left.row(h * nodes_, nodes_), right.row(h * nodes_, nodes_), contraction_);
      hidden.set(h, a_.at(kStoreHidden).round(to_hidden_, sum, std::ldexp(largest_hidden, -37)));
    }
    a_.at(kNormOut).layer_norm(hidden.row(), to_norm_.weight.row(), to_norm_.bias.row(), kEpsilon,
                               to_hidden_.format != Format::kStored, z);
    const Balls xn = factors_of((first_node + i) * q_.dims[kN] + j);
    const Arithmetic& gating = a_.at(kGateOut);
    for (size_t h = 0; h < hidden_; ++h) {
      const Ball gate = gating.sigmoid(gating.dot(out_gate_.row(h), xn.row(), projecting_));
      const Ball y = held(to_z_, z[h], to_norm_.weight[h], to_norm_.bias[h]);
      const Ball gated = gating.multiply(y, gating.round(to_gate_, gate, 0x1p-38));
      z.set(h, a_.at(kProjectOut).round(to_z_, gated, std::ldexp(to_norm_.largest, -38)));
    }
    return z;
  }

 private:
  Matrix matrix(Input input, Stage stage) const {
    return {q_.inputs[input], a_.at(stage), q_.recipe.rounding(site::kWeights)};
  }

  // What is infinite in f32, though it is made of finite a and b, may be finite as a scaled factor.
  static Ball held(const Rounding& to, const Ball& value, const Ball& a, const Ball& b) {
    const bool overflows = std::isinf(value.mid) && a.is_finite() && b.is_finite();
    return to.is_scaled && overflows ? Ball::open() : value;
  }

  // xn[b,i,k,:] of edge number `at` as factors
  Balls factors_of(int64_t at) const { return keeps_xn_ ? xn_[at] : normalised(at); }
  Balls normalised(int64_t at) const {
    const Balls x(Reader(q_.inputs[kX]).all(index_of(at, {q_.dims[kB], q_.dims[kN], q_.dims[kN]})));
    Balls xn(x.size());
    a_.at(kNormIn).layer_norm(x.row(), norm_.weight.row(), norm_.bias.row(), kEpsilon, false, xn);
    const double lost = std::ldexp(norm_.largest, -38);
    for (size_t c = 0; c < xn.size(); ++c)
      xn.set(c, a_.at(kProject).round(to_xn_, held(to_xn_, xn[c], norm_.weight[c], norm_.bias[c]), lost));
    return xn;
  }

  // left[b,i,k,h], or right, for all k and h: (H, N), k innermost.
  Balls side(size_t which, int64_t first_node) const {
    const int64_t b = first_node / q_.dims[kN], i = first_node % q_.dims[kN];
    const bool has_mask = q_.dims[kM] != 0 && fault_ != kMaskIgnored;
    const Matrix &projection = projections_[which], &gate = gates_[which];
    const Arithmetic &project = a_.at(kProject), &gating = a_.at(kGate);
    const double lost = std::ldexp(largest_side_[which], -38);
    Balls values(hidden_ * nodes_);
    for (size_t k = 0; k < nodes_; ++k) {
      Extents edge{b, i, static_cast<int64_t>(k)};
      if (which == 1 && fault_ == kRightTransposed) std::swap(edge[1], edge[2]);
      const Balls xn = factors_of((b * q_.dims[kN] + edge[1]) * q_.dims[kN] + edge[2]);
      const Ball mask = has_mask ? Reader(q_.inputs[kMask])({b, edge[1], edge[2], 0}) : Ball{1};
      for (size_t h = 0; h < hidden_; ++h) {
        const size_t gate_of = fault_ == kGateOfAnother && h == 0 ? hidden_ - 1 : h;
        const Ball p = project.dot(projection.row(h), xn.row(), projecting_);
        const Ball g = project.dot(gate.row(gate_of), xn.row(), projecting_);
        const Ball gated = gating.multiply(mask, gating.multiply(p, gating.sigmoid(g)));
        values.set(h * nodes_ + k, a_.at(kContract).round(to_sides_, held(to_sides_, gated, p, mask), lost));
      }
    }
    return values;
  }

  const Question& q_;
  const Arithmetic& a_;
  int fault_;
  const Rounding to_xn_ = q_.recipe.rounding(site::kXn), to_sides_ = q_.recipe.rounding(site::kSides),
                 to_hidden_ = q_.recipe.rounding(site::kHidden), to_gate_ = q_.recipe.rounding(site::kGate),
                 to_z_ = q_.recipe.rounding(site::kZ);
  const Sum projecting_ = q_.recipe.sum(site::kProjections), contraction_ = q_.recipe.sum(site::kContraction),
            update_ = q_.recipe.sum(site::kUpdate);
  size_t nodes_, hidden_;
  Norm norm_, to_norm_;
  Matrix projections_[2], gates_[2], out_gate_, to_out_;
  double largest_side_[2];  // A of left and right
  const bool keeps_xn_ = q_.inputs[kX].size() <= 1 << 24;
  Lazy<Balls> xn_, left_, right_;  // of all edges; of the first nodes of all examples
};

Evaluate formula(const Question& question, int, const Arithmetic& arithmetic, int fault) {
  if (fault == kMaskIgnored && question.dims[kM] == 0) return {};
  const auto of = std::make_shared<const Formula>(question, arithmetic, fault);
  return each_row(question, arithmetic.at(kProjectOut), question.inputs[kX].shape, [of](const Extents& edge) {
    return [of, edge, z = of->z(edge)](size_t c) { return of->out(edge, z, c); };
  });
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
