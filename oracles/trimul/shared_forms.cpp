// SPDX-License-Identifier: Apache-2.0
// Linear forms of hidden by the roundings of xn, which all channels share.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "oracles/trimul/lanes.h"
#include "oracles/trimul/roundings.h"

namespace assay::trimul::oracle {

namespace {

// So many forms at once, in the vectors of the caller.
template <size_t kRows>
[[gnu::always_inline]] inline void multiply_rows(const double* forms, const double* factors, size_t hidden,
                                                 const double* slopes, size_t n, double* to) {
  for (size_t column = 0; column < n; column += kLanes) {
    Lanes sums[kRows] = {};
    for (size_t h = 0; h < hidden; ++h) {
      Lanes slope;
      for (size_t lane = 0; lane < kLanes; ++lane) slope[lane] = factors[h] * slopes[h * n + column + lane];
      for (size_t row = 0; row < kRows; ++row) {
        const double form = forms[row * hidden + h];
        for (size_t lane = 0; lane < kLanes; ++lane) sums[row][lane] += form * slope[lane];
      }
    }
    for (size_t row = 0; row < kRows; ++row)
      std::copy(sums[row].begin(), sums[row].end(), &to[row * n + column]);
  }
}

}  // namespace

ASSAY_VECTORS void multiply(const double* forms, size_t count, const double* factors, size_t hidden,
                            const double* slopes, size_t n, double* to) {
  for (; count >= 4; count -= 4, forms += 4 * hidden, to += 4 * n)
    multiply_rows<4>(forms, factors, hidden, slopes, n, to);
  if (count == 3) multiply_rows<3>(forms, factors, hidden, slopes, n, to);
  if (count == 2) multiply_rows<2>(forms, factors, hidden, slopes, n, to);
  if (count == 1) multiply_rows<1>(forms, factors, hidden, slopes, n, to);
}

ASSAY_VECTORS void gram(const double* slopes, size_t hidden, size_t n, double* to) {
  constexpr size_t kRows = 4;
  // Transposed, (n, H), with as many rows as fill lanes: then sums of neighbouring channels stand in the lanes.
  const size_t wide = (hidden + kLanes - 1) / kLanes * kLanes;
  // And with a column more: in vectors of AVX-512, GCC 12 loads a part of the next one with each.
  std::vector<double> columns((n + 1) * wide);
  for (size_t h = 0; h < hidden; ++h) {
    for (size_t c = 0; c < n; ++c) columns[c * wide + h] = slopes[h * n + c];
  }
  for (size_t h = 0; h < hidden; h += kRows) {
    const size_t end = std::min(h + kRows, hidden);
    for (size_t other = 0; other < end; other += kLanes) {
      Lanes sums[kRows] = {};
      for (size_t c = 0; c < n; ++c) {
        const double *by = &columns[c * wide + h], *with = &columns[c * wide + other];
        for (size_t row = 0; row < kRows; ++row) {
          for (size_t lane = 0; lane < kLanes; ++lane) sums[row][lane] += by[row] * with[lane];
        }
      }
      for (size_t row = h; row < end; ++row) {
        for (size_t lane = 0; lane < kLanes && other + lane <= row; ++lane)
          to[row * (row + 1) / 2 + other + lane] = sums[row - h][lane];
      }
    }
  }
}

std::vector<Form> Roundings::shared(const Node& left, const Node& right, const Row& l, const Row& r,
                                    const std::vector<double>& forms) const {
  if (!is_small_) return shared_by_grams(left, right, l, r, forms);
  // Edges with equal xn, or opposite one, stand side by side. What is fixed is equal at all of them.
  struct Term {
    double signature;
    const double *slopes, *other;
    size_t k;
  };
  std::vector<Term> terms;
  for (size_t k = 0; k < nodes_; ++k) {
    terms.push_back({left.signatures[k], &left.slopes[k * hidden_ * columns_], r.value.data(), k});
    terms.push_back({right.signatures[k], &right.slopes[k * hidden_ * columns_], l.value.data(), k});
  }
  std::ranges::sort(terms, {}, [](const Term& term) { return std::abs(term.signature); });
  const size_t count = forms.size() / hidden_;
  std::vector<Form> result(count);
  std::vector<double> factors(hidden_), all(count * columns_), sums(count * columns_),
      squares(count * columns_), commons(count * columns_);
  for (size_t t = 0; t < terms.size(); ++t) {
    const Term& term = terms[t];
    const double sign = term.signature < 0 ? -1 : 1;
    for (size_t h = 0; h < hidden_; ++h) factors[h] = sign * term.other[h * nodes_ + term.k];
    const bool is_last =
        t + 1 == terms.size() || std::abs(terms[t + 1].signature) != std::abs(term.signature);
    multiply(forms.data(), count, factors.data(), hidden_, term.slopes, columns_, all.data());
    // The last form first: its sums are needed until the others have met them.
    const double *last = &all[(count - 1) * columns_], *last_sum = &sums[(count - 1) * columns_];
    const auto sign_of = [&](size_t c) { return is_fixed_[c] ? sign : 1; };
    for (size_t c = 0; c < columns_; ++c) sums[(count - 1) * columns_ + c] += sign_of(c) * last[c];
    for (size_t form = 0; form < count; ++form) {
      const double* one = &all[form * columns_];
      double *sum = &sums[form * columns_], *square_sum = &squares[form * columns_],
             *common = &commons[form * columns_];
      Form& to = result[form];
      for (size_t c = 0; c < columns_; ++c) {
        if (form + 1 < count) sum[c] += sign_of(c) * one[c];
        square_sum[c] += one[c] * one[c];
        common[c] += one[c] * last[c];
        to.limit += std::abs(one[c]);
        if (is_fixed_[c] ? t + 1 < terms.size() : !is_last) continue;
        const double of_sum = sum[c] * sum[c], common_of_sum = sum[c] * last_sum[c];
        to.s += std::max(of_sum, square_sum[c]);
        to.least += std::min(of_sum, square_sum[c]);
        to.least_common += std::min(common_of_sum, common[c]);
        to.most_common += std::max(common_of_sum, common[c]);
        sum[c] = square_sum[c] = common[c] = 0;
      }
    }
  }
  return result;
}

std::vector<Form> Roundings::shared_by_grams(const Node& left, const Node& right, const Row& l, const Row& r,
                                             const std::vector<double>& forms) const {
  const size_t size = hidden_ * (hidden_ + 1) / 2, count = forms.size() / hidden_;
  std::vector<double> grams(size), of_left(hidden_), of_right(hidden_);
  for (size_t k = 0; k < nodes_; ++k) {
    for (size_t h = 0; h < hidden_; ++h) {
      of_left[h] = l.value[h * nodes_ + k];
      of_right[h] = r.value[h * nodes_ + k];
    }
    const double *by_left = &left.grams[k * size], *by_right = &right.grams[k * size];
    for (size_t h = 0, at = 0; h < hidden_; ++h) {
      for (size_t other = 0; other <= h; ++other, ++at)
        grams[at] += of_right[h] * of_right[other] * by_left[at] + of_left[h] * of_left[other] * by_right[at];
    }
  }
  const double repeats = repeats_of(l, r);
  const auto times = [&](const double* form) {
    std::vector<double> product(hidden_);
    for (size_t h = 0, at = 0; h < hidden_; ++h) {
      for (size_t other = 0; other < h; ++other, ++at) {
        product[h] += grams[at] * form[other];
        product[other] += grams[at] * form[h];
      }
      product[h] += grams[at++] * form[h];
    }
    return product;
  };
  const auto dot = [&](const double* a, const double* b) {
    return std::inner_product(a, a + hidden_, b, 0.0);
  };
  // Of what the matrix and a product with it cancel, the oracle's own error is a part of these.
  constexpr double kOwn = 0x1p-40;
  const auto roots_of = [&](const double* form) {
    double roots = 0;
    for (size_t h = 0, at = 0; h < hidden_; at += ++h + 1) roots += std::abs(form[h]) * std::sqrt(grams[at]);
    return roots;
  };
  const double* last = &forms[(count - 1) * hidden_];
  const std::vector<double> times_last = times(last);
  const double roots_of_last = roots_of(last);
  std::vector<Form> result(count);
  for (size_t f = count; f-- > 0;) {
    const double* form = &forms[f * hidden_];
    const double s = dot(form, times(form).data()), roots = roots_of(form), own = kOwn * square(roots);
    Form& to = result[f];
    to.limit = HUGE_VAL;
    to.s = repeats * (std::max(s, 0.0) + own);
    if (repeats == 1) {
      const double common = dot(form, times_last.data()), own_common = kOwn * roots * roots_of_last;
      to.least = std::max(s - own, 0.0);
      to.least_common = common - own_common;
      to.most_common = common + own_common;
    } else {
      to.most_common = std::sqrt(to.s * result[count - 1].s);
      to.least_common = -to.most_common;
    }
  }
  return result;
}

}  // namespace assay::trimul::oracle
