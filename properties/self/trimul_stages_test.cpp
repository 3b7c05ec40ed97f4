// SPDX-License-Identifier: Apache-2.0
// Each stage of trimul's oracle, compared with plain loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "kernels/core/op.h"
#include "oracles/core/bound.h"
#include "oracles/trimul/alike.h"
#include "oracles/trimul/row_cache.h"
#include "oracles/trimul/stages.h"
#include "properties/core/random.h"

namespace assay::trimul::oracle {
namespace {

Units units_of(Factor factor) {
  return {{DType::kF32, DType::kF32, DType::kF32, factor, DType::kF32}, {}};
}

// If terms go to -X early and to X late, the last partial sums are 2X. In the opposite order the
// first ones are.
TEST(TriMulOracle, KnowsPartialSumsOfProjectionsInBothDirections) {
  constexpr size_t kTerms = 64;
  std::vector<float> weights(2 * kTerms);
  for (size_t c = 0; c < kTerms; ++c)
    weights[c] = weights[2 * kTerms - 1 - c] = c < 8 ? -1.0f : c < 48 ? 0.0f : 1.0f;
  const ConstTensorView view{weights.data(), DType::kF32, {2, kTerms}, {kTerms, 1}};
  const std::vector<double> ones(kTerms, 1);
  Edge edge;
  edge.xn = edge.own = edge.squares = ones;
  Units units = units_of(Factor::kStored);
  units.tiny_projection = 0;
  double squares = 0;
  for (int last = 1; last <= 64; ++last) {  // from the last one on
    const double sum = last <= 16 ? last : last <= 56 ? 16 : 72 - last;
    squares += sum * sum;
  }
  for (const Value& value : project({view, 53, ones, ones}, edge, units)) {
    EXPECT_EQ(value.value, 8);
    EXPECT_EQ(value.lost, kTerms * 0x1p-24 * std::sqrt(squares / kTerms));
  }
}

struct Sums {
  double whole = 0;  // p^2 + sum of squared terms
  // The larger mean square of partial sums from either end. Each `step`th one is known.
  double partial = 0;
};
Sums sums_of(const std::vector<double>& terms, size_t step = 1) {
  double squares = 0, p = 0, first = 0, last = 0, known = 0, sum = 0;
  for (double term : terms) p += term;
  for (size_t i = 0; i < terms.size(); ++i) {
    if (i % step == 0) last += square(p - sum);
    sum += terms[i];
    squares += square(terms[i]);
    if ((i + 1) % step != 0 && i + 1 < terms.size()) continue;
    first += square(sum);
    ++known;
  }
  return {square(p) + squares, std::max(first, last) / known};
}
double m_squared_of(const std::vector<double>& terms) {
  const Sums sums = sums_of(terms);
  return std::max(sums.whole, sums.partial);
}

void expect_near(double got, double want, const char* what) {
  EXPECT_LE(std::abs(got - want), 0x1p-40 * std::abs(want)) << what << ": " << got << ", " << want;
}

double random(uint64_t stream, int64_t i) {
  return CounterRandom(5, stream).normal(static_cast<uint64_t>(i));
}

// One row of weights times one edge.
Value projected(const Projection& w, int64_t row, const Edge& e, const std::vector<double>& norm_weight,
                const std::vector<double>& norm_bias, const Units& units) {
  double own = 0, rounded = 0, fixed = 0, weighted = 0, biased = 0, absolute = 0, root = 0, squares = 0;
  std::vector<double> terms, magnitudes;
  Alike alike(units.factor_bits);
  Value value;
  for (size_t c = 0; c < e.xn.size(); ++c) {
    const double weight = w.values[static_cast<size_t>(row) * e.xn.size() + c], term = weight * e.xn[c];
    value.value += term;
    terms.push_back(term);
    own += square(weight) * e.own[c];
    if (!e.fixed.empty()) fixed += square(weight) * e.fixed[c];
    weighted += weight * norm_weight[c];
    absolute += std::abs(weight * norm_weight[c]);
    root += square(weight * norm_weight[c]);
    squares += square(term);
    biased += weight * norm_bias[c];
    alike.add(weight);
    if (has_bits(weight, units.factor_bits)) continue;
    rounded += square(term);
    magnitudes.push_back(std::abs(weight));
  }
  const double n = static_cast<double>(e.xn.size()) * units.products, m2 = m_squared_of(terms);
  value.lost = std::abs(weighted) * e.shared + std::abs(value.value - biased) * e.rho +
               absolute * e.differences + std::sqrt(root) * e.scaled + std::sqrt(squares) * e.added +
               e.underflow * w.norms[static_cast<size_t>(row)] +
               n * (units.projection_sum * std::sqrt(m2) + units.tiny_projection);
  value.s = e.repeats * own;
  if (units.projection_weight == 0) return value;
  const double repeats = std::max(most_repeats(magnitudes), growth(alike.kappa()));
  value.lost += units.lost_weight(w.largest) * std::sqrt(static_cast<double>(e.xn.size())) * e.norm;
  value.weights = square(units.projection_weight) * repeats * rounded + e.repeats * fixed;
  return value;
}

// Independent numbers. Some weights are equal, and some are numbers of any format.
void expect_projected(const Units& units, int64_t rows, int64_t channels, bool has_fixed) {
  std::vector<float> weights;
  for (int64_t i = 0; i < rows * channels; ++i)
    weights.push_back(i % 4 == 1 ? 0.75f : i % 4 == 3 ? 0.3f : static_cast<float>(random(0, i)));
  std::vector<double> norm_weight, norm_bias;
  Edge e;
  e.rho = 1e-7;
  e.shared = 2e-7;
  e.differences = 3e-7;
  e.scaled = 4e-7;
  e.added = 5e-7;
  e.underflow = 6e-7;
  e.repeats = 2;
  for (int64_t c = 0; c < channels; ++c) {
    norm_weight.push_back(random(1, c));
    norm_bias.push_back(random(2, c));
    e.xn.push_back(random(3, c));
    e.squares.push_back(square(e.xn.back()));
    e.own.push_back(1e-14 * square(random(4, c)));
    if (has_fixed) e.fixed.push_back(1e-13 * square(random(5, c)));
  }
  e.norm = norm_of(e.xn);
  const ConstTensorView view{weights.data(), DType::kF32, {rows, channels}, {channels, 1}};
  const Projection projection(view, units.factor_bits, norm_weight, norm_bias);
  const std::vector<Value> values = project(projection, e, units);
  ASSERT_EQ(values.size(), static_cast<size_t>(rows));
  for (int64_t row = 0; row < rows; ++row) {
    const Value& got = values[static_cast<size_t>(row)];
    const Value want = projected(projection, row, e, norm_weight, norm_bias, units);
    expect_near(got.value, want.value, "value");
    expect_near(got.s, want.s, "s");
    expect_near(got.weights, want.weights, "weights");
    expect_near(got.lost, want.lost, "lost");
  }
}

TEST(TriMulOracle, ProjectsAsAPlainLoopDoes) {
  for (Factor factor : {Factor::kStored, Factor::kTF32, Factor::kTF32x3, Factor::kBF16}) {
    for (int64_t rows : {0, 1, 3, 4, 5, 8, 13}) {
      for (int64_t channels : {1, 2, 7, 8, 17}) {
        expect_projected(units_of(factor), rows, channels, false);
        expect_projected(units_of(factor), rows, channels, true);
      }
    }
  }
}

// Below 256 terms all partial sums are known, from there on every eighth. The estimate is never
// less than they are, and more by what the header derives. With kind 0 they are large on average,
// and larger between the known ones.
TEST(TriMulOracle, KnowsPartialSumsOfManyProducts) {
  for (size_t n : {1, 7, 8, 255, 256, 257, 261, 263, 1000}) {
    for (int kind = 0; kind < 3; ++kind) {
      std::vector<double> left, right, terms;
      double squares = 0;
      for (size_t k = 0; k < n; ++k) {
        const double between = k % 8 < 4 ? 1 : -1;
        left.push_back(kind > 0 ? CounterRandom(6, n).normal(k) : k < 32 ? 1 : k + 32 < n ? between : -1);
        right.push_back(kind == 2 ? left.back() : 0.5);
        terms.push_back(left.back() * right.back());
        squares += square(terms.back());
      }
      const double got = m_squared_of_products(left.data(), right.data(), n, squares);
      EXPECT_GE(got, m_squared_of(terms) * (1 - 0x1p-40)) << n << ", " << kind;
      double want = m_squared_of(terms);
      if (n >= 256) {
        // Each known sum stands for eight terms.
        const Sums known = sums_of(terms, 8);
        const auto all = static_cast<double>(n), of_known = static_cast<double>((n + 7) / 8 * 8) / all;
        want = std::max(known.whole,
                        square(std::sqrt(known.partial * of_known) + std::sqrt(28 * squares / all)));
      }
      expect_near(got, want, "M^2");
    }
  }
}

// Dropped rows of the RowCache are computed anew. A row in use outlives being dropped.
TEST(TriMulOracle, KeepsAsManyRowsAsFit) {
  constexpr size_t kRows = 10, kKept = 4;
  RowCache rows(kRows, kKept);
  int filled = 0;
  const auto get = [&](size_t index) {
    return rows.get(index, [&](Row& row) {
      ++filled;
      row.value = {static_cast<double>(index)};
    });
  };
  std::vector<std::shared_ptr<const Row>> in_use;
  for (size_t row = 0; row < kRows; ++row) in_use.push_back(get(row));
  EXPECT_EQ(filled, kRows);
  for (size_t row = 0; row < kRows; ++row) EXPECT_EQ(in_use[row]->value[0], row);
  EXPECT_EQ(get(kRows - 1), in_use[kRows - 1]) << "the last one is kept";
  for (size_t row = 0; row < kRows; ++row) EXPECT_EQ(get(row)->value[0], row);
  EXPECT_GE(filled, 2 * kRows - kKept);
  EXPECT_LT(filled, 2 * kRows);
}

TEST(TriMulOracle, LimitsAsFloatsAreNotBelow) {
  EXPECT_EQ(not_below(1e39), std::numeric_limits<float>::infinity());
  for (const double limit : {0.0, 1e-60, 0x1p-149, 1.4e-42, 1 + 0x1p-25, 1 + 0x1p-24, 1 + 0x1.8p-24, 3e38}) {
    EXPECT_GE(not_below(limit), limit);
    EXPECT_LE(not_below(limit), limit * (1 + 0x1p-22) + (limit > 0 ? 0x1p-149 : 0));
  }
}

}  // namespace
}  // namespace assay::trimul::oracle
