// SPDX-License-Identifier: Apache-2.0
#include "oracles/trimul/roundings.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_set>
#include <utility>

#include "kernels/trimul/trimul.h"
#include "oracles/core/bound.h"
#include "oracles/trimul/alike.h"
#include "oracles/trimul/lanes.h"
#include "oracles/trimul/met_weights.h"

namespace assay::trimul::oracle {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Equal for rows with equal weights, or, if it may, with opposite ones.
double signature_of(const Projection& w, size_t h, bool is_odd) {
  double sum = 0;
  const auto columns = static_cast<size_t>(w.columns);
  for (size_t c = 0; c < columns; ++c)
    sum += w.values[h * columns + c] * (1 + std::sqrt(static_cast<double>(c)) / 3);
  return is_odd ? std::abs(sum) : sum;
}

// What the gates of left and right, and what stores their product with p and the mask, make wrong of it.
Errors own_errors(const Units& units, const Value& p, const Gate& gate, double mask, double product) {
  const double value = std::abs(product);
  Errors own;
  own.add(std::abs(mask) * reach_of(p) * std::sqrt(gate.s));
  own.add(2 * units.gate * value);
  own.add(units.contraction_factor * value);
  own.add(units.left_storage * value);
  return own;
}

}  // namespace

std::vector<double> counts_of(std::vector<double> values) {
  for (double& value : values) {
    if (std::isnan(value)) value = HUGE_VAL;
  }
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return values[i]; });
  std::vector<double> counts(values.size());
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (size_t i = begin; i < end; ++i) counts[order[i]] = static_cast<double>(end - begin);
  }
  return counts;
}

std::vector<double> magnitudes_of(std::vector<double> values) {
  for (double& value : values) value = std::abs(value);
  return values;
}

Roundings::Roundings(const Question& question, const Units& units, const Sides& sides,
                     const Projection& out_gate, const Projection& to_out,
                     const std::vector<double>& out_norm_weight, const Lost& lost)
    : question_(question),
      units_(units),
      sides_(sides),
      out_gate_(out_gate),
      to_out_(to_out),
      out_norm_weight_(out_norm_weight),
      lost_(lost),
      nodes_(static_cast<size_t>(question.dims[kN])),
      channels_(static_cast<size_t>(question.dims[kC])),
      hidden_(static_cast<size_t>(question.dims[kH])),
      columns_((channels_ + kLanes - 1) / kLanes * kLanes),
      is_small_(affordable(question.dims) == Extent::kAll),
      is_covered_(covered_nodes(question.dims)),
      weights_(weights_of(
          {&sides.proj(false), &sides.gates(false), &sides.proj(true), &sides.gates(true), &out_gate},
          units.projection_weight)),
      gate_weights_(weights_[4]),
      is_fixed_(columns_),
      has_fixed_(sides.has_fixed()),
      twins_(hidden_),
      is_shared_(hidden_),
      lefts_(static_cast<size_t>(question.dims[kB]) * nodes_),
      rights_(lefts_.size()) {
  for (size_t c = 0; c < channels_; ++c) is_fixed_[c] = sides.is_fixed(c);
  std::vector<double> sides_of[2], gates;
  for (size_t h = 0; h < hidden_; ++h) {
    for (int side = 0; side < 2; ++side) {
      sides_of[side].push_back(signature_of(sides.proj(side == 1), h, true) +
                               std::sqrt(2.0) * signature_of(sides.gates(side == 1), h, false));
    }
    gates.push_back(signature_of(out_gate, h, false));
  }
  std::vector<double> both = sides_of[0];
  both.insert(both.end(), sides_of[1].begin(), sides_of[1].end());
  both = counts_of(both);
  for (size_t side = 0; side < 2; ++side) {
    const std::vector<double> own = counts_of(sides_of[side]);
    for (size_t h = 0; h < hidden_; ++h) {
      const double others = both[side * hidden_ + h] - own[h];
      twins_[h] = std::max({twins_[h], own[h], others});
      if (others > 0) is_shared_[h] = true;
    }
  }
  gate_twins_ = counts_of(gates);
  std::unordered_set<double> others;
  for (const Projection* w :
       {&sides.proj(false), &sides.gates(false), &sides.proj(true), &sides.gates(true), &out_gate}) {
    for (double value : w->values) others.insert(std::abs(value));
  }
  // Each row of out has its own weights.
  out_weights_ = weights_of({&to_out}, units.out_weight)[0];
  for (size_t c = 0; c < channels_; ++c) {
    const auto at = static_cast<std::ptrdiff_t>(c * hidden_), end = at + static_cast<std::ptrdiff_t>(hidden_);
    const std::vector<double> row(to_out.values.begin() + at, to_out.values.begin() + end);
    const std::vector<double> counts = counts_of(magnitudes_of(row));
    Alike alike(units);
    for (double value : row) alike.add(value);
    const double grown = growth(alike.kappa());
    for (size_t h = 0; h < hidden_; ++h) {
      double& to = out_weights_.squares[c * hidden_ + h];
      to = std::max(counts[h], grown) * square(out_weights_.limits[c * hidden_ + h]);
      out_weights_.shared.push_back(others.contains(std::abs(row[h])) ? to : 0);
    }
  }
}

// Equal weights are rounded alike; those that are numbers of the factor's format are not rounded.
std::vector<Roundings::Weights> Roundings::weights_of(const std::vector<const Projection*>& all,
                                                      double unit) const {
  std::vector<double> magnitudes;
  for (const Projection* w : all) {
    for (double value : w->values) magnitudes.push_back(std::abs(value));
  }
  const std::vector<double> counts = counts_of(magnitudes);
  // By what a row's limits grow: the largest of what it, its matrix and all matrices need.
  Alike of_all(units_);
  std::vector<std::vector<double>> grown;
  for (const Projection* w : all) {
    Alike of_matrix(units_);
    std::vector<double> rows;
    for (int64_t row = 0; row < w->rows; ++row) {
      Alike of_row(units_);
      for (int64_t c = 0; c < w->columns; ++c)
        of_row.add(w->values[static_cast<size_t>(row * w->columns + c)]);
      rows.push_back(growth(of_row.kappa()));
      of_matrix.add(of_row);
    }
    for (double& row : rows) row = std::max(row, growth(of_matrix.kappa()));
    grown.push_back(std::move(rows));
    of_all.add(of_matrix);
  }
  const double grown_all = growth(of_all.kappa());
  std::vector<Weights> result;
  size_t at = 0;
  for (const Projection* w : all) {
    Weights weights;
    for (int64_t i = 0; i < w->rows * w->columns; ++i) {
      const double value = w->values[static_cast<size_t>(i)];
      const double limit = has_bits(value, units_.factor_bits) ? 0 : unit * std::abs(value);
      weights.limits.push_back(limit);
      const double of_row = grown[result.size()][static_cast<size_t>(i / w->columns)];
      weights.squares.push_back(std::max({counts[at++], of_row, grown_all}) * square(limit));
    }
    result.push_back(std::move(weights));
  }
  return result;
}

const Roundings::Node& Roundings::node(bool is_right, int64_t b, int64_t i) const {
  Node& wanted = (is_right ? rights_ : lefts_)[static_cast<size_t>(b) * nodes_ + static_cast<size_t>(i)];
  std::call_once(wanted.once, [&] { fill(wanted, is_right, b, i); });
  return wanted;
}

// Of the error of a projection of one edge.
double Roundings::limit_of(const Projection& w, size_t h, const Value& value, const Edge& e) const {
  double limit = 0;
  for (size_t c = 0; c < channels_; ++c) limit += std::abs(w.values[h * channels_ + c]) * e.limits[c];
  return std::min(limit + kLambda * std::sqrt(value.weights), kLambda * std::sqrt(value.s + value.weights)) +
         value.lost;
}

void Roundings::fill(Node& node, bool is_right, int64_t b, int64_t i) const {
  const size_t size = nodes_ * hidden_;
  for (auto* values :
       {&node.squares, &node.fixed, &node.by_proj, &node.by_gate, &node.own, &node.own_limits, &node.second,
        &node.second_mixed, &node.second_weights, &node.weights, &node.lost, &node.all, &node.all_second})
    values->assign(size, 0);
  node.slopes.resize((is_small_ ? nodes_ : 1) * hidden_ * columns_);
  const size_t grams = hidden_ * (hidden_ + 1) / 2;
  if (!is_small_) node.grams.resize(nodes_ * grams);
  const Projection &proj = sides_.proj(is_right), &gates = sides_.gates(is_right);
  const std::shared_ptr<const Row> shared_row = is_right ? sides_.right(b, i) : sides_.left(b, i);
  const Row& row = *shared_row;
  const Lost of_batch = sides_.lost(b);
  const double lost = units_.contraction_factor > 0 ? (is_right ? of_batch.right : of_batch.left) : 0;
  const double factor = units_.contraction_factor + units_.left_storage + units_.projection_weight;
  std::vector<double> values, xn;
  for (size_t k = 0; k < nodes_; ++k) {
    const Edge e = sides_.edge_of_row(b, i, static_cast<int64_t>(k));
    const double m = mask_of(question_, b, i, static_cast<int64_t>(k));
    xn.insert(xn.end(), e.xn.begin(), e.xn.end());
    xn.resize((k + 1) * columns_);
    node.signatures.push_back(e.signature);
    values.push_back(m == 0 ? kNan : std::abs(e.signature * m));
    const std::vector<Value> projected = project(proj, e, units_), gated = project(gates, e, units_);
    for (size_t h = 0; h < hidden_; ++h) {
      const Value &p = projected[h], &g = gated[h];
      const Gate gate = gate_of(g, units_, units_.gate, units_.underflow_gate);
      const size_t at = k * hidden_ + h;
      const double a = m * gate.value, slope = m * p.value * sigmoid_slope(g.value, 0);
      node.by_proj[at] = a;
      node.by_gate[at] = slope;
      double* slopes = &node.slopes[(is_small_ ? at : h) * columns_];
      for (size_t c = 0; c < channels_; ++c) {
        const size_t w = h * channels_ + c;
        slopes[c] = (a * proj.values[w] + slope * gates.values[w]) * std::sqrt(e.repeats) * e.alike[c];
      }
      for (size_t c = 0; c < columns_; ++c)
        (is_fixed_[c] ? node.fixed : node.squares)[at] += square(slopes[c]);

      const Errors own = own_errors(units_, p, gate, m, row.value[h * nodes_ + k]);
      const double underflow = underflow_of(units_, p, gate, m, lost);
      node.own[at] = own.s;
      node.own_limits[at] = own.limit;

      const double steepest = std::abs(m) * gate.slope;
      const double curve = std::abs(m * p.value) * std::min(gate.slope, kMostCurved) / 2;
      const auto product = [&](double of_p, double of_g) {
        return steepest * std::sqrt(of_p * of_g) + curve * of_g;
      };
      const double alike_p = p.alike(), alike_g = g.alike(), all_p = p.s + alike_p, all_g = g.s + alike_g;
      node.second[at] = product(p.s, g.s);
      node.second_mixed[at] = product(all_p, all_g) - node.second[at] +
                              factor * (std::abs(a) * std::sqrt(all_p) + std::abs(slope) * std::sqrt(all_g));
      node.weights[at] = square(std::abs(a) * std::sqrt(alike_p) + std::abs(slope) * std::sqrt(alike_g));
      node.second_weights[at] = product(alike_p, alike_g);
      node.lost[at] = std::abs(a) * p.lost + std::abs(slope) * g.lost + underflow;

      const double error_p = limit_of(proj, h, p, e), error_g = limit_of(gates, h, g, e);
      node.all_second[at] = product(square(error_p), square(error_g)) +
                            factor * (std::abs(a) * error_p + std::abs(slope) * error_g);
      node.all[at] = std::abs(a) * error_p + std::abs(slope) * error_g + node.own_limits[at] + underflow +
                     node.all_second[at];
    }
    if (!is_small_) gram(node.slopes.data(), hidden_, columns_, &node.grams[k * grams]);
  }
  node.panels = panels_of(xn, nodes_, columns_);
  const std::vector<double> repeats = counts_of(values);
  std::erase_if(values, [](double value) { return std::isnan(value); });
  node.repeats = most_repeats(values);
  for (size_t h = 0; h < hidden_ && !row.kappas.empty(); ++h) {
    const double kappa = std::max(row.kappas[h], row.kappas[hidden_] / twins_[h]);
    for (size_t k = 0; k < nodes_; ++k)
      node.own[k * hidden_ + h] += sides_.grown_by(row, h * nodes_ + k, kappa, repeats[k]);
  }
}

Roundings::Channels Roundings::channels(const Node& left, const Node& right, const Row& l, const Row& r,
                                        const Finish& f) const {
  Channels result(hidden_);
  const double edges = static_cast<double>(l.signatures.size() + r.signatures.size());
  const double repeats = repeats_of(l, r), terms = static_cast<double>(nodes_) * units_.products;
  const bool has_weights = units_.projection_weight > 0;
  Alike stored(units_.storage_bits);
  for (size_t h = 0; h < hidden_; ++h) stored.add(f.hidden[h]);
  const double storage = units_.hidden_storage * std::sqrt(growth(stored.kappa()));
  struct Sums {
    double xn = 0, fixed = 0, own_left = 0, own_right = 0, square_second = 0, second = 0, square_mixed = 0,
           mixed = 0, most = 0, lost = 0;
  };
  std::vector<Sums> sums(hidden_);
  for (size_t k = 0; k < nodes_; ++k) {
    for (size_t h = 0; h < hidden_; ++h) {
      Sums& of = sums[h];
      const size_t at = k * hidden_ + h, row = h * nodes_ + k;
      const double lv = std::abs(l.value[row]), rv = std::abs(r.value[row]), l2 = lv * lv, r2 = rv * rv;
      of.xn += r2 * left.squares[at] + l2 * right.squares[at];
      of.fixed += r2 * left.fixed[at] + l2 * right.fixed[at];
      of.own_left += r2 * left.own[at];
      of.own_right += l2 * right.own[at];
      result.own[h].limit += rv * left.own_limits[at] + lv * right.own_limits[at];
      const double common = left.squares[at] * right.squares[at];
      const double all_l = left.squares[at] + left.own[at] + left.weights[at];
      const double all_r = right.squares[at] + right.own[at] + right.weights[at];
      of.square_second += r2 * square(left.second[at]) + l2 * square(right.second[at]) + common;
      of.square_mixed +=
          r2 * square(left.second_mixed[at]) + l2 * square(right.second_mixed[at]) + (all_l * all_r - common);
      of.most += rv * left.all_second[at] + lv * right.all_second[at] + left.all[at] * right.all[at];
      of.second += rv * (left.second[at] + left.second_mixed[at]) +
                   lv * (right.second[at] + right.second_mixed[at]) + std::sqrt(common) +
                   left.lost[at] * right.all[at] + left.all[at] * right.lost[at];
      of.mixed += rv * left.second_weights[at] + lv * right.second_weights[at] +
                  std::sqrt(left.weights[at] * right.weights[at]);
      of.lost += rv * left.lost[at] + lv * right.lost[at];
    }
  }
  for (size_t h = 0; h < hidden_; ++h) {
    const auto& [xn, fixed, own_left, own_right, square_second, second, square_mixed, mixed, most, lost] =
        sums[h];
    Errors& own = result.own[h];
    result.xn[h] = repeats * xn + edges * fixed;
    result.second[h] = second + kChaos * std::sqrt(repeats * square_second);
    result.second_own[h] = kChaos * (std::sqrt(repeats * square_mixed) + mixed);
    if (most < result.second[h] + result.second_own[h]) {
      result.second[h] = most;
      result.second_own[h] = 0;
    }
    if (has_fixed_) result.second[h] += std::exchange(result.second_own[h], 0.0);
    // Channels of left that are those of right are rounded alike where their edges are equal.
    own.s = is_shared_[h] ? std::max({repeats, left.repeats, right.repeats}) * (own_left + own_right)
                          : left.repeats * own_left + right.repeats * own_right;
    // What sums and underflow lose is no product, but certain as products are.
    result.second[h] += lost + terms * units_.contraction_sum * std::sqrt(f.m2[h]);
    if (f.hidden_error[h] > 0) result.second[h] += terms * units_.tiny_contraction + units_.tiny_hidden;
    if (units_.hidden_storage > 0) {
      own.add(storage * (std::abs(f.hidden[h]) + f.hidden_error[h]));
      result.second[h] += f.lost;
    }
  }
  for (size_t matrix = 0; matrix < 4 && has_weights; ++matrix) {
    const Node& side = matrix < 2 ? left : right;
    const Row& other = matrix < 2 ? r : l;
    const std::vector<double>& slopes = matrix % 2 == 0 ? side.by_proj : side.by_gate;
    const std::vector<double> met = meet_weights(
        hidden_, side.panels, nodes_, columns_,
        [&](size_t h, size_t k) { return other.value[h * nodes_ + k] * slopes[k * hidden_ + h]; });
    for (size_t h = 0; h < hidden_; ++h) {
      const double *squares = &weights_[matrix].squares[h * channels_],
                   *limits = &weights_[matrix].limits[h * channels_], *of_row = &met[h * columns_];
      for (size_t c = 0; c < channels_; ++c) {
        result.weights[h].s += squares[c] * square(of_row[c]);
        result.weights[h].limit += limits[c] * std::abs(of_row[c]);
      }
    }
  }
  return result;
}

}  // namespace assay::trimul::oracle
