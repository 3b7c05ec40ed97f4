// SPDX-License-Identifier: Apache-2.0
// How the sums of the Cheri ops are reached. The convolution has one tap, so conv is x. A row of
// +-v and zeros with the variance of a power of 4 is its own norm, times a power of two, since v is
// so large that eps vanishes. gelu(16) is 16.
#include "kernels/cheri/cheri.h"

#include <algorithm>
#include <cmath>

#include "properties/core/probed_sum.h"

namespace assay::cheri {
namespace {

int64_t up_to(int64_t size, int64_t step) {
  return (size + step - 1) / step * step;
}

// The first product. Its terms are the first quarter of the channels, where y is 2 and -2 in turns.
// Elsewhere x is 0. Hidden rows 2s and 2s + 1 hold sum s and its negative: gelu(z) - gelu(-z) = z.
// w2 brings that to the channel `terms` + s.
namespace expansion {
int64_t terms_of(const Factors& f) {
  return up_to(f.terms, 2);
}

double weight(const Factors& f) {
  return f.asks_for_zero ? 0x1p40 : 64;
}

double encode(const Factors& f, size_t tensor, const Extents& i) {
  const double sign = i[i.rank() - 1] % 2 == 0 ? 1 : -1;
  if (tensor == kX) return i[2] < terms_of(f) ? sign * 0x1p10 : 0;
  if (tensor == kW) return i[0] == 1 ? 1 : 0;
  if (tensor == kW2) return i[0] == terms_of(f) + i[1] / 2 ? sign * weight(f) : 0;
  if (i[0] / 2 >= f.sums() || i[1] >= f.terms) return 0;
  return (i[0] % 2 == 0 ? sign : -sign) * f.b[f.at(i[0] / 2, i[1])];
}

double decode(const Factors& f, const Values& out, int64_t sum) {
  return out.at(kOut, {0, 0, terms_of(f) + sum}) / (kScale * weight(f) * 2);
}
}  // namespace expansion

// The second product: of eight channels the first two hold y = 2 and -2, the others x = 0 and a sum
// each. All of hidden is 16.
namespace contraction {
constexpr int64_t kGroup = 8, kSums = 6;

double encode(const Factors& f, size_t tensor, const Extents& i) {
  if (tensor == kX) return i[2] % kGroup == 0 ? 0x1p10 : i[2] % kGroup == 1 ? -0x1p10 : 0;
  if (tensor == kW) return i[0] == 1 ? 1 : 0;
  if (tensor == kW1) return i[1] == 0 ? 8 : 0;
  const int64_t place = i[0] % kGroup - (kGroup - kSums), sum = i[0] / kGroup * kSums + place;
  return place >= 0 && sum < f.sums() && i[1] < f.terms ? f.b[f.at(sum, i[1])] : 0;
}

double decode(const Factors&, const Values& out, int64_t sum) {
  return out.at(kOut, {0, 0, sum / kSums * kGroup + kGroup - kSums + sum % kSums}) / (kScale * 16);
}
}  // namespace contraction

// dw: conv is 0, so dconv is dy times 1/sqrt(eps). dy is 1 and -1 in pairs of channels, so its mean
// is 0. x is free. Only the middle tap lies inside, and it sums over examples and positions.
namespace dw {
constexpr int64_t kPositions = 32;

double encode(const Factors& f, size_t tensor, const Extents& i) {
  if (tensor == grad::kW) return 0;
  const int64_t term = i[0] * std::min(f.terms, kPositions) + i[1];
  if (tensor == grad::kDy) return i[2] % 2 == 0 ? 1 : -1;
  return i[2] % 2 == 0 && i[2] / 2 < f.sums() && term < f.terms ? f.b[f.at(i[2] / 2, term)] : 0;
}
}  // namespace dw

}  // namespace

std::vector<ProbedSum> probed_sums() {
  const std::string_view hidden_by_norm =
      "M stays in the example, whose norm then rounds units away: neighbours share the factors";
  ProbedSum first{
      .op = "cheri_block",
      .site = site::kExpansion,
      .what = "the sum over c, of its first quarter",
      .usual_terms = 64,
      .most_terms = 256,
      .first = FirstFactor::kOne,
      .is_exact = false,
      .most_sums = [](int64_t terms) { return terms; },
      .dims =
          [](int64_t terms, int64_t sums) {
            return Dims{
                {kN, 1}, {kL, 1}, {kC, 4 * up_to(terms, 2)}, {kDilation, 1}, {kHidden, up_to(2 * sums, 16)}};
          },
      .encode = expansion::encode,
      .decode = expansion::decode};
  ProbedSum second = first;
  second.site = site::kContraction;
  second.what = "the sum over hidden";
  second.most_terms = 1024;
  second.is_scaled = [](const Recipe& recipe) {
    return recipe.rounding(site::kW2).format != Format::kStored;
  };
  second.most_sums = [](int64_t) { return 16 * contraction::kSums; };
  second.dims = [](int64_t terms, int64_t sums) {
    const int64_t channels = (sums + contraction::kSums - 1) / contraction::kSums * contraction::kGroup;
    return Dims{{kN, 1}, {kL, 1}, {kC, channels}, {kDilation, 1}, {kHidden, up_to(terms, 16)}};
  };
  second.encode = contraction::encode;
  second.decode = contraction::decode;
  ProbedSum of_dw = first;
  of_dw.op = "cheri_conv_norm_grad";
  of_dw.site = site::kDw;
  of_dw.what = "the sum over examples and positions of dw";
  of_dw.usual_terms = 256;  // more than two groups
  of_dw.most_terms = 1024;
  of_dw.huge = 70;
  of_dw.is_scaled = [](const Recipe&) { return true; };
  of_dw.most_sums = [](int64_t) { return int64_t{1}; };  // channels differ in how examples are cut
  of_dw.dims = [](int64_t terms, int64_t sums) {
    const int64_t positions = std::min(terms, dw::kPositions);
    return Dims{
        {kN, (terms + positions - 1) / positions}, {kL, positions}, {kC, 2 * sums}, {kDilation, positions}};
  };
  of_dw.encode = dw::encode;
  of_dw.decode = [](const Factors&, const Values& out, int64_t sum) {
    return out.at(grad::kDw, {1, 2 * sum}) * std::sqrt(kEpsilon);
  };
  return {{.op = "cheri_conv_norm",
           .site = site::kConv,
           .what = "the sum of three products",
           .why_not = hidden_by_norm},
          {.op = "cheri_conv_norm_grad",
           .site = site::kConv,
           .what = "the sum of three products",
           .why_not = hidden_by_norm},
          {.op = "cheri_conv_norm_grad",
           .site = site::kDx,
           .what = "the sum of three products",
           .why_not = "its factors are gradients behind the norm of the same x and w"},
          of_dw,
          {.op = "cheri_block",
           .site = site::kConv,
           .what = "the sum of three products",
           .why_not = hidden_by_norm},
          first,
          second};
}

}  // namespace assay::cheri
