// SPDX-License-Identifier: Apache-2.0
// How the sums of trimul are reached. Gates of weight 0 are exactly 1/2. A norm of weight 0 is its
// bias. A row of equally many +1 and -1, times 2^20, is its own norm times 2^-20: eps vanishes.
//
// The norm over the hidden channels is affine in each row. So two channels whose values are known,
// 0 and a reference, tell the sum beside them.
#include "kernels/trimul/trimul.h"

#include <algorithm>
#include <cmath>

#include "properties/core/probed_sum.h"

namespace assay::trimul {
namespace {

enum : int64_t { kSum, kReference, kZero, kHidden };  // hidden channels

// |a b| of a small term, or 0.
double small_size(const Factors& f, int64_t sum, int64_t term) {
  const size_t at = f.at(sum, term);
  return !f.asks_for_zero && f.is_small[at] ? std::abs(f.a[at] * f.b[at]) : 0;
}

// The sum, by the row of out that holds the hidden channels.
double ratio(const Factors& f, int64_t sum, const Values& out, const Extents& edge) {
  const auto above_zero = [&](int64_t channel) {
    return out.at(kOut, {edge[0], edge[1], edge[2], channel}) -
           out.at(kOut, {edge[0], edge[1], edge[2], kZero});
  };
  double reference = 0;
  for (int64_t k = 0; k < f.terms; ++k) reference += small_size(f, sum, k);
  if (f.asks_for_zero || above_zero(kSum) == 0) return above_zero(kSum);
  return above_zero(kSum) / above_zero(kReference) * reference;
}

double is_one(bool condition) {
  return condition ? 1 : 0;
}

// The contraction. Row s of the mask holds the sizes of the first factors of sum s, row half + s
// those of the second ones, and x their signs: the sum lies at the edge (s, half + s). Hidden
// channel 0 is the sum. Channel 1 adds up the sizes of small terms, which kSmall and kNotLarge
// select: their mean is 1 or 0. Channel 2 is 0. The other half of x has the opposite signs.
namespace contraction {
enum : int64_t { kOne, kSign, kSmall, kNotLarge, kKnown, kChannels = 2 * kKnown };

int64_t half(const Factors& f) {
  return f.terms / 2;
}

// The factor that belongs to an edge, or 0.
double factor(const Factors& f, const Extents& edge) {
  const bool is_second = edge[1] >= half(f);
  const int64_t sum = is_second ? edge[1] - half(f) : edge[1];
  return sum < f.sums() ? (is_second ? f.b : f.a)[f.at(sum, edge[2])] : 0;
}

bool is_left_out(const Factors& f, const Extents& edge) {
  const int64_t sum = edge[1] - half(f);
  return sum >= 0 && sum < f.sums() && (f.asks_for_zero || !f.is_small[f.at(sum, edge[2])]);
}

double encode(const Factors& f, size_t tensor, const Extents& i) {
  if (tensor == kMask) return std::abs(factor(f, i));
  if (tensor == kX) {
    const int64_t channel = i[3] % kKnown;
    const bool is_flipped =
        (channel == kSign && std::signbit(factor(f, i))) || (channel == kNotLarge && is_left_out(f, i));
    return is_flipped == (i[3] >= kKnown) ? 0x1p20 : -0x1p20;
  }
  if (tensor == kNormWeight || tensor == kToOutNormWeight) return 1;
  if (tensor == kLeftProj)
    return is_one((i[0] == kSum && i[1] == kSign) || (i[0] == kReference && i[1] == kOne));
  if (tensor == kRightProj && i[0] == kSum) return is_one(i[1] == kSign);
  if (tensor == kRightProj && i[0] == kReference) return is_one(i[1] == kSmall || i[1] == kNotLarge) / 2;
  return tensor == kToOut ? is_one(i[0] == i[1]) : 0;
}

double decode(const Factors& f, const Values& out, int64_t sum) {
  return ratio(f, sum, out, {0, sum, half(f) + sum});
}
}  // namespace contraction

// The projections: xn is 1, so the weights of a hidden channel are the terms. Channel 0 is the sum,
// times right, which is 1/2 for all. Channel 1 adds up the sizes of small terms; channel 2 is 0.
namespace projections {
double encode(const Factors& f, size_t tensor, const Extents& i) {
  if (tensor == kMask || tensor == kToOutNormWeight || tensor == kNormBias) return 1;
  if (tensor == kRightProj) return is_one(i[1] == 0);
  if (tensor == kToOut) return is_one(i[0] == i[1]);
  if (tensor != kLeftProj || i[1] >= f.terms || i[0] == kZero) return 0;
  const double term = f.b[f.at(0, i[1])];
  return i[0] == kSum ? term : small_size(f, 0, i[1]);
}

double decode(const Factors& f, const Values& out, int64_t) {
  return ratio(f, 0, out, {0, 0, 0});
}
}  // namespace projections

// The projection to the output: z is 1, so out is the sum of weights.
double encode_update(const Factors& f, size_t tensor, const Extents& i) {
  if (tensor == kToOutNormBias) return 2;
  return tensor == kToOut && i[0] < f.sums() ? f.b[f.at(i[0], i[1])] : 0;
}

// The mean of a norm's row: its first value is 0, and the terms follow. Paths add up deviations
// from the first value. The norm makes -mean / std of it, and std is known from the terms.
namespace mean {
constexpr Site kOfX{9, "mean of x"}, kOfHidden{10, "mean of hidden"};

// sqrt(n) times the root of variance + eps, over a sum of n values: what -y[0] is times to be it.
double scale_of(const Factors& f) {
  const auto size = static_cast<double>(f.terms + 1);
  double total = 0, squares = 0;
  for (double term : f.b) {
    total += term;
    squares += term * term;
  }
  return std::sqrt(squares / size - total / size * (total / size) + kEpsilon) * size;
}

// The weight of the first channel, a power of two. It brings that channel near 1.
double weight(const Factors& f) {
  double small = 0;
  for (int64_t k = 0; k < f.terms; ++k) small += small_size(f, 0, k);
  return f.asks_for_zero || small == 0 ? 0x1p40 : std::exp2(std::round(std::log2(scale_of(f) / small)));
}

// The other channels of xn are 1. Hidden channel 0 is the first one times 1/4, channel 1 is 1/4.
double encode_x(const Factors& f, size_t tensor, const Extents& i) {
  if (tensor == kX) return i[3] == 0 ? 0 : f.b[f.at(0, i[3] - 1)];
  if (tensor == kNormWeight) return i[0] == 0 ? weight(f) : 0;
  if (tensor == kNormBias) return is_one(i[0] > 0);
  if (tensor == kToOutNormWeight) return 1;
  if (tensor == kLeftProj)
    return is_one((i[0] == kSum && i[1] == 0) || (i[0] == kReference && i[1] == 1 && !f.asks_for_zero));
  if (tensor == kRightProj) return is_one((i[0] == kSum || i[0] == kReference) && i[1] == 1);
  return tensor == kToOut ? is_one(i[0] == i[1]) : 0;
}

double decode_x(const Factors& f, const Values& out, int64_t) {
  const auto at = [&](int64_t channel) { return out.at(kOut, {0, 0, 0, channel}); };
  const double of_sum = at(kSum) - at(kZero);
  if (f.asks_for_zero || of_sum == 0) return of_sum;
  return -of_sum / (at(kReference) - at(kZero)) / weight(f) * scale_of(f);
}

// xn is 1, and so are the sums of right.
double encode_hidden(const Factors& f, size_t tensor, const Extents& i) {
  if (tensor == kNormBias || tensor == kToOutNormWeight) return 1;
  if (tensor == kRightProj) return is_one(i[1] == 0);
  if (tensor == kLeftProj) return i[0] > 0 && i[1] == 0 ? 4 * f.b[f.at(0, i[0] - 1)] : 0;
  return tensor == kToOut ? is_one(i[0] == 0 && i[1] == 0) : 0;
}

double decode_hidden(const Factors& f, const Values& out, int64_t) {
  return -2 * out.at(kOut, {0, 0, 0, 0}) * scale_of(f);
}
}  // namespace mean

std::vector<ProbedSum> means(ProbedSum sum) {
  sum.site = mean::kOfX;
  sum.what = "the sum over a row of x";
  sum.why_not_with = [](const Recipe& recipe) -> std::string_view {
    const bool is_scaled = recipe.rounding(site::kXn).is_scaled;
    return is_scaled ? "a mean that is far below std vanishes among scaled values in f16" : "";
  };
  sum.contract = "sum in f32 at least, a term goes through 36 + n/32 additions at most";
  sum.contract_bits = 24;
  sum.contract_depth = [](int64_t terms) { return 36 + (terms + 1) / 32; };
  sum.usual_terms = 127;
  sum.most_terms = 1023;
  sum.huge = 70;
  sum.dims = [](int64_t terms, int64_t) {
    return Dims{{kB, 1}, {kN, 1}, {kC, terms + 1}, {kH, kHidden}, {kM, 0}};
  };
  sum.encode = mean::encode_x;
  sum.decode = mean::decode_x;
  ProbedSum of_hidden = sum;
  of_hidden.site = mean::kOfHidden;
  of_hidden.what = "the sum over a row of hidden";
  of_hidden.dims = [](int64_t terms, int64_t) {
    return Dims{{kB, 1}, {kN, 1}, {kC, kHidden}, {kH, terms + 1}, {kM, 0}};
  };
  of_hidden.encode = mean::encode_hidden;
  of_hidden.decode = mean::decode_hidden;
  return {sum, of_hidden};
}

}  // namespace

std::vector<ProbedSum> probed_sums() {
  ProbedSum contracts{
      .op = "trimul",
      .site = site::kContraction,
      .what = "the sum over k",
      .usual_terms = 64,
      .most_terms = 1024,
      .is_exact = false,
      .most_sums = [](int64_t terms) { return std::max<int64_t>(terms / 2, 1); },
      .dims =
          [](int64_t terms, int64_t) {
            return Dims{{kB, 1}, {kN, terms}, {kC, contraction::kChannels}, {kH, kHidden}, {kM, 1}};
          },
      .encode = contraction::encode,
      .decode = contraction::decode};
  ProbedSum projects = contracts;
  projects.site = site::kProjections;
  projects.what = "the sum over c";
  projects.first = FirstFactor::kOne;
  projects.most_sums = [](int64_t) { return int64_t{1}; };  // their sizes may differ: a norm each
  projects.dims = [](int64_t terms, int64_t) {
    return Dims{{kB, 1}, {kN, 1}, {kC, std::max(terms, int64_t{kHidden})}, {kH, kHidden}, {kM, 1}};
  };
  projects.encode = projections::encode;
  projects.decode = projections::decode;
  ProbedSum updates = projects;
  updates.site = site::kUpdate;
  updates.what = "the sum over h";
  updates.is_exact = true;
  updates.most_sums = [](int64_t) { return int64_t{64}; };
  updates.dims = [](int64_t terms, int64_t sums) {
    return Dims{{kB, 1}, {kN, 1}, {kC, sums}, {kH, terms}, {kM, 0}};
  };
  updates.encode = encode_update;
  updates.decode = [](const Factors&, const Values& out, int64_t sum) {
    return out.at(kOut, {0, 0, 0, sum});
  };
  const std::vector<ProbedSum> of_norms = means(projects);
  return {of_norms[0], projects, contracts, of_norms[1], updates};
}

}  // namespace assay::trimul
