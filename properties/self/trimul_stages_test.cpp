// SPDX-License-Identifier: Apache-2.0
// The stages of trimul's oracle by themselves, held against plain loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/core/op.h"
#include "oracles/core/bound.h"
#include "oracles/trimul/alike.h"
#include "oracles/trimul/stages.h"
#include "properties/core/random.h"

namespace assay::trimul::oracle {
namespace {

Units units_of(Factor factor) {
  return {{DType::kF32, DType::kF32, DType::kF32, factor, DType::kF32}, {}};
}

// Of terms that go to -X early and to X late the last partial sums are 2X; in the opposite order the first ones are.
TEST(TriMulOracle, KnowsPartialSumsOfProjectionsInBothDirections) {
  constexpr size_t kTerms = 64;
  std::vector<float> weights(2 * kTerms);
  for (size_t c = 0; c < kTerms; ++c)
    weights[c] = weights[2 * kTerms - 1 - c] = c < 8 ? -1.0f : c < 48 ? 0.0f : 1.0f;
  const ConstTensorView view{weights.data(), DType::kF32, {2, kTerms}, {kTerms, 1}};
  const std::vector<double> ones(kTerms, 1);
  Edge edge;
  edge.xn = edge.own = edge.squares = ones;
  const Units units = units_of(Factor::kStored);
  double squares = 0;
  for (int last = 1; last <= 64; ++last) {  // from the last one on
    const double sum = last <= 16 ? last : last <= 56 ? 16 : 72 - last;
    squares += sum * sum;
  }
  for (const Value& value : project({view, 53, ones, ones}, edge, units)) {
    EXPECT_EQ(value.value, 8);
    EXPECT_EQ(value.sum, 0x1p-48 * squares);
  }
}

// The largest of p^2 + sum of squares and the mean squares of partial sums from either end.
double mean_square_of(const std::vector<double>& terms) {
  double p = 0, squares = 0, first = 0, last = 0;
  for (double term : terms) {
    p += term;
    squares += square(term);
    first += square(p);
  }
  double sum = 0;
  for (size_t i = terms.size(); i-- > 0;) {
    sum += terms[i];
    last += square(sum);
  }
  return std::max(square(p) + squares, std::max(first, last) / static_cast<double>(terms.size()));
}

void expect_near(double got, double want, const char* what) {
  EXPECT_LE(std::abs(got - want), 0x1p-40 * std::abs(want)) << what << ": " << got << ", " << want;
}

// One edge whose numbers have nothing to do with each other, and weights of which each fourth one is a number of any format.
TEST(TriMulOracle, ProjectsAsAPlainLoopDoes) {
  for (Factor factor : {Factor::kStored, Factor::kTF32, Factor::kTF32x3, Factor::kBF16}) {
    const Units units = units_of(factor);
    for (int64_t rows : {0, 1, 3, 4, 5, 8, 13}) {
      for (int64_t channels : {1, 2, 7, 8, 17}) {
        for (bool has_fixed : {false, true}) {
          const auto random = [](uint64_t stream, int64_t i) {
            return CounterRandom(5, stream).normal(static_cast<uint64_t>(i));
          };
          std::vector<float> weights(static_cast<size_t>(rows * channels) + 1);
          for (int64_t i = 0; i < rows * channels; ++i)
            weights[static_cast<size_t>(i)] = i % 4 == 1 ? 0.75f : static_cast<float>(random(0, i));
          std::vector<double> norm_weight, norm_bias;
          Edge e;
          e.rho = 1e-7;
          e.shared = 2e-7;
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
          for (int64_t h = 0; h < rows; ++h) {
            const Value& got = values[static_cast<size_t>(h)];
            double p = 0, own = 0, rounded = 0, fixed = 0, weighted = 0, biased = 0;
            std::vector<double> terms, magnitudes;
            Alike alike(units.factor_bits);
            for (int64_t c = 0; c < channels; ++c) {
              const auto at = static_cast<size_t>(c);
              const double weight = weights[static_cast<size_t>(h * channels + c)], term = weight * e.xn[at];
              p += term;
              terms.push_back(term);
              own += square(weight) * e.own[at];
              if (has_fixed) fixed += square(weight) * e.fixed[at];
              weighted += weight * norm_weight[at];
              biased += weight * norm_bias[at];
              alike.add(weight);
              if (has_bits(weight, units.factor_bits)) continue;
              rounded += square(term);
              magnitudes.push_back(std::abs(weight));
            }
            const double n = static_cast<double>(channels) * units.products, m2 = mean_square_of(terms);
            const double sum = n * square(units.projection_sum) * m2 + n * square(units.tiny_projection);
            expect_near(got.value, p, "value");
            expect_near(got.sum, sum, "sum");
            expect_near(got.s, 2 * own + square(2e-7 * weighted) + square((p - biased) * 1e-7) + sum, "s");
            const bool is_rounded = factor != Factor::kStored;
            const double repeats = std::max(most_repeats(magnitudes), growth(alike.kappa()));
            const double of_weights = square(units.projection_weight) * repeats * rounded +
                                      square(units.lost_weight(projection.largest) * e.norm) + 2 * fixed;
            expect_near(got.weights, is_rounded ? of_weights : 0, "weights");
            expect_near(got.lost, is_rounded ? n * units.projection_sum * std::sqrt(m2) : 0, "lost");
          }
        }
      }
    }
  }
}

// Below 256 terms all partial sums are known, from there on each eighth one: what is said of them is never less than they
// are, and more by what the header derives.
TEST(TriMulOracle, KnowsPartialSumsOfManyProducts) {
  for (size_t n : {1, 7, 8, 255, 256, 257, 261, 263, 1000}) {
    for (int kind = 0; kind < 4; ++kind) {
      std::vector<double> left, right, terms;
      double squares = 0;
      for (size_t k = 0; k < n; ++k) {
        const double sign = k % 8 < 4 ? 1 : -1;  // sums that are 0 after each eighth term
        const double late = k < n / 16 ? -1 : k < n - n / 8 ? 0 : 1;
        left.push_back(kind == 0 ? sign : kind == 1 ? late : CounterRandom(6, n).normal(k));
        right.push_back(kind == 3 ? std::abs(left.back()) : 0.5);
        terms.push_back(left.back() * right.back());
        squares += square(terms.back());
      }
      const double m2 = mean_square_of(terms);
      const double got = mean_square_of_products(left.data(), right.data(), n, squares);
      const double between = n < 256 ? 0 : 28 * squares / static_cast<double>(n);
      EXPECT_GE(got, m2 * (1 - 0x1p-40)) << n << ", " << kind;
      const double most = square(std::sqrt(m2) + 2 * std::sqrt(between));
      EXPECT_LE(got, most * (n < 256 ? 1 + 0x1p-40 : 1.06)) << n << ", " << kind;
    }
  }
}

}  // namespace
}  // namespace assay::trimul::oracle
