// SPDX-License-Identifier: Apache-2.0
#include "oracles/trimul/sides.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "kernels/core/host_memory.h"
#include "kernels/trimul/trimul.h"
#include "oracles/core/bound.h"
#include "oracles/core/read.h"
#include "oracles/trimul/alike.h"
#include "oracles/trimul/lanes.h"
#include "oracles/trimul/met_weights.h"
#include "oracles/trimul/roundings.h"

namespace assay::trimul::oracle {

Sides::Sides(const Question& question, const Units& units)
    : question_(question),
      units_(units),
      nodes_(question.dims[kN]),
      channels_(question.dims[kC]),
      hidden_(question.dims[kH]),
      columns_((static_cast<size_t>(channels_) + kLanes - 1) / kLanes * kLanes),
      norm_weight_(Reader(question.inputs[kNormWeight]).all()),
      norm_bias_(Reader(question.inputs[kNormBias]).all()),
      left_(question.inputs[kLeftProj], units.factor_bits, norm_weight_, norm_bias_),
      left_gate_(question.inputs[kLeftGate], units.factor_bits, norm_weight_, norm_bias_),
      right_(question.inputs[kRightProj], units.factor_bits, norm_weight_, norm_bias_),
      right_gate_(question.inputs[kRightGate], units.factor_bits, norm_weight_, norm_bias_),
      // Those of split factors are less than what sums lose; those of small problems are known by channel already.
      follows_weights_(units.projection_weight > 0 && !units.is_split && !has_fixed() &&
                       Roundings::affordable(question.dims) != Roundings::Extent::kAll),
      masks_(static_cast<size_t>(question.dims[kB]), 1),
      // Edges are asked for by first nodes: a left row is needed once, in each thread.
      lefts_(static_cast<size_t>(question.dims[kB] * nodes_), rows_within(1. / 16)),
      rights_(lefts_.size(), rows_within(1. / 2)),
      kappas_(lefts_.size()) {
  if (units_.is_scaled) {
    measure();
  } else {
    lost_ = {units_.lost, units_.lost, units_.lost, units_.lost, units_.lost, units_.lost};
  }
}

size_t Sides::rows_within(double part) const {
  const auto nodes = static_cast<double>(nodes_);
  double bytes = kBytesOfEntry * nodes * static_cast<double>(hidden_);
  if (follows_weights_)
    bytes += nodes *
             (kBytesFollowed * static_cast<double>(hidden_) + sizeof(float) * static_cast<double>(columns_));
  // The result may exceed the number of rows. 2^40 keeps it within int64_t.
  return static_cast<size_t>(std::min(part * available_host_memory() / std::max(bytes, 1.0), 0x1p40));
}

bool Sides::has_fixed() const {
  for (size_t c = 0; c < norm_weight_.size(); ++c) {
    if (is_fixed(c)) return true;
  }
  return false;
}

bool Sides::is_uniform() const {
  return left_.has_equal_rows() && left_gate_.has_equal_rows() && right_.has_equal_rows() &&
         right_gate_.has_equal_rows();
}

// The largest magnitudes that the inputs permit, as the contract says, and with them what f16 loses to underflow.
void Sides::measure() {
  const double c = std::sqrt(static_cast<double>(channels_));
  for (size_t b = 0; b < masks_.size(); ++b) {
    masks_[b] = 0;
    for_mask(question_, static_cast<int64_t>(b), [&](double m) {
      if (std::isfinite(m)) masks_[b] = std::max(masks_[b], std::abs(m));
    });
  }
  const auto factor = [&](const Projection& p) {
    return largest_of(p.norms) * (c * largest_of(norm_weight_) + norm_of(norm_bias_));
  };
  lost_.xn = kUnderflowF16 * (c * largest_of(norm_weight_) + largest_of(norm_bias_));
  lost_.left = kUnderflowF16 * factor(left_);
  lost_.right = kUnderflowF16 * factor(right_);
  lost_.hidden = 2 * kUnderflowF16 * static_cast<double>(nodes_) * factor(left_) * factor(right_);
}

Lost Sides::lost(int64_t b) const {
  const double mask = masks_[static_cast<size_t>(b)];
  Lost lost = lost_;
  lost.left *= mask;
  lost.right *= mask;
  lost.hidden *= mask * mask;
  return lost;
}

template <class Grown>
void Sides::grow(Edge& e, double by_itself, const Grown& grown) const {
  for (size_t c = 0; c < e.xn.size(); ++c) {
    const double factor = units_.projection_factor * std::abs(e.xn[c]), to = grown(c);
    (is_fixed(c) ? e.fixed : e.own)[c] += (to - by_itself) * square(factor);
    e.alike[c] += (std::sqrt(to) - std::sqrt(by_itself)) * factor;
  }
}

Edge Sides::edge(int64_t b, int64_t i, int64_t k) const {
  const auto count = static_cast<size_t>(channels_);
  const double n = static_cast<double>(channels_);
  Edge e;
  e.xn = edge_of(question_, b, i, k);
  for (double x : e.xn) e.is_nan |= !std::isfinite(x);
  if (e.is_nan) return e;
  const Statistics s = statistics_of(e.xn.data(), channels_);
  const double u = units_.norm_in, range = s.range;
  e.is_open = n * range >= kOverflow;
  const double own = 2 * u * range, mean_error = mean_roundings(n) * u * range;
  double size = 0;  // of deviations, on average
  for (double x : e.xn) size += std::abs(x - s.mean) / n;
  const double variance_error =
      2 * size * own + square(own + mean_error) + 2 * norm_additions(n) * u * s.variance;
  const double least = std::max(s.variance - variance_error, 0.0) + kEpsilon;
  e.rho = s.range == 0 ? 0 : s.sigma / std::sqrt(least) - 1 + 4 * u;
  // The product with 1/C underflows, and that with 1/sigma.
  const double tiny = range == 0 ? 0 : units_.tiny_in;
  e.shared = (mean_error + tiny) / s.sigma;
  e.differences = u * range / s.sigma + tiny;
  e.scaled = 3 * u * std::sqrt(n * s.variance) / s.sigma;
  e.added = u * std::sqrt(n);
  e.underflow = std::sqrt(n) * (units_.tiny_in + (units_.projection_factor > 0 ? lost_.xn : 0));
  double sum = 0;
  std::vector<double> magnitudes(count);
  e.own.resize(count);
  e.limits.resize(count);
  e.squares.resize(count);
  for (size_t c = 0; c < count; ++c) {
    const double weight = norm_weight_[c], scaled = (e.xn[c] - s.mean) / s.sigma * weight;
    const double xn = scaled + norm_bias_[c];
    e.is_open |= !std::isnan(xn) && std::max(std::abs(xn), std::abs(scaled)) >= kOverflow;
    e.is_nan |= std::isnan(xn);
    // The sign of an infinity hangs on a difference from the mean.
    if (std::isinf(weight) && std::abs(e.xn[c] - s.mean) <= own + mean_error) e.is_open = true;
    e.xn[c] = xn;
    e.squares[c] = xn * xn;
    e.limits[c] = units_.projection_factor * std::abs(xn);
    e.own[c] = square(e.limits[c]);
    if (is_fixed(c)) {
      e.fixed.resize(count);
      std::swap(e.fixed[c], e.own[c]);
    }
    sum += xn * xn;
    magnitudes[c] = std::abs(xn);
    e.signature += xn * (1 + std::sqrt(static_cast<double>(c)) / 3);
  }
  e.norm = std::sqrt(sum);
  e.repeats = std::isfinite(sum) ? most_repeats(magnitudes) : 1;
  e.alike = e.limits;
  if (units_.projection_factor > 0) {
    Alike alike(units_);
    for (double xn : e.xn) alike.add(xn);
    e.kappa = alike.kappa();
    grow(e, 1, [&](size_t) { return growth(e.kappa, e.repeats); });
  }
  return e;
}

Edge Sides::edge_of_row(int64_t b, int64_t i, int64_t k) const {
  Edge e = edge(b, i, k);
  if (units_.projection_factor == 0 || e.is_nan) return e;
  const Kappas& row = kappas(b, i);
  const double counted = e.repeats * row.repeats[static_cast<size_t>(k)];
  const double by_itself = growth(e.kappa, e.repeats);
  grow(e, by_itself, [&](size_t c) {
    return is_fixed(c) ? by_itself : std::max(by_itself, growth(std::max(row.channels[c], row.all), counted));
  });
  return e;
}

void Sides::fill(Kappas& to, int64_t b, int64_t i) const {
  std::vector<Alike> channels(static_cast<size_t>(channels_), Alike(units_));
  std::vector<double> signatures;
  for (int64_t k = 0; k < nodes_; ++k) {
    const Edge e = edge(b, i, k);
    signatures.push_back(std::abs(e.signature));
    if (e.is_nan || mask_of(question_, b, i, k) == 0) continue;
    for (size_t c = 0; c < channels.size(); ++c) channels[c].add(e.xn[c]);
  }
  to.repeats = counts_of(signatures);
  Alike all(units_);
  for (const Alike& channel : channels) {
    to.channels.push_back(channel.kappa());
    all.add(channel);
  }
  to.all = all.kappa();
}

const Sides::Kappas& Sides::kappas(int64_t b, int64_t i) const {
  Kappas& wanted = kappas_[static_cast<size_t>(b * nodes_ + i)];
  std::call_once(wanted.once, [&] { fill(wanted, b, i); });
  return wanted;
}

double Sides::grown_by(const Row& row, size_t at, double kappa, double counted) const {
  const double unit = square(units_.contraction_factor) + square(units_.left_storage);
  return (growth(kappa, counted) - 1) * unit * square(row.value[at]);
}

void Sides::round_alike(Row& row, std::vector<double>& s, const std::vector<double>& repeats) const {
  const Alike none =
      units_.left_storage > 0 ? Alike(std::min(units_.storage_bits, units_.factor_bits)) : Alike(units_);
  Alike all = none;
  const auto nodes = static_cast<size_t>(nodes_);
  for (size_t h = 0; h < static_cast<size_t>(hidden_); ++h) {
    Alike channel = none;
    for (size_t k = 0; k < nodes; ++k) channel.add(row.value[h * nodes + k]);
    row.kappas.push_back(channel.kappa());
    all.add(channel);
    for (size_t k = 0; k < nodes; ++k)
      s[h * nodes + k] += grown_by(row, h * nodes + k, row.kappas[h], repeats[k]);
  }
  row.kappas.push_back(all.kappa());
}

void Sides::fill(Row& row, int64_t b, int64_t i, const Projection& proj, const Projection& gates,
                 double lost) const {
  const auto size = static_cast<size_t>(hidden_ * nodes_);
  row.value.assign(size, 0);
  for (auto* values : {&row.root_s, &row.root_weights}) values->assign(size, 0);
  std::vector<double> s_of(size);
  row.norms.assign(static_cast<size_t>(hidden_), 0);
  if (follows_weights_) {
    row.root_mixed.resize(size);
    row.rest.resize(size);
    row.by_proj.resize(size);
    row.by_gate.resize(size);
  }
  if (units_.contraction_factor == 0) lost = 0;
  for (int64_t k = 0; k < nodes_; ++k) {
    const Edge e = edge_of_row(b, i, k);
    const double m = mask_of(question_, b, i, k);
    row.is_nan |= e.is_nan || !std::isfinite(m);
    row.is_open |= e.is_open;
    if (row.is_nan) return;
    if (m != 0) row.signatures.push_back(std::abs(e.signature));
    if (follows_weights_) {
      row.xn.insert(row.xn.end(), e.xn.begin(), e.xn.end());
      row.xn.resize(static_cast<size_t>(k + 1) * columns_);
    }
    const std::vector<Value> projected = project(proj, e, units_), gated = project(gates, e, units_);
    for (int64_t h = 0; h < hidden_; ++h) {
      const Value &p = projected[static_cast<size_t>(h)], &g = gated[static_cast<size_t>(h)];
      if (!std::isfinite(p.value) || std::isnan(g.value)) {
        row.is_nan = true;
        continue;
      }
      // A sigmoid of an infinity is 0 or 1; of which sign hangs on the sign of some xn.
      row.is_open |= p.is_open || g.is_open || !std::isfinite(g.value);
      const Gate gate = gate_of(g, units_, units_.gate, units_.underflow_gate);
      const double value = p.value * gate.value * m, square_m = m * m;
      const double reach = square(reach_of(p));
      double s = square_m * (square(gate.value) * p.s + reach * (square(gate.slope) * g.s + gate.s));
      s += square(2 * units_.gate * value);
      const auto at = static_cast<size_t>(h * nodes_ + k);
      row.value[at] = value;
      row.norms[static_cast<size_t>(h)] += value * value;
      const double by_gate = std::sqrt(reach) * gate.slope;
      const double weights = square(gate.value) * p.weights + square(by_gate) * g.weights;
      const double certain = gate.value * p.lost + by_gate * g.lost;
      const double underflow = underflow_of(units_, p, gate, m, lost);
      const double root_weights =
          std::abs(m) * (std::sqrt(weights) + certain / kLambda) + underflow / kLambda;
      row.root_weights[at] = not_below(root_weights);
      // Of left as it is rounded, and of what it may exceed.
      const double most = std::abs(value) + kLambda * (std::sqrt(2 * s) + root_weights);
      row.is_open |= most >= kOverflow;
      s_of[at] = s + (square(units_.contraction_factor) + square(units_.left_storage)) * square(most);
      if (!follows_weights_) continue;
      // Errors of weights once more by the gate's: random with those of xn, at most with each other's.
      const double most_g = kLambda * std::sqrt(g.alike()), most_p = kLambda * std::sqrt(p.alike());
      const double curved = std::abs(p.value) * std::min(gate.slope, kMostCurved);
      row.root_mixed[at] =
          not_below(std::abs(m) * most_g * std::sqrt(square(gate.slope) * p.s + square(curved) * g.s));
      // More than products of derivatives and xn, as floats, make a difference.
      const double floats =
          0x1p-22 * std::sqrt(weights) + 0x1p-149 * (std::sqrt(p.weights) + std::sqrt(g.weights));
      row.by_proj[at] = static_cast<float>(m * gate.value);
      row.by_gate[at] = static_cast<float>(m * p.value * sigmoid_slope(g.value, 0));
      row.rest[at] =
          not_below(std::abs(m) * (certain + (gate.slope * most_p + curved * most_g / 2) * most_g) +
                    kLambda * (1 + std::abs(m)) * floats + underflow);
    }
  }
  for (double& norm : row.norms) norm = std::sqrt(norm);
  if (units_.contraction_factor > 0 || units_.left_storage > 0) round_alike(row, s_of, kappas(b, i).repeats);
  for (size_t at = 0; at < size; ++at) row.root_s[at] = not_below(std::sqrt(s_of[at]));
  // NaN where an infinity is one of the weights.
  std::erase_if(row.signatures, [](double value) { return std::isnan(value); });
}

std::vector<double> Sides::met_weights(const Row& left, const Row& right) const {
  std::vector<double> roots;
  if (!follows_weights_) return roots;
  const auto nodes = static_cast<size_t>(nodes_), channels = static_cast<size_t>(channels_);
  roots.resize(static_cast<size_t>(hidden_));
  for (const bool is_right : {false, true}) {
    const Row &side = is_right ? right : left, &other = is_right ? left : right;
    // Of projection and gate in turns.
    const std::vector<double> met = meet_weights(
        2 * roots.size(), panels_of(side.xn, nodes, columns_), nodes, columns_, [&](size_t row, size_t k) {
          const size_t at = row / 2 * nodes + k;
          return other.value[at] * static_cast<double>((row % 2 == 0 ? side.by_proj : side.by_gate)[at]);
        });
    for (size_t h = 0; h < roots.size(); ++h) {
      const size_t first = h / kGroupRows * channels * kGroupRows + h % kGroupRows;
      double s_proj = 0, s_gate = 0;
      for (size_t c = 0; c < channels; ++c) {
        const size_t at = first + c * kGroupRows, of = 2 * h * columns_ + c;
        s_proj += proj(is_right).rounded[at] * square(met[of]);
        s_gate += gates(is_right).rounded[at] * square(met[of + columns_]);
      }
      // Weights of different matrices may be equal.
      roots[h] += units_.projection_weight * (std::sqrt(s_proj) + std::sqrt(s_gate));
    }
  }
  return roots;
}

std::shared_ptr<const Row> Sides::left(int64_t b, int64_t i) const {
  return lefts_.get(static_cast<size_t>(b * nodes_ + i),
                    [&](Row& row) { fill(row, b, i, left_, left_gate_, lost(b).left); });
}

std::shared_ptr<const Row> Sides::right(int64_t b, int64_t j) const {
  return rights_.get(static_cast<size_t>(b * nodes_ + j),
                     [&](Row& row) { fill(row, b, j, right_, right_gate_, lost(b).right); });
}

}  // namespace assay::trimul::oracle
