// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <limits>

#include "oracles/cheri/gradient.h"

namespace assay::cheri::oracle {
namespace {

// The sum of dconv * x over the positions of an example, and over examples, for one element of dw.
struct TapSum {
  // Of the current example.
  double value = 0, x = 0, xy = 0;
  // Of all examples.
  double total = 0, terms = 0;
  double magnitude = 0, squares = 0, largest = 0;     // of the products
  double own = 0, own_squares = 0, own_variance = 0;  // errors of dconv
  double shared = 0, shared_squares = 0, shared_variance = 0;
  bool is_open = false, is_nan = false;  // by an example that it sums

  void add(const Gradient& g, double factor) {
    is_open |= std::abs(g.value) + g.error >= kOverflow;
    const double product = g.value * factor;
    value += product;
    terms += 1;
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
    shared += limit;
    shared_squares += limit * limit;
    shared_variance +=
        s.rstd * s.rstd *
            (m.dy_variance * x * x + m.dyy_variance * xy * xy +
             m2 * m2 * (s.rstd * s.rstd * s.mean_variance * x * x + s.rstd_variance * xy * xy)) +
        s.rstd_variance * value * value;
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
    const double u = kUnit, k = std::min(terms, static_cast<double>(kTapGroup));
    // Roundings of sums of 1, 2, ..., k products: by Cauchy and Schwarz, and if the products are equal.
    const double product_squares = u * u * squares * k * (k + 1) / 2;
    const double product_variance = u * u * squares * (k + 1) * (2 * k + 1) / 18;
    const double underflow = magnitude > 0 ? terms * kUnderflow : 0;
    const double one_by_one = limit_of_sum(own, own_squares, repeats) +
                              limit_of_sum(gamma(k, u) * magnitude, product_squares, repeats);
    const double error = limit_of_sum(one_by_one, own_squares + product_squares, repeats) +
                         limit_of_sum(shared, shared_squares, twins) + underflow +
                         additions_in_f64(terms + 2, repeats) * kUnit64 * magnitude + u * std::abs(total);
    const double variance =
        repeats * (own_variance + product_variance) + twins * shared_variance + u * u / 3 * total * total;
    return stored(total, magnitude == 0 && own == 0 && shared == 0 ? 0 : error, variance, storage);
  }
};

// Most examples whose statistics agree to the bit, or would for -x and -dy: rounding is odd.
double most_twins(const Shared& shared) {
  std::vector<std::array<double, 3>> keys;
  for (int64_t n = 0; n < shared.examples->size(); ++n) {
    const auto& [s, m] = (*shared.examples)[n];
    if (!s.is_nan) keys.push_back({std::abs(s.mean), s.rstd, m.dyy});
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

void add_example(const Question& question, const Shared& shared, int64_t n, std::vector<TapSum>& sums) {
  const Taps& taps = shared.taps;
  const auto& [s, m] = (*shared.examples)[n];
  const std::vector<double> x = Reader(question.inputs[grad::kX]).all({n});
  const std::vector<double> dy = Reader(question.inputs[grad::kDy]).all({n});
  const auto x_at = [&](int64_t l, int64_t c) { return x[static_cast<size_t>(l * taps.channels + c)]; };
  for (int64_t l = 0; l < taps.length; ++l) {
    for (int64_t c = 0; c < taps.channels; ++c) {
      const Gradient g = gradient(dy[static_cast<size_t>(l * taps.channels + c)], taps.at(x_at, l, c), s, m);
      for (int k = 0; k < 3; ++k) {
        const int64_t from = l + (k - 1) * taps.dilation;
        if (from < 0 || from >= taps.length) continue;
        TapSum& sum = sums[static_cast<size_t>(k * taps.channels + c)];
        sum.is_nan |= s.is_nan;
        sum.is_open |= s.is_open;
        if (!s.is_nan) sum.add(g, x_at(from, c));
      }
    }
  }
  if (s.is_nan) return;
  for (TapSum& sum : sums) sum.end_example(s, m);
}

// The same for a counterfeit.
void add_values(const Question& question, const Shared& shared, Fault fault, int64_t n,
                std::vector<double>& sums) {
  const Taps& taps = shared.taps;
  const auto& [s, m] = (*shared.examples)[n];
  const std::vector<double> x = Reader(question.inputs[grad::kX]).all({n});
  const std::vector<double> dy = Reader(question.inputs[grad::kDy]).all({n});
  const std::vector<double> conv = convolve_values(x, taps);
  for (int64_t l = 0; l < taps.length; ++l) {
    for (int64_t c = 0; c < taps.channels; ++c) {
      const auto at = static_cast<size_t>(l * taps.channels + c);
      const double g = gradient_value(dy[at], conv[at], s, m, fault);
      for (int k = taps.first; k < 3; ++k) {
        const int64_t from = l + (k - 1) * taps.dilation;
        if (from < 0 || from >= taps.length) continue;
        sums[static_cast<size_t>(k * taps.channels + c)] +=
            g * x[static_cast<size_t>(from * taps.channels + c)];
      }
    }
  }
}

void merge(TapSum& sum, const TapSum& part) {
  sum.merge(part);
}
void merge(double& sum, double part) {
  sum += part;
}

// Sums over the examples, as many as there are elements of dw; add(n, sums) adds an example.
template <class Sum, class Add>
std::vector<Sum> sum_of_examples(const Shared& shared, const Add& add) {
  const int64_t examples = shared.examples->size();
  const auto outputs = static_cast<size_t>(3 * shared.taps.channels);
  constexpr int64_t kBlocks = 16;  // of examples; added in order
  const int64_t block = std::max<int64_t>(1, (examples + kBlocks - 1) / kBlocks);
  std::vector<std::vector<Sum>> blocks(static_cast<size_t>((examples + block - 1) / block));
  parallel_for(examples, block, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      std::vector<Sum>& sums = blocks[static_cast<size_t>(n / block)];
      sums.resize(outputs);
      add(n, sums);
    }
  });
  std::vector<Sum> sums(outputs);
  for (const auto& part : blocks) {
    for (size_t i = 0; i < outputs; ++i) merge(sums[i], part[i]);
  }
  return sums;
}

}  // namespace

Answer tap_gradient(const Question& question, Fault fault) {
  const Shared shared = share(question, fault);
  if (shared.examples == nullptr) return nullptr;
  std::vector<Expected> all;
  if (fault == Fault::kNothing) {
    const auto sums = sum_of_examples<TapSum>(shared, [&](int64_t n, std::vector<TapSum>& sums_of_block) {
      add_example(question, shared, n, sums_of_block);
    });
    double repeats = 1;
    for (int64_t n = 0; n < shared.examples->size(); ++n)
      repeats = std::max(repeats, (*shared.examples)[n].statistics.repeats);
    const double twins = most_twins(shared);
    for (const TapSum& sum : sums)
      all.push_back(sum.expected(twins, twins * repeats, question.recipe.storage));
  } else {
    const auto sums = sum_of_examples<double>(shared, [&](int64_t n, std::vector<double>& sums_of_block) {
      add_values(question, shared, fault, n, sums_of_block);
    });
    for (double sum : sums) all.push_back({.value = sum, .bound = 0, .variance = 0});
  }
  return [all = std::move(all)](std::span<const int64_t> elements, std::span<Expected> expected) {
    for (size_t i = 0; i < elements.size(); ++i) expected[i] = all[static_cast<size_t>(elements[i])];
  };
}

}  // namespace assay::cheri::oracle
