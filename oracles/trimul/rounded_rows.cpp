// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "kernels/trimul/trimul.h"
#include "oracles/trimul/alike.h"
#include "oracles/trimul/roundings.h"

namespace assay::trimul::oracle {
namespace {

// The t with b t - p = lambda sqrt(s + 2 t common + t^2 s_tau), the limit of a quotient by 1 + tau.
double quotient(double b, double p, double lambda, double s, double common, double s_tau) {
  const double l2 = lambda * lambda, a = b * b - l2 * s_tau, half = b * p + l2 * common;
  if (!(b > 0 && a > 0)) return HUGE_VAL;
  return (half + std::sqrt(std::max(0.0, half * half - a * (p * p - l2 * s)))) / a;
}

}  // namespace

// One edge of out.
class Roundings::Finished {
 public:
  Finished(const Roundings& of, int64_t b, int64_t i, int64_t j, const Finish& f)
      : of_(of),
        units_(of.units_),
        f_(f),
        channels_(of.channels_),
        hidden_(of.hidden_),
        n_(static_cast<double>(hidden_)),
        u_(units_.norm_out),
        sigma_(f.statistics.sigma),
        edge_(of.sides_.edge(b, i, j)),
        all_(hidden_),
        equal_z_(counts_of(magnitudes_of({f.z, f.z + hidden_}))) {
    const Node &left = of.node(false, b, i), &right = of.node(true, b, j);
    const std::shared_ptr<const Row> l = of.sides_.left(b, i), r = of.sides_.right(b, j);
    Alike alike(units_);
    for (size_t h = 0; h < hidden_; ++h) alike.add(f.z[h]);
    for (double& count : equal_z_) count = std::max(count, growth(alike.kappa()));
    if (!f.is_uniform) all_ = of.channels(left, right, *l, *r, f);
    measure_gates();
    measure_hidden();
    make_forms();
    first_.resize(channels_ + 2);
    if (!f.is_uniform) first_ = of.shared(left, right, *l, *r, forms_);
    measure_norm();
  }

  void add_row(size_t c, Rows& to) const;

 private:
  // Of the sigmoid of the output's gate, by channel.
  struct Gates {
    std::vector<double> value, slope, steepest, s, weights;
    std::vector<double> own;     // limit
    std::vector<double> lost;    // as that of a Value
    std::vector<double> slopes;  // (H, columns): as of a Node
  };
  // Of one element, before the last sum: linear errors, products of errors, and what the former share with tau.
  struct Element {
    Errors linear;
    double products = 0, common = 0;
    double weights = 0;  // s of `linear` by the weights of projections and gates
  };

  void measure_gates();
  void measure_hidden();
  void make_forms();
  void measure_norm();
  // Of a form of hidden.
  double own_s(size_t h) const { return of_.twins_[h] * all_.own[h].s + all_.weights[h].s; }
  double second_of(size_t form) const;
  void add_channels(size_t form, Element& to) const;
  void add_gate(size_t c, Element& to) const;
  void add_output(size_t c, Element& to) const;
  void add_products(size_t c, Element& to) const;
  double error_of(size_t c, const Element& element, bool is_noise) const;
  size_t tau() const { return channels_ + 1; }

  const Roundings& of_;
  const Units& units_;
  const Finish& f_;
  size_t channels_, hidden_;
  double n_, u_, sigma_;
  Edge edge_;
  Channels all_;
  std::vector<double> equal_z_;
  Gates gates_;
  std::vector<double> normal_, deviation_, own_deviation_;  // (H), of hidden
  double mean_deviation_ = 0, mean_own_ = 0, mean_second_ = 0, range_ = 0, shift_ = 0;
  double mean_square_ = 0;  // of the errors of hidden, without their mean and tau
  // Linear forms of hidden, (C + 2, H): one for each c, the mean, tau.
  std::vector<double> forms_, sums_, magnitudes_, products_;
  std::vector<Form> first_;
  // Linear forms of the gates, (C, H), and what they make of the roundings of xn: (C, columns).
  std::vector<double> gate_forms_, through_gates_;
  Errors tau_;
  double second_tau_ = 0, tau_weights_ = 0;
};

void Roundings::Finished::measure_gates() {
  for (auto* values : {&gates_.value, &gates_.slope, &gates_.steepest, &gates_.s, &gates_.weights,
                       &gates_.own, &gates_.lost})
    values->resize(hidden_);
  gates_.slopes.resize(hidden_ * of_.columns_);
  const Projection& w = of_.out_gate_;
  const double storage = units_.gate_storage > 0 ? of_.lost_.gate : 0;
  Alike stored(units_.storage_bits);
  double known = 0;
  std::vector<double> limits(hidden_);  // of the rounding to the dtype between the steps
  const std::vector<Value> gates = project(w, edge_, units_);
  for (size_t h = 0; h < hidden_; ++h) {
    const Value& g = gates[h];
    const Gate gate = gate_of(g, units_, units_.out_gate, units_.underflow_out_gate);
    const double slope = sigmoid_slope(g.value, 0);
    gates_.value[h] = gate.value;
    gates_.slope[h] = slope;
    gates_.steepest[h] = gate.slope;
    gates_.s[h] = g.s;
    gates_.weights[h] = g.alike();
    const double unit = units_.gate_storage * gate.value,
                 error = gate.slope * error_of_projection(g) + std::sqrt(gate.s) + gate.underflow;
    limits[h] = std::min(unit, distance_from(units_.storage_bits, gate.value) + error);
    if (limits[h] < unit) {
      ++known;
    } else {
      stored.add(gate.value);
    }
    gates_.lost[h] = slope * g.lost + storage + units_.tiny_out_gate + gate.underflow;
    gates_.own[h] = std::sqrt(gate.s) + limits[h];
    double* slopes = &gates_.slopes[h * of_.columns_];
    for (size_t c = 0; c < channels_; ++c)
      slopes[c] = w.values[h * channels_ + c] * std::sqrt(edge_.repeats) * edge_.alike[c];
  }
  const double grown = std::sqrt(growth(stored.kappa())), grown_known = std::sqrt(growth(known));
  for (size_t h = 0; h < hidden_; ++h) {
    const bool is_known = limits[h] < units_.gate_storage * gates_.value[h];
    gates_.own[h] += ((is_known ? grown_known : grown) - 1) * limits[h];
  }
}

void Roundings::Finished::measure_hidden() {
  for (auto* values : {&normal_, &deviation_, &own_deviation_}) values->resize(hidden_);
  std::vector<double> error(hidden_);
  double most = 0;
  for (size_t h = 0; h < hidden_; ++h) {
    const double s = all_.xn[h] + all_.own[h].s + all_.weights[h].s;
    normal_[h] = (f_.hidden[h] - f_.statistics.mean) / sigma_;
    if (!f_.is_uniform)
      error[h] = std::min(f_.hidden_error[h], kLambda * std::sqrt(s) + all_.second[h] + all_.second_own[h]);
    most = std::max(most, error[h]);
    own_deviation_[h] = std::sqrt(own_s(h));
    deviation_[h] = std::sqrt(all_.xn[h]);
    mean_deviation_ += deviation_[h] / n_;
    mean_second_ += (all_.second[h] + all_.second_own[h]) / n_;
    mean_own_ += square(own_deviation_[h] / n_);
  }
  range_ = f_.is_uniform ? 0 : f_.statistics.range + 2 * most;
  shift_ = mean_roundings(n_) * u_ * range_ + (range_ == 0 ? 0 : units_.tiny_norm_out);
  if (!f_.is_uniform) shift_ += units_.norm_mean * std::abs(f_.statistics.mean);
  for (double one : error) mean_square_ += square(one + 2 * u_ * range_ + shift_) / n_;
}

void Roundings::Finished::make_forms() {
  forms_.resize((channels_ + 2) * hidden_);
  std::vector<double> a(hidden_);
  sums_.resize(channels_);
  magnitudes_.resize(channels_);
  products_.resize(channels_);
  for (size_t c = 0; c < channels_; ++c) {
    for (size_t h = 0; h < hidden_; ++h) {
      a[h] = of_.to_out_.values[c * hidden_ + h] * gates_.value[h] * of_.out_norm_weight_[h];
      sums_[c] += a[h];
      magnitudes_[c] += std::abs(a[h]);
      products_[c] += a[h] * normal_[h];
    }
    for (size_t h = 0; h < hidden_; ++h)
      forms_[c * hidden_ + h] = (a[h] - sums_[c] / n_ - normal_[h] * products_[c] / n_) / sigma_;
  }
  for (size_t h = 0; h < hidden_; ++h) {
    forms_[channels_ * hidden_ + h] = 1 / n_ / sigma_;
    forms_[tau() * hidden_ + h] = normal_[h] / n_ / sigma_;
  }
  gate_forms_.resize(channels_ * hidden_);
  for (size_t at = 0; at < gate_forms_.size(); ++at)
    gate_forms_[at] = of_.to_out_.values[at] * f_.y[at % hidden_];
  through_gates_.resize(channels_ * of_.columns_);
  multiply(gate_forms_.data(), channels_, gates_.slope.data(), hidden_, gates_.slopes.data(), of_.columns_,
           through_gates_.data());
}

// tau, and the mean square of the errors that change neither it nor the mean.
void Roundings::Finished::measure_norm() {
  Element tau_element{.linear = first_[tau()]};
  add_channels(tau(), tau_element);
  tau_ = tau_element.linear;
  tau_weights_ = tau_element.weights;
  second_tau_ = second_of(tau());
  // Sums over h: of s, of s^2, their largest; and of second order.
  double sum = 0, squares = 0, most = 0, xn = 0, second = 0;
  for (size_t h = 0; h < hidden_; ++h) {
    const double s = own_s(h), left = std::max(0.0, 1 - (1 + square(normal_[h])) / n_);
    sum += s * left;
    squares += s * s * left;
    most = std::max(most, s);
    xn += all_.xn[h];
    second += square(all_.second[h] + all_.second_own[h]);
  }
  xn -= n_ * square(sigma_) * (first_[channels_].least + first_[tau()].least);
  xn = std::max(xn, 0.0);
  constexpr double kSurprise = kLambda * kLambda / 2;
  const double linear =
      sum + xn + 2 * std::sqrt(kSurprise) * (std::sqrt(squares) + xn) + 2 * kSurprise * (most + xn);
  mean_square_ = std::min(mean_square_,
                          square(std::sqrt(linear / n_) + std::sqrt(second / n_) + 2 * u_ * range_ + shift_));
}

double Roundings::Finished::second_of(size_t form) const {
  double second = 0, own = 0;
  for (size_t h = 0; h < hidden_; ++h) {
    const double a = std::abs(forms_[form * hidden_ + h]);
    second += a * all_.second[h];
    own += a * a * of_.twins_[h] * square(all_.second_own[h]);
  }
  return second + std::sqrt(own);
}

void Roundings::Finished::add_channels(size_t form, Element& to) const {
  double common = 0;
  for (size_t h = 0; h < hidden_; ++h) {
    const double a = forms_[form * hidden_ + h];
    to.linear.s += a * a * own_s(h);
    to.weights += a * a * all_.weights[h].s;
    to.linear.limit += std::abs(a) * (all_.own[h].limit + all_.weights[h].limit);
    common += a * forms_[tau() * hidden_ + h] * own_s(h);
  }
  const Form& shared = first_[form];
  to.common += std::max(std::abs(common + shared.least_common), std::abs(common + shared.most_common));
}

void Roundings::Finished::add_gate(size_t c, Element& to) const {
  const double* form = &gate_forms_[c * hidden_];
  Errors xn;
  for (size_t at = c * of_.columns_; at < (c + 1) * of_.columns_; ++at) xn.add(through_gates_[at]);
  // The edge of the gate may be one of those of left and right.
  to.linear.s += xn.s + 2 * std::sqrt(xn.s * first_[c].s);
  to.linear.limit += xn.limit;
  to.common += std::sqrt(xn.s * first_[tau()].s);
  for (size_t h = 0; h < hidden_; ++h) {
    const double by_gate = std::abs(form[h]);
    for (size_t at = h * channels_; at < (h + 1) * channels_; ++at) {
      const double through = by_gate * gates_.slope[h] * edge_.xn[at - h * channels_];
      to.weights += of_.gate_weights_.squares[at] * through * through;
      to.linear.s += of_.gate_weights_.squares[at] * through * through;
      to.linear.limit += of_.gate_weights_.limits[at] * std::abs(through);
    }
    to.linear.add(by_gate * gates_.own[h], std::max(of_.gate_twins_[h], equal_z_[h]));
    to.products += by_gate * gates_.lost[h];
  }
}

// What the norm, the product with the gate and the last factors round.
void Roundings::Finished::add_output(size_t c, Element& to) const {
  double shared = 0;
  const double lost_weight = units_.out_weight > 0 ? units_.lost_weight(of_.to_out_.largest) : 0;
  for (size_t h = 0; h < hidden_; ++h) {
    const size_t at = c * hidden_ + h;
    const double weight = std::abs(of_.to_out_.values[at]);
    const double twins = std::max(of_.gate_twins_[h], equal_z_[h]);
    const double y = 3 * u_ * std::abs(normal_[h] * of_.out_norm_weight_[h]) + u_ * std::abs(f_.y[h]);
    to.linear.add(weight * gates_.value[h] * y, twins);
    const double z = std::abs(f_.z[h]) + f_.z_error[h];
    const double of_y = units_.tiny_norm_out * (1 + (range_ == 0 ? 0 : std::abs(of_.out_norm_weight_[h])));
    const double lost =
        gates_.value[h] * of_y + units_.tiny_out_gate + (units_.out_factor > 0 ? of_.lost_.z : 0);
    to.linear.add(weight * (units_.out_gate + units_.out_factor) * z, twins);
    to.products += weight * lost + lost_weight * z;
    to.linear.s += of_.out_weights_.squares[at] * z * z;
    to.linear.limit += of_.out_weights_.limits[at] * z;
    shared += of_.out_weights_.shared[at] * z * z;
  }
  // Weights that are among those of projections and gates err as they do.
  to.linear.s += 2 * std::sqrt(to.weights * shared);
  to.common += std::sqrt(shared * tau_weights_);
}

// Of errors of y and of the gate, and of the gate's with themselves.
void Roundings::Finished::add_products(size_t c, Element& to) const {
  to.products += second_of(c);
  double of_channels = 0;
  for (size_t h = 0; h < hidden_; ++h) {
    const double weight = std::abs(of_.to_out_.values[c * hidden_ + h]), slope = gates_.slope[h];
    const double of_y = weight * std::abs(of_.out_norm_weight_[h]) / sigma_, own = of_y * own_deviation_[h];
    const double common = of_y * (deviation_[h] + mean_deviation_ + std::sqrt(mean_own_) +
                                  std::abs(normal_[h]) * sigma_ * std::sqrt(tau_.s));
    const double s = gates_.s[h], weights = gates_.weights[h], of_xn = slope * std::sqrt(s);
    const double of_weights = slope * std::sqrt(weights) + gates_.own[h] + gates_.lost[h];
    const double curve = weight * std::abs(f_.y[h]) * std::min(gates_.steepest[h], kMostCurved) / 2;
    // What is no linear error of hidden meets all errors of the gate.
    const double of_gate = gates_.steepest[h] * kLambda * (std::sqrt(2 * s) + std::sqrt(weights)) +
                           gates_.own[h] + gates_.lost[h];
    const double certain = all_.second[h] + all_.second_own[h] + mean_second_ + 2 * u_ * range_ + shift_ +
                           std::abs(normal_[h]) * sigma_ * second_tau_;
    to.products += of_y * certain * of_gate;
    to.products += kChaos * (curve * s + common * of_xn) + curve * (s + weights);
    const double mixed =
        std::max(of_.gate_twins_[h], equal_z_[h]) *
        square(curve * (2 * std::sqrt(s * weights) + weights) + own * of_xn + (own + common) * of_weights);
    // What is fixed is common to all channels.
    if (of_.has_fixed_) {
      to.products += kChaos * std::sqrt(mixed);
    } else {
      of_channels += mixed;
    }
  }
  to.products += kChaos * std::sqrt(of_channels);
}

// For noise, roundings are 1/sqrt(3) as large, and their products count 3 * 65 / 62 / 2 times (trimul.h).
double Roundings::Finished::error_of(size_t c, const Element& element, bool is_noise) const {
  const double lambda = kLambda * (is_noise ? std::sqrt(1 / 3.0) : 1),
               second = is_noise ? 65 / kChaos / 2 : 1;
  const double tau = is_noise ? lambda * std::sqrt(tau_.s) : tau_.bound();
  const double linear = is_noise ? lambda * std::sqrt(element.linear.s) : element.linear.bound();
  const double certain = 1 - second * second_tau_ - 2 * u_ * range_ / sigma_, least = certain - tau;
  if (!(least > 0)) return HUGE_VAL;
  const double others =
      second * element.products +
      (std::abs(sums_[c]) * shift_ + (magnitudes_[c] + std::abs(products_[c])) * 2 * u_ * range_) / sigma_;
  const double moved = std::min((linear + others) / least,
                                quotient(certain, others, lambda, element.linear.s, element.common, tau_.s));
  const double of_scale = (norm_additions(n_) + 4) * u_;
  const double curved = second * mean_square_ / square(sigma_ * least) / 2;
  return moved * (1 + of_scale) + std::abs(products_[c]) * (std::min(curved, 1.0) + of_scale);
}

void Roundings::Finished::add_row(size_t c, Rows& to) const {
  Element element{.linear = first_[c]};
  add_channels(c, element);
  add_gate(c, element);
  add_output(c, element);
  add_products(c, element);
  to.bound.push_back(error_of(c, element, false));
  to.noise.push_back(error_of(c, element, true));
}

Roundings::Rows Roundings::of(int64_t b, int64_t i, int64_t j, const Finish& f) const {
  const Finished finished(*this, b, i, j, f);
  Rows rows;
  for (size_t c = 0; c < channels_; ++c) finished.add_row(c, rows);
  return rows;
}

}  // namespace assay::trimul::oracle
