// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <memory>

#include "oracles/cheri/factors.h"
#include "oracles/cheri/hidden.h"
#include "oracles/cheri/statistics.h"

namespace assay::cheri::oracle {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr int kRows = 4;  // of y, multiplied at once

// y of several rows as the factor of the first product. Arrays (columns, kRows): one column of all rows stands together.
struct Batch {
  explicit Batch(size_t columns) : y(columns * kRows), limit(columns * kRows), variance(columns * kRows) {}

  std::vector<double> y;
  std::vector<double> limit;     // by the weight's magnitude
  std::vector<double> variance;  // by the weight's square
  // Of each row.
  double norm[kRows] = {}, magnitude[kRows] = {};  // of y
  double largest_norm[kRows] = {};                 // of y with its errors
  double shared[kRows] = {},
         shared_variance[kRows] = {};  // norm of the errors that y shares, and their variance
  double repeats[kRows] = {};
  bool is_doubtful[kRows] = {};  // some y may be 0
};

class Block {
 public:
  Block(const Question& question, Fault fault)
      : question_(question),
        fault_(fault),
        format_(question.recipe),
        taps_(question, question.inputs[kW], fault),
        w1_(question.inputs[kW1], format_, false, fault != Fault::kNothing),
        w2_(question.inputs[kW2], format_, true, fault != Fault::kNothing),
        statistics_(all_statistics(question.inputs[kX], taps_, fault)),
        is_counterfeit_(fault != Fault::kNothing) {
    require_f32_recipe(question.recipe);
    scale_ = fault == Fault::kNoScale ? 1 : fault == Fault::kScaleTwice ? kScale * kScale : kScale;
    if (is_counterfeit_) return;
    kinds_ = Kinds(w1_, w2_);
    if (question.inputs[kX].size() > 0 && w1_.rows > 0) coherence_ = coherence();
  }

  // Whether the fault makes no difference on this data.
  bool is_harmless() const { return statistics_ == nullptr; }

  void answer(std::span<const int64_t> elements, std::span<Expected> expected) const {
    std::vector<Hidden> rows(kRows);
    for (size_t begin = 0; begin < elements.size();) {
      // The next elements that lie in kRows rows.
      int count = 0;
      size_t end = begin;
      for (int64_t last = -1; end < elements.size(); ++end) {
        const int64_t row = elements[end] / taps_.channels;
        if (row == last) continue;
        if (count == kRows) break;
        rows[static_cast<size_t>(count)].n = row / taps_.length;
        rows[static_cast<size_t>(count++)].l = row % taps_.length;
        last = row;
      }
      hide(std::span(rows).first(static_cast<size_t>(count)));
      auto row = rows.begin();
      for (; begin < end; ++begin) {
        const int64_t position = elements[begin] / taps_.channels;
        while (row->n * taps_.length + row->l != position) ++row;
        expected[begin] = out(*row, elements[begin] % taps_.channels);
      }
    }
  }

 private:
  // The errors of z that come from one y are in all hidden values, and add up in out if the weights have equal signs.
  // Their variance in out, by that of errors independent from kind to kind: the mean over some elements.
  double coherence() const {
    constexpr int64_t kChannels = 8;  // of a row
    // As many rows as add up kTerms, within these limits.
    constexpr int64_t kTerms = int64_t{1} << 21, kFewRows = 8, kManyRows = 64;
    const int64_t rows = statistics_->size() * taps_.length;
    const int64_t channels = std::min(taps_.channels, kChannels);
    const int64_t affordable = kTerms / (channels * static_cast<int64_t>(kinds_.count()) * taps_.channels);
    const int64_t sampled = std::min(rows, std::clamp(affordable, kFewRows, kManyRows));
    double together = 0, apart = 0;
    for (int64_t i = 0; i < sampled; ++i) {
      std::vector<Hidden> row(1);
      const int64_t position = i * rows / sampled;
      row[0].n = position / taps_.length;
      row[0].l = position % taps_.length;
      hide(row);
      if (row[0].is_nan || row[0].is_open) continue;
      std::vector<double> variances;
      for (int64_t c = 0; c < taps_.channels; ++c) {
        variances.push_back(factors((*statistics_)[row[0].n], row[0].n, row[0].l, c).variance);
      }
      for (int64_t j = 0; j < channels; ++j) {
        const std::span columns = kinds_.columns(j * taps_.channels / channels);
        std::vector<double> gradient(variances.size());  // of out by y
        for (size_t k = 0; k < columns.size(); ++k) {
          const double factor = columns[k].sum * row[0].kinds[k].slope;
          const double* w1 = w1_.row(kinds_.unit_of(k));
          for (size_t c = 0; c < gradient.size(); ++c) {
            gradient[c] += factor * w1[c];
            apart += factor * factor * w1[c] * w1[c] * variances[c];
          }
        }
        for (size_t c = 0; c < gradient.size(); ++c) together += gradient[c] * gradient[c] * variances[c];
      }
    }
    return std::isfinite(together) && apart > 0 ? std::max(1.0, together / apart) : 1;
  }

  void hide(std::span<Hidden> rows) const {
    Batch batch(static_cast<size_t>(taps_.channels));
    for (size_t r = 0; r < rows.size(); ++r) {
      const Statistics& s = (*statistics_)[rows[r].n];
      rows[r].is_nan = s.is_nan;
      rows[r].is_open = s.is_open;
      rows[r].value.assign(static_cast<size_t>(w1_.rows), 0);
      if (is_counterfeit_) {
        hide_values(s, rows[r]);
        continue;
      }
      rows[r].kinds.assign(kinds_.count(), {});
      gather(s, rows[r], r, batch);
    }
    if (is_counterfeit_) return;
    for (size_t kind = 0; kind < kinds_.count(); ++kind) expand(batch, kind, rows);
    for (Hidden& row : rows) count_repeats(row);
  }

  void count_repeats(Hidden& row) const {
    std::vector<double> magnitudes, of_kinds;
    row.magnitude = 0;
    for (size_t h = 0; h < row.value.size(); ++h) {
      row.value[h] = row.kinds[kinds_.kind_of(static_cast<int64_t>(h))].value;
      magnitudes.push_back(std::abs(row.value[h]));
      row.magnitude += std::abs(row.value[h]);
    }
    if (!std::isfinite(row.magnitude)) return;
    for (const Unit& unit : row.kinds) of_kinds.push_back(std::abs(unit.value));
    row.repeats = std::max(w2_.repeats, most_repeats(magnitudes));
    row.is_repeated = most_repeats(of_kinds) > 1;
  }

  // The same for a counterfeit, of which only the values are read.
  void hide_values(const Statistics& s, Hidden& row) const {
    if (row.is_nan) return;
    const Reader x(question_.inputs[kX]);
    std::vector<double> y(static_cast<size_t>(taps_.channels));
    for (int64_t c = 0; c < taps_.channels; ++c) {
      const auto at = [&](int64_t l, int64_t channel) { return x({row.n, l, channel}); };
      y[static_cast<size_t>(c)] = s.is_single ? 0 : (taps_.value_at(at, row.l, c) - s.mean) * s.rstd;
    }
    for (int64_t h = 0; h < w1_.rows; ++h) {
      const double* w = w1_.row(h);
      double z = 0;
      for (size_t c = 0; c < y.size(); ++c) z += w[c] * y[c];
      if (std::abs(z) >= format_.overflow(false)) z = std::copysign(HUGE_VAL, z);
      const double g = gelu_of(z);
      row.value[static_cast<size_t>(h)] =
          std::abs(g) >= format_.overflow(true) ? std::copysign(HUGE_VAL, g) : g;
    }
  }

  void gather(const Statistics& s, const Hidden& row, size_t r, Batch& batch) const {
    const auto channels = static_cast<size_t>(taps_.channels);
    std::vector<double> magnitudes(channels);
    double squares = 0, largest_squares = 0, shared_squares = 0;
    for (size_t c = 0; c < channels; ++c) {
      const Factors f = factors(s, row.n, row.l, static_cast<int64_t>(c));
      batch.y[c * kRows + r] = f.value;
      batch.limit[c * kRows + r] = f.limit;
      batch.variance[c * kRows + r] = f.variance;
      batch.is_doubtful[r] |= std::abs(f.value) <= f.error;
      batch.magnitude[r] += std::abs(f.value);
      batch.shared_variance[r] += f.shared_variance;
      squares += f.value * f.value;
      largest_squares += (std::abs(f.value) + f.error) * (std::abs(f.value) + f.error);
      shared_squares += f.shared * f.shared;
      magnitudes[c] = std::abs(f.value);
    }
    batch.norm[r] = std::sqrt(squares);
    batch.largest_norm[r] = std::sqrt(largest_squares);
    batch.shared[r] = std::sqrt(shared_squares);
    batch.repeats[r] = row.is_nan ? 1 : std::max(w1_.repeats, most_repeats(magnitudes));
  }

  // z and g of one kind in all rows.
  void expand(const Batch& batch, size_t kind, std::span<Hidden> rows) const {
    const int64_t h = kinds_.unit_of(kind);
    double z[kRows] = {}, worst[kRows] = {}, squares[kRows] = {};
    const double* w = w1_.row(h);
    for (size_t c = 0; c < static_cast<size_t>(taps_.channels); ++c) {
      const double weight = w[c], magnitude = std::abs(weight), square = weight * weight;
      for (size_t r = 0; r < kRows; ++r) {
        z[r] += weight * batch.y[c * kRows + r];
        worst[r] += magnitude * batch.limit[c * kRows + r];
        squares[r] += square * batch.variance[c * kRows + r];
      }
    }
    const double length = w1_.norms[static_cast<size_t>(h)];
    const double terms = static_cast<double>(taps_.channels * format_.products);
    const double unit = kAccumulate * kAccumulate * terms;
    for (size_t r = 0; r < rows.size(); ++r) {
      const double magnitude = length * batch.norm[r];  // at least the sum of |w1 * y|
      if (std::isfinite(length) && magnitude >= kOverflow) rows[r].is_open = true;
      const auto likely = [&](double squared_limits) {
        return limit_of_sum(HUGE_VAL, squared_limits, batch.repeats[r]);
      };
      const double shared = batch.shared[r] * length;
      const double underflow = magnitude > 0 ? kUnderflow * terms + w1_.absolute * batch.magnitude[r] : 0;
      // Of the sum of products, whose factors have their errors: n q^2 + 3 n q^2 / 18.
      const double largest = length * batch.largest_norm[r];
      const double of_sum = unit * largest * largest * 7 / 6;
      const Doubt doubt{
          .error =
              std::min(worst[r], shared + likely(3 * squares[r] + unit * magnitude * magnitude)) + underflow,
          .common = std::min(worst[r], shared + likely(3 * squares[r])),
          .common_shared = shared,
          .common_deviation = std::sqrt(batch.repeats[r] * 3 * squares[r]),
          .sum = std::min(gamma(terms, kAccumulate) * largest, likely(of_sum)) + underflow,
          .sum_deviation = std::sqrt(batch.repeats[r] * of_sum) + underflow,
          .variance = squares[r] + length * length * batch.shared_variance[r] + unit / 9 * z[r] * z[r]};
      activate(format_, w2_, z[r], doubt, batch.is_doubtful[r], rows[r], rows[r].kinds[kind]);
    }
  }

  // y of one element as a factor of the first product, and what multiplies the weight in the limits of z.
  struct Factors {
    double value, error, shared, limit, variance, shared_variance;
  };
  Factors factors(const Statistics& s, int64_t n, int64_t l, int64_t c) const {
    const Reader x(question_.inputs[kX]);
    const auto x_at = [&](int64_t at, int64_t channel) { return x({n, at, channel}); };
    const Normalised y = normalise(s, taps_.at(x_at, l, c));
    Factors f{.value = y.value,
              .error = y.error,
              .shared = y.error - y.own,
              .limit = 0,
              .variance = 0,
              .shared_variance = y.variance - y.own_variance};
    const double rounding = format_.rounding(y.value, y.error);
    const ProductError product = product_of(format_, y.value, y.error + rounding, w1_);
    f.error += rounding;
    f.limit = y.error + rounding + product.limit;
    f.variance = y.own_variance + rounding * rounding / 3 + product.variance;
    return f;
  }

  double gelu_of(double z) const { return fault_ == Fault::kNoGelu && z < 0 ? z : gelu(z); }

  // out = x + scale * sum_h w2[c,h] * g[h]
  Expected out(const Hidden& row, int64_t c) const {
    const DType storage = question_.recipe.storage;
    const double x = Reader(question_.inputs[kX])({row.n, row.l, c});
    const auto hidden = static_cast<size_t>(w2_.columns);
    if (hidden == 0) return stored(x, 0, 0, storage);
    if (row.is_nan) return stored(kNan, 0, 0, storage);
    const double* w = w2_.row(c);
    if (is_counterfeit_) {
      double counterfeit = 0;
      for (size_t h = 0; h < hidden; ++h) counterfeit += w[h] * row.value[h];
      if (format_.intermediate != DType::kF32 && std::abs(counterfeit) >= format_.overflow(false))
        counterfeit = std::copysign(HUGE_VAL, counterfeit);
      return {.value = x + scale_ * counterfeit, .bound = 0, .variance = 0};
    }
    if (row.is_open) return open();
    double sum = 0, magnitudes = 0;  // of w2 * g
    for (size_t h = 0; h < hidden; ++h) {
      // An infinite weight makes an infinity of a g of either sign, and a NaN of one that is stored as 0.
      if (!std::isfinite(w[h])) {
        const Unit& unit = row.kinds[kinds_.kind_of(static_cast<int64_t>(h))];
        if (std::abs(unit.value) <= unit.error + unit.storing + unit.own) return open();
      }
      sum += w[h] * row.value[h];
      magnitudes += std::abs(w[h]) * std::abs(row.value[h]);
    }
    if (!std::isfinite(sum)) return format_.is_split ? open() : stored(x + scale_ * sum, 0, 0, storage);
    if (magnitudes >= kOverflow) return open();
    auto [error, variance, own] =
        error_of_products(row, kinds_.columns(c), coherence_, w2_.columns * format_.products);
    // A folded weight may underflow in its own format, whose numbers are not scaled any more.
    if (own > 0) error += w2_.absolute / scale_ * row.magnitude;
    if (format_.intermediate != DType::kF32 && (sum != 0 || error != 0)) {
      const double overflow = format_.overflow(false);
      if (std::abs(sum) + error >= overflow) {
        if (std::abs(sum) - error < overflow) return open();
        return stored(x + std::copysign(HUGE_VAL, sum), 0, 0, storage);
      }
      const double ulp = ulp_at(format_.intermediate, std::abs(sum) + error);
      error += ulp / 2;
      variance += ulp * ulp / 12;
    }
    const double scaled_error = scale_ * error;
    const double added = scale_ * sum;
    const double value = x + added;
    if (added == 0 && scaled_error == 0) return stored(x, 0, 0, storage);
    // Scaling, its constant, and the addition.
    const double error_at_end = scaled_error + 3 * kUnit * (std::abs(added) + scaled_error) +
                                kUnit * (std::abs(value) + scaled_error) + kUnderflow;
    const double variance_at_end =
        scale_ * scale_ * variance + kUnit * kUnit * (added * added + value * value / 3);
    if (std::abs(added) + scaled_error >= kOverflow) return open();
    return stored(value, error_at_end, variance_at_end, storage);
  }

  const Question& question_;
  Fault fault_;
  Format format_;
  Taps taps_;
  Weights w1_, w2_;
  Kinds kinds_;
  AllStatistics statistics_;
  bool is_counterfeit_;  // only values are asked for
  double scale_;
  double coherence_ = 1;
};

}  // namespace

Solve block(Fault fault) {
  return [fault](const Question& question, int) -> Answer {
    auto solved = std::make_shared<const Block>(question, fault);
    if (solved->is_harmless()) return nullptr;
    return [solved](std::span<const int64_t> elements, std::span<Expected> expected) {
      solved->answer(elements, expected);
    };
  };
}

}  // namespace assay::cheri::oracle
