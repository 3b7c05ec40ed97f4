// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "oracles/cheri/gradient.h"

namespace assay::cheri::oracle {
namespace {

Means means_of(const std::vector<double>& dy, const std::vector<ConvValue>& conv, const Statistics& s) {
  const auto count = static_cast<double>(dy.size());
  Means m;
  double sum = 0, sum_abs = 0, product = 0, product_abs = 0;
  const double reference = dy.front();
  for (size_t i = 0; i < dy.size(); ++i) {
    const Normalised y = normalise(s, conv[i]);
    sum += dy[i] - reference;
    sum_abs += std::abs(dy[i]);
    product += dy[i] * y.value;
    product_abs += std::abs(dy[i] * y.value);
  }
  m.dy = reference + sum / count;
  m.dyy = product / count;
  m.dyy_magnitude = product_abs / count;

  // Errors of y in the sum of dy * y. What all y share meets the sum of dy, or that of dy * y itself.
  const double rstd = s.rstd * (1 + s.rstd_error);
  double own = 0, own_squares = 0, own_variances = 0, subtracting = 0;
  for (size_t i = 0; i < dy.size(); ++i) {
    const Normalised y = normalise(s, conv[i]);
    const double from_mean = dy[i] - m.dy;
    const double conv_variance = s.rstd * s.rstd * conv[i].variance;
    const double limit =
        std::abs(from_mean) * rstd * conv[i].error + std::abs(dy[i]) * (y.local - y.subtracting);
    subtracting += std::abs(dy[i]) * y.subtracting;
    own += limit;
    own_squares += limit * limit;
    own_variances +=
        from_mean * from_mean * conv_variance + dy[i] * dy[i] * std::max(y.own_variance - conv_variance, 0.0);
  }
  const double u = kUnit, r = s.repeats;
  const double in_f64 = additions_in_f64(count + 4, r) * kUnit64;
  const double underflow = sum_abs > 0 ? kUnderflow : 0;
  m.dy_error = ((count + 4) * kUnit64 + 4 * u * u) * sum_abs / count + underflow;
  m.dy_variance = m.dy_error * m.dy_error / 3;
  const double shared = rstd * s.held_error * std::abs(m.dy) + s.rstd_error * std::abs(m.dyy);
  m.dyy_error = limit_of_sum(own, own_squares, r) / count + subtracting / count + shared +
                u * std::abs(m.dyy) + in_f64 * (m.dyy_magnitude + 2 * s.reach * sum_abs / count) + underflow;
  const double held = s.rstd * s.held_error * m.dy;
  m.dyy_variance = r * own_variances / count / count + subtracting * subtracting / count / count / 6 +
                   held * held / 3 + (s.rstd_variance + u * u / 3) * m.dyy * m.dyy;
  return m;
}

// The same for a counterfeit: without errors.
Means mean_values(const std::vector<double>& dy, const std::vector<double>& conv, const Statistics& s) {
  const auto count = static_cast<double>(dy.size());
  const double reference = dy.front();
  double sum = 0, product = 0, product_abs = 0;
  for (size_t i = 0; i < dy.size(); ++i) {
    const double term = dy[i] * ((conv[i] - s.mean) * s.rstd);
    sum += dy[i] - reference;
    product += term;
    product_abs += std::abs(term);
  }
  Means m;
  m.dy = reference + sum / count;
  m.dyy = product / count;
  m.dyy_magnitude = product_abs / count;
  return m;
}

// dy - m1 - y * m2
struct Difference {
  double value;
  double noise;  // less than the oracle itself can tell from 0
};

Difference difference_of(double dy, double y, double m1, const Means& m) {
  const double noise = 0x1p-44 * (std::abs(dy) + std::abs(m1) + std::abs(y) * m.dyy_magnitude);
  const double value = dy - m1 - y * m.dyy;
  return {std::abs(value) <= noise ? 0 : value, noise};
}

Example example_of(const Question& question, const Taps& taps, Fault fault, int64_t n) {
  const std::vector<double> dy = Reader(question.inputs[grad::kDy]).all({n});
  if (!std::ranges::all_of(dy, [](double value) { return std::isfinite(value); })) {
    return {.statistics = nan_statistics(), .means = {}};
  }
  const std::vector<double> x = Reader(question.inputs[grad::kX]).all({n});
  if (fault == Fault::kNothing) {
    const std::vector<ConvValue> conv = convolve(x, taps);
    const Statistics s = statistics_of(conv);
    return {s, means_of(dy, conv, s)};
  }
  const std::vector<double> conv = convolve_values(x, taps);
  Statistics s = values_of(conv);
  leave_epsilon_out(s, fault, taps);
  return {s, mean_values(dy, conv, s)};
}

}  // namespace

double gradient_value(double dy, double conv, const Statistics& s, const Means& m, Fault fault) {
  const double m1 = fault == Fault::kMeanKept ? 0 : m.dy;
  return s.rstd * difference_of(dy, (conv - s.mean) * s.rstd, m1, m).value;
}

Gradient gradient(double dy, const ConvValue& conv, const Statistics& s, const Means& m) {
  const double u = kUnit;
  const Normalised y = normalise(s, conv);
  const double m1 = m.dy;
  const double m2 = m.dyy;
  const auto [difference, noise] = difference_of(dy, y.value, m1, m);
  Gradient g{.value = s.rstd * difference, .y = y.value};
  if (s.is_single) return g;  // dy - dy - 0
  const double rstd = s.rstd * (1 + s.rstd_error);
  const double projection = std::abs(y.value * m2);
  const double centred = std::abs(dy - m1);
  const double roundings = 2 * centred + 2 * projection + std::abs(difference);  // of dy - m1 - y * m2
  const double shared =
      m.dy_error + (std::abs(y.value) + y.error) * m.dyy_error + std::abs(m2) * (y.error - y.own);
  // Of the difference's two products and of its product with rstd.
  double underflow = roundings > 0 && roundings < 0x1p-100 ? kUnderflow * 2 * rstd : 0;
  g.own = rstd * (std::abs(m2) * y.own + u * roundings + noise) + 2 * u * std::abs(g.value);
  const double magnitude = std::abs(g.value) + g.own;
  if (magnitude > 0 && magnitude < 0x1p-124) underflow += kUnderflow;
  g.own += underflow;
  g.error = g.own + rstd * shared + s.rstd_error * std::abs(g.value);
  const double square = s.rstd * s.rstd;
  g.own_variance =
      square * (m2 * m2 * y.own_variance +
                u * u / 3 * (2 * centred * centred + 2 * projection * projection + difference * difference)) +
      u * u / 3 * g.value * g.value + underflow * underflow / 3;
  g.variance =
      g.own_variance + s.rstd_variance * g.value * g.value +
      square * (m.dy_variance + y.value * y.value * m.dyy_variance + m2 * m2 * (y.variance - y.own_variance));
  return g;
}

Shared share(const Question& question, Fault fault) {
  require_f32_recipe(question.recipe);
  const Taps taps(question, question.inputs[grad::kW], fault);
  const ConstTensorView& x = question.inputs[grad::kX];
  if (fault != Fault::kNothing && all_statistics(x, taps, fault) == nullptr) return {taps, nullptr};
  auto examples = std::make_shared<const PerExample<Example>>(
      x.size() == 0 ? 0 : x.shape[0],
      [&question, taps, fault](int64_t n) { return example_of(question, taps, fault, n); });
  if (fault == Fault::kNothing) examples->compute_all(taps.count());
  return {taps, examples};
}

namespace {

// Calls term(k, to) for every position `to` whose dconv is in dx[l].
template <class Term>
void for_each_target(const Taps& taps, int64_t l, const Term& term) {
  for (int k = taps.first; k < 3; ++k) {
    const int64_t to = l + (1 - k) * taps.dilation;
    if (to >= 0 && to < taps.length) term(k, to);
  }
}

Expected expected_dx(const Question& question, const Shared& shared, int64_t n, int64_t l, int64_t c) {
  const Reader dy(question.inputs[grad::kDy]), x(question.inputs[grad::kX]);
  const auto x_at = [&](int64_t at, int64_t channel) { return x({n, at, channel}); };
  const Taps& taps = shared.taps;
  const auto& [s, m] = (*shared.examples)[n];
  if (s.is_nan) return {.value = std::numeric_limits<double>::quiet_NaN(), .bound = 0, .variance = 0};
  const double u = kUnit;
  double value = 0, error = 0, variance = 0, magnitude = 0, products = 0;
  bool may_overflow = false;
  for_each_target(taps, l, [&, &s = s, &m = m](int k, int64_t to) {
    const ConvValue conv = taps.at(x_at, to, c);
    const Gradient g = gradient(dy({n, to, c}), conv, s, m);
    const double w = taps.weight(k, c);
    value += g.value * w;
    may_overflow |= std::abs(g.value) + g.error >= kOverflow;
    if (w == 0) return;
    error += std::abs(w) * g.error;
    magnitude += std::abs(w) * (std::abs(g.value) + g.error);
    variance += w * w * g.variance + u * u * g.value * g.value * w * w;
    ++products;
  });
  if (s.is_open || may_overflow || magnitude >= kOverflow) return open();
  error += gamma(products, u) * magnitude + (magnitude > 0 ? products * kUnderflow : 0);
  return stored(value, error, variance, question.recipe.storage);
}

Expected counterfeit_dx(const Question& question, const Shared& shared, Fault fault, int64_t n, int64_t l,
                        int64_t c) {
  const Reader dy(question.inputs[grad::kDy]), x(question.inputs[grad::kX]);
  const auto x_at = [&](int64_t at, int64_t channel) { return x({n, at, channel}); };
  const Taps& taps = shared.taps;
  const auto& [s, m] = (*shared.examples)[n];
  double value = 0;
  for_each_target(taps, l, [&, &s = s, &m = m](int k, int64_t to) {
    const double conv = taps.value_at(x_at, to, c);
    value += gradient_value(dy({n, to, c}), conv, s, m, fault) * taps.weight(k, c);
  });
  return {.value = value, .bound = 0, .variance = 0};
}

Answer input_gradient(const Question& question, Fault fault) {
  const Shared shared = share(question, fault);
  if (shared.examples == nullptr) return nullptr;
  return [&question, fault, shared](std::span<const int64_t> elements, std::span<Expected> expected) {
    const Taps& taps = shared.taps;
    for (size_t i = 0; i < elements.size(); ++i) {
      const int64_t c = elements[i] % taps.channels;
      const int64_t l = elements[i] / taps.channels % taps.length;
      const int64_t n = elements[i] / taps.count();
      expected[i] = fault == Fault::kNothing ? expected_dx(question, shared, n, l, c)
                                             : counterfeit_dx(question, shared, fault, n, l, c);
    }
  };
}

}  // namespace

Solve conv_norm_grad(Fault fault) {
  return [fault](const Question& question, int output) -> Answer {
    const bool is_dx = static_cast<size_t>(output) == grad::kDx;
    return is_dx ? input_gradient(question, fault) : tap_gradient(question, fault);
  };
}

}  // namespace assay::cheri::oracle
