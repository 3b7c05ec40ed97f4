// SPDX-License-Identifier: Apache-2.0
// The oracle of trimul where roundings are not independent: of values closer than a unit of the
// format, of equal weights, of truncated sums.
#include <cmath>
#include <cstdint>

#include "kernels/trimul/trimul.h"
#include "oracles/core/compare.h"
#include "properties/core/random.h"
#include "properties/self/support.h"
#include "properties/self/trimul_loop.h"

namespace assay::trimul {
namespace {

using test::Change;
using test::changed;
using test::compare_loop;
using test::expected_of;
using test::problem_of;
using test::recipe_of;
using test::rounded;
using test::Sums;

Case sized(int64_t n, int64_t c, int64_t h) {
  return test::sized(n, c, h, 0);
}

// Gates of left and right are 1/2. Pairs of weights are opposite numbers of the format.
void set_weights(size_t input, int64_t e, float& value) {
  const CounterRandom random(1, input);
  if (input == kLeftProj || input == kRightProj)
    value =
        static_cast<float>(rounded(8, random.normal(static_cast<uint64_t>(e / 2))) * (e % 2 == 0 ? 1 : -1));
  if (input == kLeftGate || input == kRightGate) value = 0;
  if (input == kOutGate || input == kToOut) value = static_cast<float>(rounded(8, value));
}

void expect_bounded(Factor factor, DType between, const Case& which, const Change& change,
                    Sums sums = Sums::kExact) {
  const Recipe recipe = recipe_of(factor, between);
  const int64_t row = which.dims[kN] * which.dims[kC];
  const Comparison c = compare_loop(recipe, recipe, which, change, row, sums);
  EXPECT_EQ(c.wrong, 0) << recipe.to_string() << ": " << c.max_error_over_bound;
}

// xn differs from edge to edge by less than a unit of the format, so all edges round it alike.
TEST(TriMulOracle, BoundsValuesCloserThanAUnit) {
  NOT_SANITIZED("minutes of the same code as in other tests, for other numbers");
  for (float spread : {1e-7f, 1e-5f, 1e-3f, 0.1f}) {
    const auto change = [spread](size_t input, int64_t e, float& value) {
      const CounterRandom random(1, input);
      set_weights(input, e, value);
      if (input == kNormWeight) value = spread;
      if (input == kNormBias)
        value = static_cast<float>(1 + random.uniform(static_cast<uint64_t>(e / 2)) +
                                   random.uniform(static_cast<uint64_t>(e), 1));
    };
    expect_bounded(Factor::kTF32, DType::kF32, sized(140, 16, 4), change);
    expect_bounded(Factor::kBF16, DType::kBF16, sized(140, 16, 4), change);
  }
}

// xn of one edge differs from channel to channel by less than a unit of the format, or by a few
// units. Channels of a kind round alike, and the gate of the output adds up their errors.
TEST(TriMulOracle, BoundsChannelsCloserThanAUnit) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const auto change = [seed](size_t input, int64_t e, float& value) {
      const CounterRandom random(seed, 99);
      if (input == kNormWeight) value = 1e-6f;
      if (input == kNormBias)
        value = static_cast<float>(1.2 + 0.1 * random.uniform(7) +
                                   static_cast<double>(e % 2) * random.uniform(8) / 64);
      if (input == kOutGate) value = e % 2 == 0 ? 0.25f : -0.25f;
      if (input == kToOutNormWeight) value = 0;
      if (input == kToOutNormBias) value = 1;
      if (input == kToOut) value = static_cast<float>(rounded(8, value));
    };
    for (Factor factor : {Factor::kTF32, Factor::kBF16})
      expect_bounded(factor, factor == Factor::kBF16 ? DType::kBF16 : DType::kF32, sized(2, 768, 4), change);
  }
}

// Each addition loses up to a unit of the sum, toward zero. The first weight is large, the others
// take little from it. z is its bias.
TEST(TriMulOracle, BoundsTruncatedSums) {
  const auto last = [](size_t input, int64_t e, float& value) {
    if (input == kToOutNormWeight || input == kOutGate) value = 0;
    if (input == kToOutNormBias) value = 1;
    if (input == kToOut)
      value = e % 256 == 0 ? 1.05f : -0x1p-28f * (1 + 0.125f * static_cast<float>(e % 7) + 0x1p-13f);
  };
  expect_bounded(Factor::kTF32x3, DType::kF32, sized(2, 4, 256), last, Sums::kTruncated);
}

// Additions of a projection lose likewise. Its first terms add up to 1.04 or -1.04, and the last
// ones leave 0.05 of that.
TEST(TriMulOracle, BoundsProjectionsThatAreTruncated) {
  for (const int64_t channels : {64, 384, 768}) {
    const auto change = [channels](size_t input, int64_t e, float& value) {
      const int64_t h = e / channels, c = e % channels;
      const float sign = h % 4 < 2 ? 1.0f : -1.0f, first = sign * (0.13f + 3e-4f * static_cast<float>(h));
      if (input == kNormWeight) value = 1e-4f;
      if (input == kNormBias) value = 1 + 0x1p-13f;
      if (input == kLeftGate || input == kRightGate || input == kOutGate || input == kToOutNormBias)
        value = 0;
      if (input == kToOutNormWeight) value = 1;
      if (input == kLeftProj) {
        const float small = 0x1p-28f * (1 + 0.125f * static_cast<float>(e % 7) + 0x1p-13f);
        const float rest = (h % 2 == 0 ? 0.05f : -0.05f) * (h < 4 ? 1.0f : 1.1f) / 8;
        value = c < 8 ? first : c < channels - 8 ? -sign * small : rest - first;
      }
      if (input == kRightProj) value = c == 3 ? 1.0f : 0.0f;
      if (input == kToOut) value = e % 4 < 2 ? 1.0f : -1.0f;
    };
    expect_bounded(Factor::kTF32x3, DType::kF32, sized(4, channels, 8), change, Sums::kTruncated);
  }
}

// x has steps of 2^-8 except in the first channel. All deviations from that channel have the same
// part of a unit of their sums. Additions lose it again and again, at all edges alike. left has
// equal weights, so it is nothing but the error of the mean.
TEST(TriMulOracle, BoundsMeansWhoseSumsRoundAlike) {
  const int64_t channels = 384;
  const auto change = [](size_t input, int64_t e, float& value) {
    const int64_t h = e / channels, c = e % channels;
    const double uniform = CounterRandom(1, input).uniform(static_cast<uint64_t>(e));
    if (input == kX) value = c == 0 ? 1.3e-4f : static_cast<float>(std::floor(64 + 192 * uniform)) / 256;
    if (input == kNormWeight || input == kToOutNormWeight) value = 1;
    if (input == kNormBias || input == kToOutNormBias) value = 0;
    if (input == kLeftGate || input == kRightGate || input == kOutGate) value = 0;
    if (input == kLeftProj)
      value = static_cast<float>((h % 2 == 0 ? 0x1p-20 : -0x1.8p-21) * static_cast<double>(h + 1));
    if (input == kRightProj) value = c == 0 ? 1 + static_cast<float>(h) / 16 : 0;
  };
  for (const int64_t nodes : {2, 64})
    expect_bounded(Factor::kStored, DType::kF32, sized(nodes, channels, 8), change, Sums::kRounded);
}

// The loss of a truncated sum depends on its place between two powers of two. p is just above one
// where right is positive, and just below where right is negative, in every other channel. hidden
// cancels, but the losses of p do not.
TEST(TriMulOracle, BoundsProjectionsThatAreTruncatedFromEdgeToEdge) {
  for (const int64_t nodes : {8, 32}) {
    const int64_t channels = 384;
    const auto change = [&](size_t input, int64_t e, float& value) {
      const int64_t h = e / channels, c = e % channels;
      const auto uniform = static_cast<float>(CounterRandom(1, input).uniform(static_cast<uint64_t>(e)));
      const float normal = std::sqrt(static_cast<float>(channels) / 2);
      if (input == kX) {
        const float sign = e / channels % nodes % 2 == 0 ? 1.0f : -1.0f;
        value = c > 1 ? 0.01f * (uniform - 0.5f) : (c == 0 ? sign : -sign) * (1 + 0.3f * uniform);
      }
      if (input == kNormWeight) value = c == 0 ? 0.01f / normal : c == 1 ? 1 / normal : 1e-4f;
      if (input == kNormBias) value = c == 0 ? 1 : c == 1 ? 0 : 1 + 0x1p-13f;
      if (input == kLeftGate || input == kRightGate || input == kOutGate || input == kToOutNormBias)
        value = 0;
      if (input == kToOutNormWeight) value = 1;
      if (input == kLeftProj) {
        const float first = std::ldexp(h % 2 == 0 ? 1.0f : -1.25f, static_cast<int>(h / 2) - 1);
        const float small = 0x1p-28f * (1 + 0.125f * static_cast<float>(e % 7) + 0x1p-13f);
        value = c == 0 ? first : c == 1 ? 0 : h % 2 == 0 ? -small : small;
      }
      if (input == kRightProj) value = c == 1 ? 1 + static_cast<float>(h) / 16 : 0;
    };
    expect_bounded(Factor::kTF32x3, DType::kF32, sized(nodes, channels, 8), change, Sums::kTruncated);
  }
}

// Both sides would be 0, but rounding their weights leaves an error, the same at all edges. hidden
// is the product of two such errors.
TEST(TriMulOracle, BoundsProductsOfErrorsOfWeights) {
  const int64_t channels = 64;
  const auto change = [&](size_t input, int64_t e, float& value) {
    const int64_t h = e / channels, pair = e % channels / 2;
    if (input == kNormWeight) value = 0;
    if (input == kNormBias) value = 1;
    if (input == kLeftGate || input == kRightGate || input == kOutGate || input == kToOutNormBias) value = 0;
    if (input == kToOutNormWeight) value = 1;
    if (input != kLeftProj && input != kRightProj) return;
    // In a pair that adds up to nearly 0, one is rounded up and one down.
    const double between =
        128.5 + std::floor(127 * CounterRandom(1, input).uniform(static_cast<uint64_t>(e / 2)));
    const double side = pair < 8 * (h + 1) || pair % 2 == 1 ? 0x1p-10 : -0x1p-10;
    value = static_cast<float>(e % 2 == 0 ? between + side : side - between) / 256;
  };
  for (const int64_t nodes : {8, 64})
    expect_bounded(Factor::kBF16, DType::kBF16, sized(nodes, channels, 4), change);
}

// One side would be 0, but rounding its weights leaves an error, in channels without a norm.weight.
// The other side would be 0, but rounding xn leaves an error: its weights are equal in triples of
// channels whose xn adds up to 0.
TEST(TriMulOracle, BoundsErrorsOfWeightsTimesThoseOfTheOtherSide) {
  const int64_t channels = 24, half = channels / 2;
  for (const bool is_left : {true, false}) {
    const auto change = [&](size_t input, int64_t e, float& value) {
      const int64_t h = e / channels, c = e % channels;
      const auto uniform = [&](int64_t i) {
        return CounterRandom(1, input).uniform(static_cast<uint64_t>(i));
      };
      if (input == kX) {
        const double first = 1 + uniform(e / 3 * 3), second = 1 + uniform(e / 3 * 3 + 1);
        value = static_cast<float>(c % 3 == 0 ? first : c % 3 == 1 ? second : -first - second);
      }
      if (input == kNormWeight) value = c < half ? 0 : 1;
      if (input == kNormBias) value = c < half ? 1 : 0;
      if (input == kLeftGate || input == kRightGate || input == kOutGate || input == kToOutNormBias)
        value = 0;
      if (input == kToOutNormWeight) value = 1;
      if (input == (is_left ? kLeftProj : kRightProj)) {
        const double between = 128.5 + std::floor(127 * uniform(e / 2));
        value = c >= half ? 0 : static_cast<float>(e % 2 == 0 ? between + 0x1p-10 : 0x1p-10 - between) / 256;
      }
      if (input == (is_left ? kRightProj : kLeftProj))
        value = c < half ? 0 : static_cast<float>(1 + (c / 3 + 3 * h) % 5) * (h % 2 == 0 ? 1.0f : -1.0f);
    };
    expect_bounded(Factor::kBF16, DType::kBF16, sized(8, channels, 8), change);
  }
}

// Terms of the projections of left and right are positive in one half of the channels and opposite
// in the other. Partial sums grow with the number of terms. The smaller the spread of xn, the more
// of p cancels.
TEST(TriMulOracle, BoundsProjectionsOfSortedTerms) {
  SLOW;
  NOT_SANITIZED("minutes of the same code as in other tests, for other numbers");
  struct Sorted {
    Factor factor;
    Sums sums;
    int64_t channels;
    float spread;
  };
  for (const Sorted& of : {Sorted{Factor::kStored, Sums::kRounded, 16384, 1e-4f},
                           Sorted{Factor::kTF32x3, Sums::kTruncated, 768, 1e-4f},
                           Sorted{Factor::kTF32x3, Sums::kTruncated, 4096, 1}}) {
    const auto change = [&](size_t input, int64_t e, float& value) {
      const int64_t c = e % of.channels, half = of.channels / 2;
      const auto pair = static_cast<uint64_t>(e / of.channels * half + c % half);
      const double uniform = CounterRandom(3, input).uniform(pair);
      if (input == kNormWeight) value *= of.spread;
      if (input == kNormBias) value = static_cast<float>(1 + 0.3 * uniform);
      if (input == kLeftGate || input == kRightGate) value = 0;
      if (input == kLeftProj || input == kRightProj)
        value = static_cast<float>((0.5 + uniform) * (c < half ? 1 : -1));
    };
    const Recipe recipe = recipe_of(of.factor, DType::kF32);
    const Comparison c = compare_loop(recipe, recipe, sized(2, of.channels, 8), change, INT64_MAX, of.sums);
    EXPECT_EQ(c.wrong, 0) << recipe.to_string() << ", " << of.channels << ": " << c.max_error_over_bound;
  }
}

// If the first half of hidden's terms has the opposite sign of the second, partial sums are as
// large as the sums of magnitudes. They lose more than sums of terms with alternating signs. Terms
// that go to -X early and to X late lose less than that, but also more: their last partial sums are
// 2X. In the opposite order the first ones are. All terms of a channel have one sign, apart from
// the mask's.
TEST(TriMulOracle, BoundsTruncatedSumsOfSortedTerms) {
  Case which = sized(256, 16, 8);
  which.dims = {{"b", 1}, {"n", 256}, {"c", 16}, {"h", 8}, {"mask", 1}};
  for (Factor factor : {Factor::kTF32x3, Factor::kStored}) {
    const auto bounds_of_row = [&](const std::function<float(int64_t)>& sign) {
      const auto change = [&](size_t input, int64_t e, float& value) {
        if (input == kNormWeight) value *= 0.05f;
        if (input == kMask) value = e >= 256 ? 1 : sign(e);
      };
      double sum = 0;
      for (const Expected& e :
           expected_of(changed(which, change), recipe_of(factor, DType::kF32), 256 * int64_t{16}))
        sum += e.bound;
      return sum;
    };
    const auto halves = [](int64_t k) { return k < 128 ? 1.0f : -1.0f; };
    const auto alternating = [](int64_t k) { return k % 2 == 0 ? 1.0f : -1.0f; };
    EXPECT_GT(bounds_of_row(halves), 1.5 * bounds_of_row(alternating)) << static_cast<int>(factor);
    const auto late = [](int64_t k) { return k < 16 ? -1.0f : k < 224 ? 0.0f : 1.0f; };
    const auto early = [&](int64_t k) { return late(255 - k); };
    const auto mixed = [](int64_t k) {
      return k % 16 == 0 ? -1.0f : k % 16 == 5 || k % 16 == 11 ? 1.0f : 0.0f;
    };
    const double of_mixed = bounds_of_row(mixed);
    EXPECT_GT(bounds_of_row(late), 1.2 * of_mixed) << static_cast<int>(factor);
    EXPECT_GT(bounds_of_row(early), 1.2 * of_mixed) << static_cast<int>(factor);
  }
}

// The mean bound at the edges of the first node, on the diagonal and beside it.
struct Bounds {
  double diagonal = 0, others = 0;
};
Bounds bounds_of(const Case& which, const Change& change) {
  const int64_t n = which.dims[kN], c = which.dims[kC];
  const auto expected = expected_of(changed(which, change), recipe_of(Factor::kBF16, DType::kBF16), n * c);
  Bounds bounds;
  for (size_t e = 0; e < expected.size(); ++e) {
    if (e < static_cast<size_t>(c)) {
      bounds.diagonal += expected[e].bound / static_cast<double>(c);
    } else {
      bounds.others += expected[e].bound / static_cast<double>((n - 1) * c);
    }
  }
  return bounds;
}

// If left and right have the same weights, they are equal on the diagonal and rounded alike.
TEST(TriMulOracle, BoundsSidesThatAreEqual) {
  const auto sides = [](bool is_equal) {
    return [is_equal](size_t input, int64_t e, float& value) {
      const bool is_right = input == kRightProj || input == kRightGate;
      if (!is_right && input != kLeftProj && input != kLeftGate) return;
      const bool is_gate = input == kLeftGate || input == kRightGate;
      value = static_cast<float>(0.2 * CounterRandom(2, is_gate).normal(static_cast<uint64_t>(e)));
      if (is_right && !is_equal) value *= 1 + 0x1p-20f;
    };
  };
  const Case which = problem_of(12, 1);
  const Bounds equal = bounds_of(which, sides(true)), nearly = bounds_of(which, sides(false));
  EXPECT_GT(equal.diagonal / nearly.diagonal, 1.01 * equal.others / nearly.others);
}

// Nearly equal weights of a row err as equal ones do.
TEST(TriMulOracle, BoundsWeightsCloserThanAUnit) {
  for (bool is_last : {false, true}) {
    const auto weights = [is_last](double spread) {
      return [is_last, spread](size_t input, int64_t e, float& value) {
        const CounterRandom random(2, input);
        if (input == kNormBias) value = 1;
        if (input < kLeftProj || input == kToOutNormWeight || input == kToOutNormBias) return;
        value = static_cast<float>(rounded(8, value));
        if (is_last ? input != kToOut : input > kRightGate) return;
        value = static_cast<float>(random.normal(static_cast<uint64_t>(e / 32)) *
                                   (1 + spread * random.uniform(static_cast<uint64_t>(e), 1)));
      };
    };
    const Case which = problem_of(12, 1);
    const double equal = bounds_of(which, weights(0)).others, nearly = bounds_of(which, weights(1e-5)).others;
    EXPECT_GT(nearly, 0.8 * equal);
  }
}

TEST(TriMulOracle, BoundsLastWeightsThatAreThoseOfAProjection) {
  const auto weights = [](bool is_equal) {
    return [is_equal](size_t input, int64_t e, float& value) {
      if (input != kLeftProj && input != kToOut) return;
      value = static_cast<float>(CounterRandom(2, 0).normal(static_cast<uint64_t>(e)));
      if (input == kToOut && !is_equal) value *= 1 + 0x1p-20f;
    };
  };
  const Case which = problem_of(12, 1);
  EXPECT_GT(bounds_of(which, weights(true)).others, 1.05 * bounds_of(which, weights(false)).others);
}

// z is its gate, which is within e^-16 of 1. Storing it in bf16 is nearly exact, not wrong by half
// a unit.
TEST(TriMulOracle, KnowsGatesNearOne) {
  const auto change = [](size_t input, int64_t e, float& value) {
    if (input == kNormWeight) value *= 1e-3f;
    if (input == kNormBias) value = 1;
    if (input == kOutGate)
      value = 1 + static_cast<float>(CounterRandom(1, 0).uniform(static_cast<uint64_t>(e)));
    if (input == kToOutNormWeight) value = 0;
    if (input == kToOutNormBias) value = 1;
  };
  const Case which = sized(6, 16, 32);
  expect_bounded(Factor::kTF32, DType::kBF16, which, change);
  const Problem problem = changed(which, change);
  const std::vector<Expected> in_f32 = expected_of(problem, recipe_of(Factor::kTF32, DType::kF32), 16),
                              in_bf16 = expected_of(problem, recipe_of(Factor::kTF32, DType::kBF16), 16);
  for (size_t c = 0; c < in_f32.size(); ++c) EXPECT_LT(in_bf16[c].bound, 2 * in_f32[c].bound) << c;
}

// If few errors add up, their products are noise like the errors themselves. No bound is closer
// than twice the noise, and some are nearly as close.
TEST(TriMulOracle, BoundsFewErrorsByNoMoreThanTwiceTheNoise) {
  double closest = 0;
  for (int64_t n : {1, 2}) {
    const Problem problem = changed(sized(n, 16, 15), [](size_t, int64_t, float&) {});
    for (const Expected& e : expected_of(problem, recipe_of(Factor::kBF16, DType::kBF16))) {
      EXPECT_LE(e.bound, 2 * e.noise) << n;
      closest = std::max(closest, e.bound / e.noise);
    }
  }
  EXPECT_GT(closest, 1.85);
}

}  // namespace
}  // namespace assay::trimul
