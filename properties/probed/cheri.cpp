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

constexpr int64_t up_to(int64_t size, int64_t step) {
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

// The convolution, behind its norm. Sum s lies in the middle of example s, in the channels of s: in
// the first one as it is, in the second one negated. Two more channels hold 1 and -1. All others
// hold 0. So the mean is 0, and y is proportional to conv.
namespace conv {
enum : int64_t { kZero, kAnotherZero, kOne, kMinusOne, kFirst };
constexpr int64_t kSums = 16, kTaps = 3, kChannels = up_to(kFirst + 2 * kSums, 16);

Dims dims(int64_t, int64_t sums) {
  return {{kN, sums}, {kL, kTaps}, {kC, kChannels}, {kDilation, 1}};
}

double encode(const Factors& f, size_t tensor, const Extents& i) {
  const int64_t channel = i[i.rank() - 1], sum = (channel - kFirst) / 2, row = i[i.rank() - 2];
  const double sign = channel % 2 == 0 ? 1 : -1;
  if (channel < kOne) return 0;
  if (channel < kFirst) return tensor == kW ? (row == 1 ? 1 : 0) : sign;
  if (sum >= f.sums() || row >= f.terms) return 0;
  if (tensor == kW) return f.a[f.at(sum, row)];
  return i[0] == sum ? sign * f.b[f.at(sum, row)] : 0;
}

double decode(const Factors&, const Values& y, int64_t sum) {
  return y.at(kY, {sum, 1, kFirst + 2 * sum}) / y.at(kY, {sum, 1, kOne});
}

// In the block two rows of hidden hold y of each sum and its negative, the last two that of the 1:
// gelu(z) - gelu(-z) = z. w2 brings the sums to one channel, in which x is 0, and the 1 to another.
double encode_block(const Factors& f, size_t tensor, const Extents& i) {
  if (tensor == kX || tensor == kW) return encode(f, tensor, i);
  const int64_t row = tensor == kW1 ? i[0] : i[1], channel = tensor == kW1 ? i[1] : i[0];
  const double sign = row % 2 == 0 ? 1 : -1;
  if (row / 2 > kSums) return 0;
  const bool is_one = row / 2 == kSums;
  if (tensor == kW1) return channel == (is_one ? kOne : kFirst + row / 2 * 2) ? sign : 0;
  return channel == (is_one ? kAnotherZero : kZero) ? sign : 0;
}

double decode_block(const Factors&, const Values& out, int64_t sum) {
  return out.at(kOut, {sum, 1, kZero}) / out.at(kOut, {sum, 1, kAnotherZero});
}
}  // namespace conv

// The mean of an example, which is a sum for each of them. conv is x. Terms follow the first value,
// which is 0: paths add up deviations from one of the example's own values. There y is -mean / std,
// and std is known from the terms.
namespace mean {
constexpr Site kSite{11, "mean"};
constexpr int64_t kChannels = 32, kExamples = 64;

int64_t size_of(int64_t terms) {
  return up_to(terms + 1, kChannels);
}

double encode(const Factors& f, size_t tensor, const Extents& i) {
  if (tensor == kW) return i[0] == 1 ? 1 : 0;
  const int64_t term = i[1] * kChannels + i[2] - 1;
  return i[0] < f.sums() && term >= 0 && term < f.terms ? f.b[f.at(i[0], term)] : 0;
}

double decode(const Factors& f, const Values& y, int64_t sum) {
  const auto size = static_cast<double>(size_of(f.terms));
  double total = 0, squares = 0;
  for (int64_t k = 0; k < f.terms; ++k) {
    const double term = f.b[f.at(sum, k)];
    total += term;
    squares += term * term;
  }
  const double variance = squares / size - total / size * (total / size);
  return -y.at(kY, {sum, 0, 0}) * std::sqrt(variance + kEpsilon) * size;
}
}  // namespace mean

// dx: dconv is dy times 1/sqrt(variance). Of four channels the last one has x = +-2^13 and dy = 0,
// so that this is 2^-12. The others have x = 0, so y is 0. A sum has two of them, with dy and its
// negative: the mean of dy is 0. Tap k multiplies dconv at 2 - k, for dx in the middle.
namespace dx {
constexpr int64_t kSums = 60, kTaps = 3, kChannels = 160;

double encode(const Factors& f, size_t tensor, const Extents& i) {
  const int64_t channel = i[i.rank() - 1], row = i[i.rank() - 2];
  if (channel % 4 == 3) {
    if (tensor == grad::kX) return channel % 8 == 3 ? 0x1p13 : -0x1p13;
    return tensor == grad::kW && row == 1 ? 1 : 0;
  }
  const int64_t place = channel / 4 * 3 + channel % 4, sum = place / 2;
  const int64_t term = tensor == grad::kW ? row : kTaps - 1 - row;
  if (tensor == grad::kX || sum >= f.sums() || term >= f.terms) return 0;
  if (tensor == grad::kW) return f.a[f.at(sum, term)];
  return (place % 2 == 0 ? 1 : -1) * f.b[f.at(sum, term)];
}

double decode(const Factors&, const Values& out, int64_t sum) {
  const int64_t place = 2 * sum;
  return out.at(grad::kDx, {0, 1, place / 3 * 4 + place % 3}) * 0x1p12;
}
}  // namespace dx

}  // namespace

std::vector<ProbedSum> probed_sums() {
  ProbedSum taps{.op = "cheri_conv_norm",
                 .site = site::kConv,
                 .what = "the sum of three products",
                 .usual_terms = conv::kTaps,
                 .most_terms = conv::kTaps,
                 .is_exact = false,
                 .shift = -40,
                 .huge = 40,
                 .most_sums = [](int64_t) { return conv::kSums; },
                 .dims = conv::dims,
                 .encode = conv::encode,
                 .decode = conv::decode};
  ProbedSum taps_of_block = taps;
  taps_of_block.op = "cheri_block";
  taps_of_block.dims = [](int64_t terms, int64_t sums) {
    Dims dims = conv::dims(terms, sums);
    dims.set(kHidden.key, up_to(2 * conv::kSums + 2, 16));
    return dims;
  };
  taps_of_block.encode = conv::encode_block;
  taps_of_block.decode = conv::decode_block;
  ProbedSum of_dx = taps;
  of_dx.op = "cheri_conv_norm_grad";
  of_dx.site = site::kDx;
  of_dx.is_exact = true;
  of_dx.shift = -12;
  of_dx.huge = 50;
  of_dx.most_sums = [](int64_t) { return dx::kSums; };
  of_dx.dims = [](int64_t, int64_t) {
    return Dims{{kN, 1}, {kL, dx::kTaps}, {kC, dx::kChannels}, {kDilation, 1}};
  };
  of_dx.encode = dx::encode;
  of_dx.decode = dx::decode;
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
  ProbedSum mean_of_example = first;
  mean_of_example.op = "cheri_conv_norm";
  mean_of_example.site = mean::kSite;
  mean_of_example.what = "the sum over an example";
  mean_of_example.contract = "sum in f64";
  mean_of_example.contract_bits = 53;
  mean_of_example.usual_terms = 255;
  mean_of_example.most_terms = 1023;
  mean_of_example.huge = 70;
  mean_of_example.most_sums = [](int64_t) { return mean::kExamples; };
  mean_of_example.dims = [](int64_t terms, int64_t sums) {
    return Dims{
        {kN, sums}, {kL, mean::size_of(terms) / mean::kChannels}, {kC, mean::kChannels}, {kDilation, 1}};
  };
  mean_of_example.encode = mean::encode;
  mean_of_example.decode = mean::decode;
  const ProbedSum unseen{.op = "cheri_conv_norm_grad",
                         .site = site::kConv,
                         .what = "the sum of three products",
                         .why_not = "its norm is no output of the gradient"};
  return {taps, mean_of_example, unseen, of_dx, of_dw, taps_of_block, first, second};
}

}  // namespace assay::cheri
