// SPDX-License-Identifier: Apache-2.0
#include "oracles/trimul/trimul.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>

#include "kernels/trimul/trimul.h"
#include "oracles/trimul/stages.h"

namespace assay::trimul {
namespace oracle {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kLambda = 7;              // exceeded with probability 2 exp(-lambda^2 / 2) = 5e-11
constexpr double kOverflow = 0x1p127;      // half of what f32 rounds to infinity
constexpr double kHighestAmplified = 64;   // of a value by the norm of hidden, for the certificate
constexpr double kUnderflowF16 = 0x1p-38;  // what f16 loses of a scaled tensor, by its largest magnitude

// How many of n roundings of partial sums count.
double roundings(double n) {
  return std::min(n, kLambda * std::sqrt(n));
}

double square(double value) {
  return value * value;
}

// How often the most frequent of the values occurs; reorders them.
double most_repeats(std::vector<double>& values) {
  std::ranges::sort(values);
  size_t most = 1;
  for (size_t begin = 0; begin < values.size();) {
    size_t end = begin + 1;
    while (end < values.size() && values[end] == values[begin]) ++end;
    most = std::max(most, end - begin);
    begin = end;
  }
  return static_cast<double>(most);
}

std::vector<double> vector_of(const ConstTensorView& view) {
  std::vector<double> values;
  for (int64_t i = 0; i < view.shape[0]; ++i) {
    values.push_back(static_cast<const float*>(view.data)[i * view.strides[0]]);
  }
  return values;
}

double largest_of(const std::vector<double>& values) {
  double largest = 0;
  for (double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

double norm_of(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values) sum += value * value;
  return std::sqrt(sum);
}

// z of one edge: the factor of the last product.
struct Finished {
  bool is_nan = false, is_open = false;
  std::vector<double> z, error, variance;
  double amplified = 0;  // largest hidden, or root of the sum of its squared terms, by sigma
};

class TriMul {
 public:
  TriMul(const Question& question, Fault fault, std::optional<Stage> only)
      : question_(question),
        fault_(fault),
        units_(question.recipe, only),
        nodes_(question.dims["n"]),
        channels_(question.dims["c"]),
        hidden_(question.dims["h"]),
        norm_weight_(vector_of(question.inputs[kNormWeight])),
        norm_bias_(vector_of(question.inputs[kNormBias])),
        out_norm_weight_(vector_of(question.inputs[kToOutNormWeight])),
        out_norm_bias_(vector_of(question.inputs[kToOutNormBias])),
        left_(projection(kLeftProj)),
        left_gate_(projection(kLeftGate)),
        right_(projection(kRightProj)),
        right_gate_(projection(kRightGate)),
        out_gate_(projection(kOutGate)),
        to_out_(question.inputs[kToOut]),
        lefts_(static_cast<size_t>(question.dims["b"] * nodes_)),
        rights_(static_cast<size_t>(question.dims["b"] * nodes_)) {
    // Two normalised values are +-1, nearly whatever they were before.
    if (hidden_ <= 2) fault_ = Fault::kNothing;
    for (const Projection* p : {&left_, &left_gate_, &right_, &right_gate_})
      is_uniform_ &= p->has_equal_rows();
    if (fault_ == Fault::kMaskIgnored && !mask_matters()) fault_ = Fault::kNothing;
    if (fault_ == Fault::kProjectionsAndGatesSwapped) {
      std::swap(left_, left_gate_);
      std::swap(right_, right_gate_);
    }
    if (units_.is_scaled) measure();
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
  Projection projection(Input input) const {
    Projection p(question_.inputs[input]);
    for (int64_t h = 0; h < p.rows; ++h) {
      double weighted = 0, biased = 0;
      for (int64_t c = 0; c < p.columns; ++c) {
        const double value = p.values[static_cast<size_t>(h * p.columns + c)];
        weighted += value * norm_weight_[static_cast<size_t>(c)];
        biased += value * norm_bias_[static_cast<size_t>(c)];
      }
      p.weighted.push_back(weighted);
      p.biased.push_back(biased);
    }
    return p;
  }

  double mask(int64_t b, int64_t i, int64_t k) const {
    const ConstTensorView& view = question_.inputs[kMask];
    if (view.shape[3] == 0) return 1;
    const int64_t offset = b * view.strides[0] + i * view.strides[1] + k * view.strides[2];
    return static_cast<const float*>(view.data)[offset];
  }

  // Masks that are alike change little but the scale of hidden, which its norm takes away.
  bool mask_matters() const {
    double least = HUGE_VAL, most = 0;
    for_mask([&](double m) {
      least = std::min(least, std::abs(m));
      most = std::max(most, std::abs(m));
    });
    return nodes_ > 1 && most >= 2 * least;
  }
  template <class Visit>
  void for_mask(const Visit& visit_one) const {
    for (int64_t b = 0; b < question_.dims["b"]; ++b) {
      for (int64_t i = 0; i < nodes_; ++i) {
        for (int64_t k = 0; k < nodes_; ++k) visit_one(mask(b, i, k));
      }
    }
  }

  // The largest magnitudes that the inputs permit, as the contract says, and with them what f16 loses to underflow.
  void measure() {
    const double c = std::sqrt(static_cast<double>(channels_)), h = std::sqrt(static_cast<double>(hidden_));
    double most = 0;
    for_mask([&](double m) { most = std::max(most, std::abs(m)); });
    const auto factor = [&](const Projection& p) {
      return largest_of(p.norms) * (c * largest_of(norm_weight_) + norm_of(norm_bias_)) * most;
    };
    lost_.xn = kUnderflowF16 * (c * largest_of(norm_weight_) + largest_of(norm_bias_));
    lost_.left = kUnderflowF16 * factor(left_);
    lost_.right = kUnderflowF16 * factor(right_);
    lost_.hidden = kUnderflowF16 * static_cast<double>(nodes_) * factor(left_) * factor(right_);
    lost_.z = kUnderflowF16 * (h * largest_of(out_norm_weight_) + largest_of(out_norm_bias_));
    lost_.gate = kUnderflowF16;
    is_meaningless_ = !std::isfinite(lost_.xn + lost_.hidden + lost_.z + out_gate_.largest + to_out_.largest);
  }

  // xn of one edge; with all of its rows.
  Edge edge(int64_t b, int64_t i, int64_t k) const {
    const ConstTensorView& view = question_.inputs[kX];
    const auto* x = static_cast<const float*>(view.data) + b * view.strides[0] + i * view.strides[1] +
                    k * view.strides[2];
    const auto count = static_cast<size_t>(channels_);
    const double n = static_cast<double>(channels_);
    Edge e;
    e.xn.resize(count);
    for (size_t c = 0; c < count; ++c) {
      e.xn[c] = x[static_cast<int64_t>(c) * view.strides[3]];
      e.is_nan |= !std::isfinite(e.xn[c]);
    }
    if (e.is_nan) return e;
    const Statistics s = statistics_of(e.xn.data(), channels_);
    if (fault_ != Fault::kNothing) {
      for (size_t c = 0; c < count; ++c)
        e.xn[c] = (e.xn[c] - s.mean) / s.sigma * norm_weight_[c] + norm_bias_[c];
      return e;
    }
    const double u = units_.norm_in, range = s.range;
    e.is_open = n * range >= kOverflow;
    const double own = channels_ == 1 ? 0 : 2 * u * range;
    const double mean_error = channels_ == 1 ? 0 : (roundings(n) + 2) * u * range;
    const double variance_error =
        2 * std::sqrt(s.variance) * own + square(own + mean_error) + (roundings(n) + 3) * u * s.variance;
    const double least = std::max(s.variance - variance_error, 0.0) + kEpsilon;
    e.rho = s.range == 0 ? 0 : s.sigma / std::sqrt(least) - 1 + 4 * u;
    e.shared = mean_error / s.sigma;
    const double lost = square(units_.projection_factor > 0 ? lost_.xn : 0);
    double sum = 0;
    std::vector<double> magnitudes(count);
    e.own.resize(count);
    e.squares.resize(count);
    for (size_t c = 0; c < count; ++c) {
      const double weight = norm_weight_[c], scaled = (e.xn[c] - s.mean) / s.sigma * weight;
      const double xn = scaled + norm_bias_[c];
      e.is_open |= std::abs(xn) >= kOverflow;
      e.is_nan |= std::isnan(xn);
      // The sign of an infinity hangs on a difference from the mean.
      if (std::isinf(weight) && std::abs(e.xn[c] - s.mean) <= own + mean_error) e.is_open = true;
      e.xn[c] = xn;
      e.squares[c] = xn * xn;
      e.own[c] = square(weight / s.sigma * own) + square(2 * u * scaled) + square(u * xn) +
                 square(units_.projection_factor * xn) + square(units_.tiny_in) + lost;
      sum += xn * xn;
      magnitudes[c] = std::abs(xn);
      e.signature += xn * (1 + std::sqrt(static_cast<double>(c)) / 3);
    }
    e.norm = std::sqrt(sum);
    e.repeats = std::isfinite(sum) ? most_repeats(magnitudes) : 1;
    return e;
  }

  Value project(const Projection& w, int64_t h, const Edge& e) const {
    const double* weights = &w.values[static_cast<size_t>(h * w.columns)];
    if (fault_ != Fault::kNothing) {  // only values are read
      double p = 0;
      for (size_t c = 0; c < static_cast<size_t>(w.columns); ++c) p += weights[c] * e.xn[c];
      return {.value = p};
    }
    const double* weight_squares = &w.squares[static_cast<size_t>(h * w.columns)];
    double p = 0, own = 0, magnitude = 0;
    for (size_t c = 0; c < static_cast<size_t>(w.columns); ++c) {
      p += weights[c] * e.xn[c];
      own += weight_squares[c] * e.own[c];
      magnitude += weight_squares[c] * e.squares[c];
    }
    const auto at = static_cast<size_t>(h);
    const double terms = static_cast<double>(w.columns) * units_.products;
    Value result{.value = p};
    result.is_open = w.norms[at] * e.norm >= kOverflow && std::isfinite(w.norms[at] * e.norm);
    result.s = e.repeats * own + square(e.shared * w.weighted[at]) + square((p - w.biased[at]) * e.rho) +
               terms * square(units_.projection_sum) * (p * p + magnitude);
    if (magnitude > 0) result.s += terms * square(units_.tiny_projection);
    result.weights = square(units_.projection_weight) * magnitude;
    if (units_.projection_weight > 0 && units_.is_scaled)
      result.weights += square(kUnderflowF16 * w.largest * e.norm);
    return result;
  }

  // The sigmoid of g: value, its greatest slope, and what its evaluation adds to s.
  struct Gate {
    double value, slope, s;
  };
  Gate gate_of(const Value& g, double unit, double underflow) const {
    const double value = sigmoid(g.value);
    const double error = kLambda * (std::sqrt(2 * g.s) + std::sqrt(g.weights));
    const double relative = 4 * unit + (8 + 2 * std::abs(g.value)) * unit * (1 - value);
    const double own = std::isfinite(g.value) ? relative * value : 0;
    return {value, std::isfinite(g.value) ? sigmoid_slope(g.value, error) : 0,
            square(own) + square(underflow)};
  }

  // left, or right, of one first node.
  void fill(Row& row, int64_t b, int64_t i, bool is_right) const {
    const Projection& proj = is_right ? right_ : left_;
    const Projection& gates = is_right ? right_gate_ : left_gate_;
    const auto size = static_cast<size_t>(hidden_ * nodes_);
    for (auto* values : {&row.value, &row.squares, &row.s}) values->assign(size, 0);
    if (units_.projection_weight > 0) row.root_weights.assign(size, 0);
    std::vector<double> signatures;
    const double lost = units_.contraction_factor > 0 ? (is_right ? lost_.right : lost_.left) : 0;
    for (int64_t k = 0; k < nodes_; ++k) {
      const bool is_transposed = is_right && fault_ == Fault::kRightTransposed;
      const int64_t first = is_transposed ? k : i, second = is_transposed ? i : k;
      const Edge e = edge(b, first, second);
      const double m = fault_ == Fault::kMaskIgnored ? 1 : mask(b, first, second);
      row.is_nan |= e.is_nan || !std::isfinite(m);
      row.is_open |= e.is_open;
      if (row.is_nan) return;
      signatures.push_back(e.signature);
      for (int64_t h = 0; h < hidden_; ++h) {
        const Value p = project(proj, h, e), g = project(gates, h, e);
        if (!std::isfinite(p.value) || std::isnan(g.value)) {
          row.is_nan = true;
          continue;
        }
        // A sigmoid of an infinity is 0 or 1; of which sign hangs on the sign of some xn.
        row.is_open |= p.is_open || g.is_open || !std::isfinite(g.value);
        const Gate gate = gate_of(g, units_.gate, units_.underflow_gate);
        const double value = p.value * gate.value * m, square_m = m * m;
        const double reach = square(std::abs(p.value) + kLambda * std::sqrt(p.s));
        double s = square_m * (square(gate.value) * p.s + reach * (square(gate.slope) * g.s + gate.s));
        s += square(2 * units_.gate * value) + square(units_.contraction_factor * value) +
             square(units_.left_storage * value);
        if (p.value != 0 && m != 0) s += square(units_.tiny_gate) * (1 + square_m) + square(lost);
        const auto at = static_cast<size_t>(h * nodes_ + k);
        row.value[at] = value;
        row.squares[at] = value * value;
        row.s[at] = s;
        if (!row.root_weights.empty()) {
          const double weights = square(gate.value) * p.weights + reach * square(gate.slope) * g.weights;
          row.root_weights[at] = std::abs(m) * std::sqrt(weights);
        }
        row.is_open |= std::abs(value) >= kOverflow;
      }
    }
    if (!row.is_open) row.repeats = most_repeats(signatures);
  }

  const Row& row(std::vector<Row>& rows, int64_t b, int64_t i, bool is_right) const {
    Row& wanted = rows[static_cast<size_t>(b * nodes_ + i)];
    std::call_once(wanted.once, [&] { fill(wanted, b, i, is_right); });
    return wanted;
  }

  // hidden of one edge and channel: value, limit and variance of its error.
  struct Hidden {
    double value = 0, error = 0, variance = 0;
    double size = 0;  // of the value, or of its terms if they cancel
    bool is_open = false;
  };
  Hidden contract(const Row& left, const Row& right, int64_t h) const {
    const auto n = static_cast<size_t>(nodes_), at = static_cast<size_t>(h) * n;
    const double *l = &left.value[at], *r = &right.value[at];
    const double *l2 = &left.squares[at], *r2 = &right.squares[at], *sl = &left.s[at], *sr = &right.s[at];
    double value = 0, s = 0, magnitude = 0, left_norm = 0, right_norm = 0;
    if (fault_ != Fault::kNothing) {
      for (size_t k = 0; k < n; ++k) value += l[k] * r[k];
      return {.value = value};
    }
    for (size_t k = 0; k < n; ++k) {
      value += l[k] * r[k];
      s += (r2[k] + kLambda * kLambda * sr[k]) * sl[k] + l2[k] * sr[k];
      magnitude += l2[k] * r2[k];
      left_norm += l2[k];
      right_norm += r2[k];
    }
    double weights = 0;
    if (!left.root_weights.empty()) {
      for (size_t k = 0; k < n; ++k) {
        weights += std::abs(r[k]) * left.root_weights[at + k] + std::abs(l[k]) * right.root_weights[at + k];
      }
    }
    const double terms = static_cast<double>(nodes_) * units_.products;
    s *= std::min(std::max(left.repeats, right.repeats), static_cast<double>(nodes_));
    s += terms * square(units_.contraction_sum) * (value * value + magnitude);
    if (magnitude > 0) s += terms * square(units_.tiny_contraction) + square(units_.tiny_hidden);
    const double storage = units_.hidden_storage * std::abs(value) +
                           (units_.hidden_storage > 0 && magnitude > 0 ? lost_.hidden : 0);
    return {.value = value,
            .error = kLambda * (std::sqrt(2 * s) + weights) + storage,
            .variance = (s + weights * weights + storage * storage) / 3,
            .size = std::max(std::abs(value), std::sqrt(magnitude)),
            .is_open = std::sqrt(left_norm) * std::sqrt(right_norm) >= kOverflow};
  }

  Finished finish(int64_t b, int64_t i, int64_t j) const {
    const auto count = static_cast<size_t>(hidden_);
    Finished result;
    for (auto* values : {&result.z, &result.error, &result.variance}) values->assign(count, 0);
    if (hidden_ == 0) return result;
    const Row& left = row(lefts_, b, i, false);
    const Row& right = row(rights_, b, j, true);
    const Edge e = edge(b, i, j);
    result.is_nan = left.is_nan || right.is_nan;
    result.is_open = left.is_open || right.is_open || is_meaningless_;
    if (result.is_nan || result.is_open) return result;
    std::vector<Hidden> hidden;
    std::vector<double> values;
    for (int64_t h = 0; h < hidden_; ++h) {
      hidden.push_back(contract(left, right, h));
      values.push_back(hidden.back().value);
      result.is_open |= hidden.back().is_open;
    }
    if (result.is_open) return result;
    const Statistics s = statistics_of(values.data(), hidden_);
    const double n = static_cast<double>(hidden_), u = units_.norm_out;
    double mean_error = 0, products = 0, squares = 0, deviation = 0, product_deviation = 0, most = 0;
    for (const Hidden& one : hidden) most = std::max(most, one.error);
    const double range = is_uniform_ ? 0 : s.range + 2 * most;
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
    mean_error += (roundings(n) + 2) * u * range;
    const double variance_error =
        2 * products + squares + square(mean_error) + (roundings(n) + 3) * u * (s.variance + products);
    const double least = std::max(s.variance - variance_error, 0.0) + kEpsilon;
    const double rho = range == 0 ? 0 : s.sigma / std::sqrt(least) - 1 + 4 * u;
    const double rho_deviation = product_deviation / (s.sigma * s.sigma);
    for (size_t h = 0; h < count; ++h) {
      const Hidden& one = hidden[h];
      const double weight = out_norm_weight_[h], magnitude = std::abs(weight);
      const double d = one.value - s.mean, scaled = d / s.sigma * weight, y = scaled + out_norm_bias_[h];
      double error = 0, variance = 0;
      if (!is_uniform_) {
        const double difference = one.error + 2 * u * range + mean_error;
        const double normalised = (difference * (1 + rho) + std::abs(d) * rho) / s.sigma;
        error = magnitude * std::min(normalised, std::sqrt(n) + std::abs(d) / s.sigma);
        if (std::isinf(weight) && std::abs(d) <= difference) result.is_open = true;
        const double spread = (one.variance + square(deviation) + 2 * square(u * range)) / square(s.sigma);
        variance = square(weight) * std::min(spread, n) + square(scaled * std::min(rho_deviation, 1.0));
      }
      error += 3 * u * (std::abs(scaled) + error) + u * (std::abs(y) + error) + units_.tiny_norm_out;
      variance += square(u) * (square(scaled) + square(y) / 3);
      gate(e, static_cast<int64_t>(h), y, error, variance, result);
    }
    return result;
  }

  // y becomes z.
  void gate(const Edge& e, int64_t h, double y, double error, double variance, Finished& to) const {
    const Value g = project(out_gate_, h, e);
    to.is_open |= g.is_open || (std::isinf(g.value) && !std::isnan(y)) || e.is_open;
    const Gate gate = gate_of(g, units_.out_gate, units_.underflow_out_gate);
    const double z = y * gate.value, size = std::abs(y) + error;
    // An infinity times what may underflow.
    to.is_open |= std::isinf(y) && gate.value < 0x1p-125;
    const double inherited = gate.slope * kLambda * (std::sqrt(2 * g.s) + std::sqrt(g.weights));
    const double storage =
        units_.gate_storage * gate.value + (units_.gate_storage > 0 ? lost_.gate : 0) + units_.tiny_out_gate;
    const double gate_error = inherited + std::sqrt(gate.s) + storage;
    const double lost = units_.out_factor > 0 ? lost_.z : 0;
    const double rounding = (units_.out_gate + units_.out_factor) * std::abs(z) + lost;
    const auto at = static_cast<size_t>(h);
    to.z[at] = z;
    to.error[at] = std::isfinite(z) ? (gate.value + gate_error) * error + size * gate_error + rounding : 0;
    const double gate_variance = square(gate.slope) * (g.s + g.weights) + gate.s + square(storage);
    to.variance[at] = square(gate.value) * variance + (square(y) * gate_variance + square(rounding)) / 3;
  }

  Expected out(const Finished& f, int64_t c) const {
    if (f.is_nan) return {.value = kNan, .bound = 0, .variance = 0};
    const Expected open{.value = 0, .bound = HUGE_VAL, .variance = 0, .is_open = true};
    if (f.is_open) return open;
    const double u = units_.out_sum;
    double sum = 0, magnitudes = 0, error = 0, variance = 0, squares = 0, size = 0;
    for (size_t h = 0; h < f.z.size(); ++h) {
      const double weight = to_out_.values[static_cast<size_t>(c * to_out_.columns) + h], z = f.z[h];
      if (std::isinf(weight) && std::abs(z) <= f.error[h]) return open;
      sum += weight * z;
      magnitudes += std::abs(weight * z);
      squares += square(weight * z);
      error += std::abs(weight) * f.error[h];
      variance += weight * weight * f.variance[h];
      size += std::abs(z) + f.error[h];
    }
    if (!std::isfinite(sum)) return {.value = sum, .bound = 0, .variance = 0};
    if (magnitudes + error >= kOverflow) return open;
    const double n = static_cast<double>(to_out_.columns) * units_.products;
    error += units_.out_weight * magnitudes + roundings(n) * u * (magnitudes + error);
    if (units_.out_weight > 0 && units_.is_scaled) error += kUnderflowF16 * to_out_.largest * size;
    if (magnitudes > 0) error += n * units_.tiny_out;
    variance += square(units_.out_weight) * squares + n * square(u) * (sum * sum / 9 + squares / 6);
    if (std::abs(sum) <= 0x1p-30 * error) sum = 0;  // less than what the oracle itself can tell from 0
    error *= 1 + 0x1p-20;
    const bool is_cancelled = f.amplified >= kHighestAmplified;
    const double noise = is_cancelled ? error : kLambda * std::sqrt(variance);
    return {.value = sum, .bound = error, .variance = variance, .is_open = false, .noise = noise};
  }

  const Question& question_;
  Fault fault_;
  Units units_;
  int64_t nodes_, channels_, hidden_;
  std::vector<double> norm_weight_, norm_bias_, out_norm_weight_, out_norm_bias_;
  Projection left_, left_gate_, right_, right_gate_, out_gate_, to_out_;
  struct {
    double xn = 0, left = 0, right = 0, hidden = 0, z = 0, gate = 0;
  } lost_;                                   // to underflow in f16, at most
  bool is_meaningless_ = false;              // the scales of f16
  bool is_uniform_ = true;                   // hidden channels have equal weights
  mutable std::vector<Row> lefts_, rights_;  // filled when they are asked for
};

Solve solve(Fault fault, std::optional<Stage> only = {}) {
  return [fault, only](const Question& question, int) -> Answer {
    return [solved = std::make_shared<const TriMul>(question, fault, only)](std::span<const int64_t> elements,
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

std::vector<Share> shares(const Question& question, std::span<const int64_t> elements) {
  std::vector<Share> all;
  std::vector<Expected> expected(elements.size());
  for (Stage stage : kStages) {
    oracle::solve(oracle::Fault::kNothing, stage)(question, 0)(elements, expected);
    Share share{.stage = stage, .bound = 0, .variance = 0};
    double finite = 0;
    for (const Expected& e : expected) {
      if (e.is_open || !std::isfinite(e.value)) continue;
      ++finite;
      share.bound += e.bound;
      share.variance += e.variance;
    }
    share.bound /= std::max(finite, 1.0);
    share.variance /= std::max(finite, 1.0);
    all.push_back(share);
  }
  return all;
}

std::vector<Oracle> oracles() {
  using oracle::Fault;
  using oracle::solve;
  return {
      {.op = "trimul",
       .solve = solve(Fault::kNothing),
       .counterfeits = {{"the mask is ignored", solve(Fault::kMaskIgnored)},
                        {"right is read transposed", solve(Fault::kRightTransposed)},
                        {"projections and gates are swapped", solve(Fault::kProjectionsAndGatesSwapped)}}}};
}

}  // namespace assay::trimul
