// SPDX-License-Identifier: Apache-2.0
#include "oracles/trimul/trimul.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "kernels/trimul/trimul.h"
#include "oracles/core/bound.h"
#include "oracles/core/read.h"
#include "oracles/trimul/lanes.h"
#include "oracles/trimul/roundings.h"
#include "oracles/trimul/sides.h"

namespace assay::trimul {
namespace oracle {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kHighestAmplified = 64;  // of a value by the norm of hidden, for the certificate

// z of one edge: the factor of the last product.
struct Finished {
  bool is_nan = false, is_open = false;
  std::vector<double> z, error, variance;
  std::vector<double> own;     // error but for that of 1/sigma, which is `rho` of `scaled` in all channels
  std::vector<double> scaled;  // what 1/sigma is a factor of
  double rho = 0;
  Roundings::Rows rows;  // empty if nothing better than `error` is known
  double amplified = 0;  // largest hidden, or root of the sum of its squared terms, by sigma
};

// left, or right, of one edge and channel, for all k.
struct Terms {
  const double* value;
  const float *root_s, *root_weights;
  Terms(const Row& row, size_t first)
      : value(&row.value[first]), root_s(&row.root_s[first]), root_weights(&row.root_weights[first]) {}
};
struct ContractionSums {
  double value, s, root_weights, magnitude;
};

// What is random of left or right meets the other one with the errors of its weights, and those meet each other.
ASSAY_VECTORS ContractionSums contraction_sums(Terms left, Terms right, size_t n) {
  Lanes values{}, errors{}, weights{}, magnitudes{};
  for_lanes(n, [&](size_t k, size_t lane) {
    const double l = left.value[k], r = right.value[k], l2 = l * l, r2 = r * r;
    const double weights_l = left.root_weights[k], weights_r = right.root_weights[k];
    const double s_l = square(left.root_s[k]), s_r = square(right.root_s[k]);
    const double most_l = std::abs(l) + kLambda * weights_l, most_r = std::abs(r) + kLambda * weights_r;
    values[lane] += l * r;
    errors[lane] += (most_r * most_r + kLambda * kLambda * s_r) * s_l + most_l * most_l * s_r;
    weights[lane] += most_r * weights_l + std::abs(l) * weights_r;
    magnitudes[lane] += l2 * r2;
  });
  return {total(values), total(errors), total(weights), total(magnitudes)};
}

// The same by errors of weights that were followed through the sum: s with what is mixed, and what is left of each side and of
// both sides together.
struct FollowedSums {
  double s, rest;
};
ASSAY_VECTORS FollowedSums followed_sums(const Row& left, const Row& right, size_t first, size_t n) {
  Lanes errors{}, rests{};
  for_lanes(n, [&](size_t k, size_t lane) {
    const size_t at = first + k;
    const double l = std::abs(left.value[at]), r = std::abs(right.value[at]);
    const double weights_l = left.root_weights[at], weights_r = right.root_weights[at];
    const double most_l = l + kLambda * weights_l, most_r = r + kLambda * weights_r;
    const double s_l = square(left.root_s[at]) + square(left.root_mixed[at]);
    const double s_r = square(right.root_s[at]) + square(right.root_mixed[at]);
    errors[lane] += (most_r * most_r + kLambda * kLambda * s_r) * s_l + most_l * most_l * s_r;
    rests[lane] += r * left.rest[at] + l * right.rest[at] + kLambda * kLambda * weights_l * weights_r;
  });
  return {total(errors), total(rests)};
}

class TriMul {
 public:
  TriMul(const Question& question, std::optional<Stage> only)
      : units_(question.recipe, only),
        sides_(question, units_),
        nodes_(question.dims[kN]),
        channels_(question.dims[kC]),
        hidden_(question.dims[kH]),
        out_norm_weight_(Reader(question.inputs[kToOutNormWeight]).all()),
        out_norm_bias_(Reader(question.inputs[kToOutNormBias]).all()),
        out_gate_(question.inputs[kOutGate], units_.factor_bits, Reader(question.inputs[kNormWeight]).all(),
                  Reader(question.inputs[kNormBias]).all()),
        to_out_(question.inputs[kToOut], units_.factor_bits),
        is_uniform_(sides_.is_uniform()),
        lost_(sides_.lost()) {
    if (units_.is_scaled) {
      measure();
    } else {
      is_meaningless_ = sides_.is_open() || out_gate_.is_open || to_out_.is_open;
    }
    if (hidden_ > 0 && question.recipe.factor != Factor::kStored &&
        Roundings::affordable(question.dims) != Roundings::Extent::kNothing)
      roundings_.emplace(question, units_, sides_, out_gate_, to_out_, out_norm_weight_, lost_);
  }

  void answer(std::span<const int64_t> elements, std::span<Expected> expected) const {
    int64_t edge = -1;
    Finished finished;
    for (size_t e = 0; e < elements.size(); ++e) {
      if (elements[e] / channels_ != edge) {
        edge = elements[e] / channels_;
        finished = finish(edge / nodes_ / nodes_, edge / nodes_ % nodes_, edge % nodes_);
      }
      expected[e] = out(finished, elements[e] % channels_);
    }
  }

 private:
  // What f16 loses after hidden.
  void measure() {
    const double h = std::sqrt(static_cast<double>(hidden_));
    lost_.z = kUnderflowF16 * (h * largest_of(out_norm_weight_) + largest_of(out_norm_bias_));
    lost_.gate = kUnderflowF16;
    is_meaningless_ |=
        !std::isfinite(lost_.xn + lost_.hidden + lost_.z + out_gate_.largest + to_out_.largest);
  }

  // hidden of one edge and channel: value, limit and variance of its error.
  struct Hidden {
    double value = 0, error = 0, variance = 0;
    double size = 0;  // of the value, or of its terms if they cancel
    double m2 = 0;    // M^2 of the sum over k
    bool is_open = false;
  };
  Hidden contract(const Row& left, const Row& right, int64_t h, double repeats, double lost,
                  const std::vector<double>& met) const {
    const auto n = static_cast<size_t>(nodes_), at = static_cast<size_t>(h) * n;
    const auto [value, own, weights, magnitude] = contraction_sums({left, at}, {right, at}, n);
    const double terms = static_cast<double>(nodes_) * units_.products;
    double s = repeats * own;
    double random = kLambda * (std::sqrt(2 * s) + weights), s_weights = square(weights);
    if (!met.empty()) {
      const auto [s_followed, rest] = followed_sums(left, right, at, n);
      const double s_met = square(met[static_cast<size_t>(h)]);
      const double followed = kLambda * std::sqrt(2 * repeats * s_followed + s_met) + rest;
      if (followed < random) {
        random = followed;
        s = repeats * s_followed;
        s_weights = s_met + square(rest / kLambda);
      }
    }
    const double m2 = m_squared_of_products(&left.value[at], &right.value[at], n, magnitude);
    double sum = terms * units_.contraction_sum * std::sqrt(m2);
    const bool is_zero = magnitude == 0 && own == 0 && weights == 0;  // whatever was rounded
    if (!is_zero) sum += terms * units_.tiny_contraction + units_.tiny_hidden;
    // No more than all of it.
    const double most = std::abs(value) + random + sum;
    const double storage =
        units_.hidden_storage > 0 ? std::min(units_.hidden_storage * most + lost, most) : 0;
    return {.value = value,
            .error = random + sum + storage,
            .variance = (s + s_weights + sum * sum + storage * storage) / 3,
            .size = std::max(std::abs(value), std::sqrt(magnitude)),
            .m2 = m2,
            .is_open = left.norms[static_cast<size_t>(h)] * right.norms[static_cast<size_t>(h)] >= kOverflow};
  }

  Finished finish(int64_t b, int64_t i, int64_t j) const {
    const auto count = static_cast<size_t>(hidden_);
    Finished result;
    for (auto* values : {&result.z, &result.error, &result.variance, &result.own, &result.scaled})
      values->assign(count, 0);
    if (hidden_ == 0) return result;
    const std::shared_ptr<const Row> row_of_left = sides_.left(b, i), row_of_right = sides_.right(b, j);
    const Row &left = *row_of_left, &right = *row_of_right;
    const Edge e = sides_.edge(b, i, j);
    result.is_nan = left.is_nan || right.is_nan;
    result.is_open = left.is_open || right.is_open || is_meaningless_;
    if (result.is_nan || result.is_open) return result;
    std::vector<Hidden> hidden;
    std::vector<double> values;
    const double repeats = repeats_of(left, right), lost = sides_.lost(b).hidden;
    const std::vector<double> met = sides_.met_weights(left, right);
    for (int64_t h = 0; h < hidden_; ++h) {
      hidden.push_back(contract(left, right, h, repeats, lost, met));
      values.push_back(hidden.back().value);
      result.is_open |= hidden.back().is_open;
    }
    if (result.is_open) return result;
    const Statistics s = statistics_of(values.data(), hidden_);
    const double n = static_cast<double>(hidden_), u = units_.norm_out;
    double mean_error = 0, products = 0, squares = 0, deviation = 0, product_deviation = 0, most_error = 0;
    for (const Hidden& one : hidden) most_error = std::max(most_error, one.error);
    const double range = is_uniform_ ? 0 : s.range + 2 * most_error;
    result.is_open |= n * range >= kOverflow;
    for (const Hidden& one : hidden) {
      const double d = std::abs(one.value - s.mean), error = one.error + 2 * u * range;
      mean_error += one.error / n;
      products += d * error / n;
      squares += error * error / n;
      deviation += std::sqrt(one.variance) / n;
      product_deviation += d * std::sqrt(one.variance) / n;
      result.amplified = std::max(result.amplified, one.size / s.sigma);
    }
    const double tiny = range == 0 ? 0 : units_.tiny_norm_out;  // of the products with 1/H and 1/sigma
    double shift = mean_roundings(n) * u * range + tiny;        // of the mean, beside that of the errors
    if (!is_uniform_) shift += units_.norm_mean * std::abs(s.mean);
    mean_error += shift;
    const double variance_error =
        2 * products + squares + square(mean_error) + 2 * norm_additions(n) * u * (s.variance + products);
    // Also by the triangle inequality: errors without their mean are no larger than with it.
    const double root = std::sqrt(s.variance), change = std::sqrt(squares) + shift;
    const double of_additions = 2 * norm_additions(n) * u;
    const double least_square = square(std::max(root - change, 0.0)) * (1 - of_additions);
    const double most_square = square(root + change) * (1 + of_additions);
    const double least = std::max(s.variance - variance_error, least_square) + kEpsilon;
    const double most = std::min(s.variance + variance_error, most_square) + kEpsilon;
    const double rho =
        range == 0 ? 0
                   : std::max({s.sigma / std::sqrt(least) - 1, 1 - s.sigma / std::sqrt(most), 0.0}) + 4 * u;
    result.rho = rho;
    const double rho_deviation = product_deviation / (s.sigma * s.sigma);
    std::vector<double> normalised_y;
    const std::vector<Value> gates = project(out_gate_, e, units_);
    for (size_t h = 0; h < count; ++h) {
      const Hidden& one = hidden[h];
      const double weight = out_norm_weight_[h], magnitude = std::abs(weight);
      const double d = one.value - s.mean, scaled = d / s.sigma * weight, y = scaled + out_norm_bias_[h];
      double error = 0, own = 0, variance = 0;
      if (!is_uniform_) {
        const double difference = one.error + 2 * u * range + mean_error;
        own = magnitude * (difference * (1 + rho) / s.sigma + tiny);
        error = std::min(own + std::abs(scaled) * rho, magnitude * (std::sqrt(n) + std::abs(d) / s.sigma));
        if (std::isinf(weight) && std::abs(d) <= difference) result.is_open = true;
        const double spread = (one.variance + square(deviation) + 2 * square(u * range)) / square(s.sigma);
        variance = square(weight) * std::min(spread, n) + square(scaled * std::min(rho_deviation, 1.0));
      }
      const double rounding =
          3 * u * (std::abs(scaled) + error) + u * (std::abs(y) + error) + units_.tiny_norm_out;
      own += rounding;
      error += rounding;
      variance += square(u) * (square(scaled) + square(y) / 3);
      // On the way to y and z.
      result.is_open |= std::isfinite(y) && std::max(std::abs(y), std::abs(scaled)) + error >= kOverflow;
      gate(e, gates[h], h, {y, scaled, error, own, variance}, result);
      normalised_y.push_back(y);
    }
    if (roundings_ && roundings_->covers(b, i, j) && !result.is_open) {
      std::vector<double> errors, m2;
      for (const Hidden& one : hidden) {
        errors.push_back(one.error);
        m2.push_back(one.m2);
      }
      result.rows = roundings_->of(b, i, j,
                                   {.hidden = values.data(),
                                    .hidden_error = errors.data(),
                                    .m2 = m2.data(),
                                    .statistics = s,
                                    .y = normalised_y.data(),
                                    .z = result.z.data(),
                                    .z_error = result.error.data(),
                                    .lost = lost,
                                    .is_uniform = is_uniform_});
    }
    return result;
  }

  struct Normalised {
    double y, scaled, error, own, variance;
  };
  // y becomes z, by the gate that g goes into.
  void gate(const Edge& e, const Value& g, size_t h, const Normalised& of, Finished& to) const {
    const double y = of.y, error = of.error;
    to.is_open |= g.is_open || (std::isinf(g.value) && !std::isnan(y)) || e.is_open;
    const Gate gate = gate_of(g, units_, units_.out_gate, units_.underflow_out_gate);
    const double z = y * gate.value, size = std::abs(y) + error;
    // An infinity times what may underflow.
    to.is_open |= std::isinf(y) && gate.value < 0x1p-125;
    const double inherited = gate.slope * error_of_projection(g);
    const double before = inherited + std::sqrt(gate.s) + gate.underflow;
    const double storage = units_.gate_storage * (gate.value + before) +
                           (units_.gate_storage > 0 ? lost_.gate : 0) + units_.tiny_out_gate;
    const double gate_error = before + storage;
    const double lost = (units_.out_factor > 0 ? lost_.z : 0) + units_.tiny_out_gate;
    const double most = std::abs(z) + gate.value * error + size * gate_error;
    const double rounding = (units_.out_gate + units_.out_factor) * most + lost;
    to.z[h] = z;
    const double by_gate = size * gate_error + rounding;
    to.error[h] = std::isfinite(z) ? gate.value * error + by_gate : 0;
    to.own[h] = std::isfinite(z) ? gate.value * of.own + by_gate : 0;
    to.scaled[h] = gate.value * of.scaled;
    const double gate_variance =
        square(gate.slope) * (g.s + g.alike()) + gate.s + square(storage + gate.underflow);
    to.variance[h] = square(gate.value) * of.variance + (square(y) * gate_variance + square(rounding)) / 3;
  }

  Expected out(const Finished& f, int64_t c) const {
    if (f.is_nan) return {.value = kNan, .bound = 0, .variance = 0};
    const Expected open{.value = 0, .bound = HUGE_VAL, .variance = 0, .is_open = true};
    if (f.is_open) return open;
    const double u = units_.out_sum;
    double sum = 0, magnitudes = 0, error = 0, own = 0, scaled = 0, variance = 0, squares = 0, size = 0;
    for (size_t h = 0; h < f.z.size(); ++h) {
      const double weight = to_out_.values[static_cast<size_t>(c * to_out_.columns) + h], z = f.z[h];
      if (std::isinf(weight) && std::abs(z) <= f.error[h]) return open;
      sum += weight * z;
      magnitudes += std::abs(weight * z);
      squares += square(weight * z);
      error += std::abs(weight) * f.error[h];
      own += std::abs(weight) * f.own[h];
      scaled += weight * f.scaled[h];
      variance += weight * weight * f.variance[h];
      size += std::abs(z) + f.error[h];
    }
    if (std::isinf(sum) && units_.is_split) return open;  // the rest of an infinity may be a NaN
    if (!std::isfinite(sum)) return {.value = sum, .bound = 0, .variance = 0};
    if (magnitudes + error >= kOverflow) return open;
    const double n = static_cast<double>(to_out_.columns) * units_.products;
    const double last_sum = n * u * (magnitudes + error) + (magnitudes + error > 0 ? n * units_.tiny_out : 0);
    const double last_variance = square(n * u) * (sum * sum / 9 + squares / 6);
    const double of_weights = units_.out_weight * (magnitudes + error);
    error = std::min(error, own + f.rho * std::abs(scaled)) + of_weights + last_sum;
    if (units_.out_weight > 0) error += units_.lost_weight(to_out_.largest) * size;
    variance += square(units_.out_weight) * squares + last_variance;
    double noise = kLambda * std::sqrt(variance);
    if (!f.rows.bound.empty()) {
      const auto at = static_cast<size_t>(c);
      error = std::min(error, f.rows.bound[at] + last_sum);
      if (!std::isnan(f.rows.noise[at]))
        noise = std::min(error, f.rows.noise[at] + kLambda * std::sqrt(last_variance));
    }
    if (std::abs(sum) <= 0x1p-30 * error) sum = 0;  // less than what the oracle itself can tell from 0
    error *= 1 + 0x1p-20;
    if (f.amplified >= kHighestAmplified) noise = error;
    return {.value = sum, .bound = error, .variance = variance, .is_open = false, .noise = noise};
  }

  Units units_;
  Sides sides_;
  int64_t nodes_, channels_, hidden_;
  std::vector<double> out_norm_weight_, out_norm_bias_;
  Projection out_gate_, to_out_;
  bool is_uniform_;              // hidden channels have equal weights
  Lost lost_;                    // with masks of 1
  bool is_meaningless_ = false;  // a scale of f16, or a weight as a factor
  std::optional<Roundings> roundings_;
};

Solve solve(std::optional<Stage> only = {}) {
  return [only](const Question& question, int) -> Answer {
    return [solved = std::make_shared<const TriMul>(question, only)](std::span<const int64_t> elements,
                                                                     std::span<Expected> expected) {
      solved->answer(elements, expected);
    };
  };
}

}  // namespace
}  // namespace oracle

std::string_view name_of(Stage stage) {
  switch (stage) {
    case Stage::kNormIn:
      return "norm_in";
    case Stage::kProjections:
      return "projections";
    case Stage::kGates:
      return "gates";
    case Stage::kContraction:
      return "contraction";
    case Stage::kHiddenStorage:
      return "hidden_storage";
    case Stage::kNormOut:
      return "norm_out";
    case Stage::kOutGate:
      return "out_gate";
    case Stage::kOutProjection:
      return "out_projection";
  }
  throw Error("Stage({}) is not a stage", static_cast<int>(stage));
}

std::vector<Oracle> oracles() {
  using oracle::counterfeit;
  using oracle::Fault;
  std::vector<StageOracle> stages;
  for (Stage stage : kStages) stages.push_back({name_of(stage), oracle::solve(stage)});
  return {{.op = "trimul",
           .solve = oracle::solve(),
           .counterfeits = {{"the mask is ignored", counterfeit(Fault::kMaskIgnored)},
                            {"right is read transposed", counterfeit(Fault::kRightTransposed)},
                            {"projections and gates are swapped",
                             counterfeit(Fault::kProjectionsAndGatesSwapped)}},
           .stages = std::move(stages),
           .shares_rows = true}};
}

}  // namespace assay::trimul
