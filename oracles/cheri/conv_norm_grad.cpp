// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <limits>

#include "kernels/core/parallel.h"
#include "oracles/cheri/statistics.h"

namespace assay::cheri::oracle {
namespace {

// What the gradients of one example need besides its statistics.
struct Means {
  double dy = 0;             // m1, the mean of dy
  double dyy = 0;            // m2, that of dy*y
  double dyy_magnitude = 0;  // mean of |dy*y|
  double dy_error = 0;
  double dyy_error = 0;
  double dy_variance = 0;
  double dyy_variance = 0;
  bool is_open = false;
  bool has_nonfinite_dy = false;
};

// dconv of one element, with the error that is its own and the one that it shares with its example.
struct Gradient {
  double value = 0;
  double y = 0;
  double own = 0;
  double error = 0;
  double own_variance = 0;
  double variance = 0;
  bool is_open = false;
};

Means means_of(const std::vector<double>& dy, const std::vector<ConvValue>& conv, const Statistics& s,
               Fault fault) {
  const auto count = static_cast<double>(dy.size());
  Means m;
  double sum = 0, sum_abs = 0, product = 0, product_abs = 0;
  const double reference = std::isfinite(dy.front()) ? dy.front() : 0;
  for (size_t i = 0; i < dy.size(); ++i) {
    const Normalised y = normalise(s, conv[i]);
    if (!std::isfinite(dy[i])) {
      m.has_nonfinite_dy = true;
      if (std::abs(y.value) <= y.error) m.is_open = true;
    }
    sum += dy[i] - reference;
    sum_abs += std::abs(dy[i]);
    product += dy[i] * y.value;
    product_abs += std::abs(dy[i] * y.value);
  }
  m.dy = reference + sum / count;
  m.dyy = product / count;
  m.dyy_magnitude = product_abs / count;
  if (fault != Fault::kNothing || m.has_nonfinite_dy) return m;

  // Errors of y in the sum of dy * y. What all y share meets the sum of dy, or that of dy * y itself.
  const double rstd = s.rstd * (1 + s.rstd_error);
  double own = 0, own_squares = 0, own_variances = 0;
  for (size_t i = 0; i < dy.size(); ++i) {
    const Normalised y = normalise(s, conv[i]);
    const double from_mean = dy[i] - m.dy;
    const double conv_variance = s.rstd * s.rstd * conv[i].variance;
    const double limit = std::abs(from_mean) * rstd * conv[i].error + std::abs(dy[i]) * y.local;
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
  m.dyy_error = limit_of_sum(own, own_squares, r) / count + shared + u * std::abs(m.dyy) +
                in_f64 * (m.dyy_magnitude + 2 * s.reach * sum_abs / count) + underflow;
  const double held = s.rstd * s.held_error * m.dy;
  m.dyy_variance =
      r * own_variances / count / count + held * held / 3 + (s.rstd_variance + u * u / 3) * m.dyy * m.dyy;
  return m;
}

// dconv = rstd * (dy - m1 - y * m2)
Gradient gradient(double dy, const ConvValue& conv, const Statistics& s, const Means& m, Fault fault) {
  const double u = kUnit;
  const Normalised y = normalise(s, conv);
  const double m1 = fault == Fault::kMeanKept ? 0 : m.dy;
  const double m2 = m.dyy;
  double difference = dy - m1 - y.value * m2;
  // Less than the oracle itself can tell from 0.
  const double noise = 0x1p-44 * (std::abs(dy) + std::abs(m1) + std::abs(y.value) * m.dyy_magnitude);
  if (std::isfinite(noise) && std::abs(difference) <= noise) difference = 0;
  Gradient g{.value = s.rstd * difference, .y = y.value};
  if (m.has_nonfinite_dy) {
    g.is_open = m.is_open || std::abs(y.value) <= y.error;
    return g;
  }
  g.is_open = m.is_open;
  if (s.is_single) return g;  // dy - dy - 0
  const double rstd = s.rstd * (1 + s.rstd_error);
  const double projection = std::abs(y.value * m2);
  const double centred = std::abs(dy - m1);
  const double roundings = 2 * centred + 2 * projection + std::abs(difference);  // of dy - m1 - y * m2
  const double shared =
      m.dy_error + (std::abs(y.value) + y.error) * m.dyy_error + std::abs(m2) * (y.error - y.own);
  // Of the difference's two products and of its product with rstd.
  const double underflow = roundings > 0 && roundings < 0x1p-100 ? kUnderflow * (2 * rstd + 1) : 0;
  g.own = rstd * (std::abs(m2) * y.own + u * roundings + noise) + 2 * u * std::abs(g.value) + underflow;
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

// What all elements of both gradients share.
struct Shared {
  Taps taps;
  std::vector<Statistics> statistics;
  std::vector<Means> means;
};

Shared share(const Question& question, Fault fault) {
  require_f32_recipe(question.recipe);
  Shared shared{Taps(question, question.inputs[2], fault), {}, {}};
  const ConstTensorView& x = question.inputs[1];
  if (x.size() == 0) return shared;
  const auto examples = static_cast<size_t>(x.shape[0]);
  shared.statistics.resize(examples);
  shared.means.resize(examples);
  parallel_for(x.shape[0], std::max<int64_t>(1, 4096 / shared.taps.count()), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const auto at = static_cast<size_t>(n);
      const std::vector<ConvValue> conv = convolve(Elements(x).example(n), shared.taps);
      shared.statistics[at] = statistics_of(conv, fault);
      shared.means[at] =
          means_of(Elements(question.inputs[0]).example(n), conv, shared.statistics[at], fault);
    }
  });
  return shared;
}

Answer input_gradient(const Question& question, Fault fault) {
  return [&question, fault, shared = share(question, fault)](std::span<const int64_t> elements,
                                                             std::span<Expected> expected) {
    const Elements dy(question.inputs[0]), x(question.inputs[1]);
    const Taps& taps = shared.taps;
    const double u = kUnit;
    for (size_t i = 0; i < elements.size(); ++i) {
      const int64_t c = elements[i] % taps.channels;
      const int64_t l = elements[i] / taps.channels % taps.length;
      const int64_t n = elements[i] / taps.count();
      const auto example = static_cast<size_t>(n);
      double value = 0, error = 0, variance = 0, magnitude = 0, products = 0;
      bool is_open = shared.statistics[example].is_open;
      for (int k = taps.first; k < 3; ++k) {
        const int64_t to = l + (1 - k) * taps.dilation;
        if (to < 0 || to >= taps.length) continue;
        const ConvValue conv = taps.at([&](int64_t at, int64_t channel) { return x(n, at, channel); }, to, c);
        const Gradient g =
            gradient(dy(n, to, c), conv, shared.statistics[example], shared.means[example], fault);
        const double w = taps.weight(k, c);
        is_open |= g.is_open;
        value += g.value * w;
        if (w == 0) continue;
        error += std::abs(w) * g.error;
        magnitude += std::abs(w) * (std::abs(g.value) + g.error);
        variance += w * w * g.variance + u * u * g.value * g.value * w * w;
        ++products;
      }
      is_open |= magnitude >= kOverflow;
      error += gamma(products, u) * magnitude + (magnitude > 0 ? products * kUnderflow : 0);
      const bool is_nan = shared.statistics[example].is_nan;
      expected[i] = is_open && !is_nan ? open() : stored(value, error, variance, question.recipe.storage);
    }
  };
}

// The sum of dconv * x over the positions of an example, and over examples, for one element of dw.
struct TapSum {
  // Of the current example.
  double value = 0, x = 0, xy = 0;
  // Of all examples.
  double total = 0, terms = 0;
  double magnitude = 0, squares = 0, largest = 0;     // of the products
  double own = 0, own_squares = 0, own_variance = 0;  // errors of dconv
  double shared = 0, shared_squares = 0, shared_variance = 0;
  bool is_open = false, is_nan = false;

  void add(const Gradient& g, double factor) {
    const double product = g.value * factor;
    value += product;
    terms += 1;
    is_open |= g.is_open;
    if (!std::isfinite(product)) return;
    x += factor;
    xy += factor * g.y;
    magnitude += std::abs(product);
    largest = std::max(largest, std::abs(product));
    squares += product * product;
    const double limit = std::abs(factor) * g.own;
    own += limit;
    own_squares += limit * limit;
    own_variance += factor * factor * g.own_variance;
  }

  void end_example(const Statistics& s, const Means& m) {
    const double rstd = s.rstd * (1 + s.rstd_error);
    const double shift = rstd * s.mean_error;
    const double m2 = std::abs(m.dyy);
    const double limit = rstd * (m.dy_error * std::abs(x) + m.dyy_error * std::abs(xy) +
                                 m2 * (shift * std::abs(x) + s.rstd_error * std::abs(xy))) +
                         s.rstd_error * std::abs(value);
    if (std::isfinite(limit)) {
      shared += limit;
      shared_squares += limit * limit;
      shared_variance +=
          s.rstd * s.rstd *
              (m.dy_variance * x * x + m.dyy_variance * xy * xy +
               m2 * m2 * (s.rstd * s.rstd * s.mean_variance * x * x + s.rstd_variance * xy * xy)) +
          s.rstd_variance * value * value;
    }
    total += value;
    value = x = xy = 0;
  }

  void merge(const TapSum& other) {
    total += other.total;
    terms += other.terms;
    magnitude += other.magnitude;
    largest = std::max(largest, other.largest);
    squares += other.squares;
    own += other.own;
    own_squares += other.own_squares;
    own_variance += other.own_variance;
    shared += other.shared;
    shared_squares += other.shared_squares;
    shared_variance += other.shared_variance;
    is_open |= other.is_open;
    is_nan |= other.is_nan;
  }

  // `twins`: most examples with the same data. `repeats`: most equal terms.
  Expected expected(double twins, double repeats, DType storage) const {
    if (is_nan) return {.value = std::numeric_limits<double>::quiet_NaN(), .bound = 0, .variance = 0};
    if (is_open || std::min<double>(terms, kTapGroup) * largest >= kOverflow) return open();
    if (!std::isfinite(total)) return {.value = total, .bound = 0, .variance = 0};
    const double u = kUnit, k = std::min(terms, static_cast<double>(kTapGroup));
    const double product_squares = u * u * k * k * squares;
    const double underflow = magnitude > 0 ? terms * kUnderflow : 0;
    const double error = limit_of_sum(own, own_squares, repeats) +
                         limit_of_sum(shared, shared_squares, twins) +
                         limit_of_sum(gamma(k, u) * magnitude, product_squares, repeats) + underflow +
                         additions_in_f64(terms + 2, repeats) * kUnit64 * magnitude + u * std::abs(total);
    const double variance =
        repeats * (own_variance + product_squares / 9) + twins * shared_variance + u * u / 3 * total * total;
    return stored(total, magnitude == 0 && own == 0 && shared == 0 ? 0 : error, variance, storage);
  }
};

// Most examples whose statistics agree to the bit.
double most_twins(const Shared& shared) {
  std::vector<std::array<double, 3>> keys;
  for (size_t n = 0; n < shared.statistics.size(); ++n) {
    if (shared.statistics[n].is_nan || shared.means[n].has_nonfinite_dy) continue;
    keys.push_back({shared.statistics[n].mean, shared.statistics[n].rstd, shared.means[n].dyy});
  }
  std::ranges::sort(keys);
  size_t most = 1;
  for (size_t begin = 0; begin < keys.size();) {
    size_t end = begin + 1;
    while (end < keys.size() && keys[end] == keys[begin]) ++end;
    most = std::max(most, end - begin);
    begin = end;
  }
  return static_cast<double>(most);
}

void add_example(const Question& question, const Shared& shared, int64_t n, Fault fault,
                 std::vector<TapSum>& sums) {
  const Taps& taps = shared.taps;
  const auto example = static_cast<size_t>(n);
  const Statistics& s = shared.statistics[example];
  const Means& m = shared.means[example];
  const std::vector<double> x = Elements(question.inputs[1]).example(n);
  const std::vector<double> dy = Elements(question.inputs[0]).example(n);
  const auto x_at = [&](int64_t l, int64_t c) { return x[static_cast<size_t>(l * taps.channels + c)]; };
  for (int64_t l = 0; l < taps.length; ++l) {
    for (int64_t c = 0; c < taps.channels; ++c) {
      Gradient g = gradient(dy[static_cast<size_t>(l * taps.channels + c)], taps.at(x_at, l, c), s, m, fault);
      g.is_open |= s.is_open;
      for (int k = taps.first; k < 3; ++k) {
        const int64_t from = l + (k - 1) * taps.dilation;
        if (from < 0 || from >= taps.length) continue;
        TapSum& sum = sums[static_cast<size_t>(k * taps.channels + c)];
        sum.add(g, x_at(from, c));
        sum.is_nan |= s.is_nan;
      }
    }
  }
  for (TapSum& sum : sums) sum.end_example(s, m);
}

Answer tap_gradient(const Question& question, Fault fault) {
  const Shared shared = share(question, fault);
  const int64_t examples = static_cast<int64_t>(shared.statistics.size());
  const auto outputs = static_cast<size_t>(3 * shared.taps.channels);
  constexpr int64_t kBlocks = 16;  // of examples; added in order
  const int64_t block = std::max<int64_t>(1, (examples + kBlocks - 1) / kBlocks);
  std::vector<std::vector<TapSum>> blocks(static_cast<size_t>((examples + block - 1) / block));
  parallel_for(examples, block, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      std::vector<TapSum>& sums = blocks[static_cast<size_t>(n / block)];
      sums.resize(outputs);
      add_example(question, shared, n, fault, sums);
    }
  });
  std::vector<TapSum> sums(outputs);
  for (const auto& part : blocks) {
    for (size_t i = 0; i < outputs; ++i) sums[i].merge(part[i]);
  }
  double repeats = 1;
  for (const Statistics& s : shared.statistics) repeats = std::max(repeats, s.repeats);
  const double twins = most_twins(shared);
  std::vector<Expected> all;
  for (const TapSum& sum : sums) all.push_back(sum.expected(twins, twins * repeats, question.recipe.storage));
  return [all = std::move(all)](std::span<const int64_t> elements, std::span<Expected> expected) {
    for (size_t i = 0; i < elements.size(); ++i) expected[i] = all[static_cast<size_t>(elements[i])];
  };
}

}  // namespace

Solve conv_norm_grad(Fault fault) {
  return [fault](const Question& question, int output) -> Answer {
    return output == 0 ? input_gradient(question, fault) : tap_gradient(question, fault);
  };
}

}  // namespace assay::cheri::oracle
