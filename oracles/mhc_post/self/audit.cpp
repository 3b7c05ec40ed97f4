// SPDX-License-Identifier: Apache-2.0
// mhc_post as one row of a matrix product: the streams with x below them, weighed by column i of
// comb with post below it.
#include "oracles/core/self/audit.h"

#include "kernels/mhc_post/mhc_post.h"

namespace assay::mhc_post {
namespace {

using test::Dense;
using test::ExactSum;

void out_terms(const std::vector<Dense>& in, const Dims& dims, const Extents& at, ExactSum& sum) {
  const Dense &x = in[kX], &residual = in[kResidual], &post = in[kPost], &comb = in[kComb];
  const int64_t token = at[0], to = at[1], h = at[2];
  for (int64_t from = dims[kHc] - 1; from >= 0; --from) {
    sum.add(residual({token, from, h}), comb({token, from, to}));
  }
  sum.add(x({token, h}), post({token, to}));
}

}  // namespace

std::vector<test::Audit> audits() {
  return {{"mhc_post", {out_terms}}};
}

}  // namespace assay::mhc_post
