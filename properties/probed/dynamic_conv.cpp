// SPDX-License-Identifier: Apache-2.0
// How the sums of dynamic_conv and of its gradient are reached: a sum for each channel of two
// entries of the batch, at the first position that has all taps.
#include "kernels/dynamic_conv/dynamic_conv.h"

#include "properties/core/probed_sum.h"

namespace assay::dynamic_conv {
namespace {

constexpr int64_t kEntries = 2;

Dims dims_of(int64_t terms, int64_t sums) {
  return {{kB, kEntries}, {kT, terms}, {kD, (sums + kEntries - 1) / kEntries}, {kW, terms}};
}

// The factor of the sum in this entry and channel.
double factor(const Factors& f, const std::vector<double>& of, const Extents& i, int64_t term) {
  const int64_t sum = i[2] * kEntries + i[0];
  return sum < f.sums() ? of[f.at(sum, term)] : 0;
}

// Tap w of the last position multiplies x at time w.
double encode(const Factors& f, size_t tensor, const Extents& i) {
  if (tensor == kX) return factor(f, f.b, i, i[1]);
  return i[1] == f.terms - 1 ? factor(f, f.a, i, i[3]) : 0;
}

// Tap w of time W-1-w multiplies dout there, for dx at time 0.
double encode_dx(const Factors& f, size_t tensor, const Extents& i) {
  const int64_t w = f.terms - 1 - i[1];
  if (tensor == grad::kDout) return factor(f, f.b, i, w);
  return tensor == grad::kK && i[3] == w ? factor(f, f.a, i, w) : 0;
}

ProbedSum sum_over_taps(std::string_view op, Site site, std::string_view what) {
  return {.op = op,
          .site = site,
          .what = what,
          .usual_terms = 4,
          .most_terms = kMaxTaps,
          .is_polynomial = true,
          .most_sums = [](int64_t) { return int64_t{1000}; },
          .dims = dims_of};
}

}  // namespace

std::vector<ProbedSum> probed_sums() {
  ProbedSum out = sum_over_taps("dynamic_conv", site::kOut, "the sum over the taps");
  out.encode = encode;
  out.decode = [](const Factors& f, const Values& values, int64_t sum) {
    return values.at(kOut, {sum % kEntries, f.terms - 1, sum / kEntries});
  };
  ProbedSum dx = sum_over_taps("dynamic_conv_grad", site::kDx, "the sum over the taps of dx");
  dx.encode = encode_dx;
  dx.decode = [](const Factors&, const Values& values, int64_t sum) {
    return values.at(grad::kDx, {sum % kEntries, 0, sum / kEntries});
  };
  return {out, dx};
}

}  // namespace assay::dynamic_conv
