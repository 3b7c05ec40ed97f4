// SPDX-License-Identifier: Apache-2.0
// How the sum of mhc_post is reached: a sum for each token, at one of its columns.
#include "kernels/mhc_post/mhc_post.h"

#include "properties/core/probed_sum.h"

namespace assay::mhc_post {
namespace {

constexpr int64_t kColumns = 64;

int64_t column_of(int64_t token) {
  return token * 7 % kColumns;
}

// Term 0 is post * x, term 1 + j is comb * residual of stream j.
double encode(const Factors& f, size_t tensor, const Extents& i) {
  const auto at = [&](int64_t term) { return f.at(i[0], term); };
  if (tensor == kPost) return f.a[at(0)];
  if (tensor == kComb) return f.a[at(1 + i[1])];
  if (tensor == kX) return i[1] == column_of(i[0]) ? f.b[at(0)] : 0;
  return i[2] == column_of(i[0]) ? f.b[at(1 + i[1])] : 0;
}

}  // namespace

std::vector<ProbedSum> probed_sums() {
  return {{.op = "mhc_post",
           .site = site::kOut,
           .what = "the sum over x and the streams",
           .usual_terms = 5,
           .most_terms = 1 + kMaxStreams,
           .is_polynomial = true,
           .most_sums = [](int64_t) { return int64_t{1000}; },
           .dims =
               [](int64_t terms, int64_t sums) {
                 return Dims{{kN, sums}, {kHc, terms - 1}, {kH, kColumns}};
               },
           .encode = encode,
           .decode =
               [](const Factors&, const Values& out, int64_t sum) {
                 return out.at(kOut, {sum, 0, column_of(sum)});
               }}};
}

}  // namespace assay::mhc_post
