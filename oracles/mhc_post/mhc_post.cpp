// SPDX-License-Identifier: Apache-2.0
// Oracle of mhc_post, element by element. Sites: each output is a sum of HC + 1 products in f32, in
// any order, rounded once to the storage dtype.
#include "kernels/mhc_post/mhc_post.h"

#include "oracles/core/formula.h"

namespace assay::mhc_post {
namespace {

enum Fault : int { kCombTransposed = 1, kPostOnResidual, kLastStreamDropped };

// out[n,i,h] = post[n,i] * x[n,h] + sum_j comb[n,j,i] * residual[n,j,h]
Evaluate formula(const Question& question, int, const Arithmetic& a, int fault) {
  const Reader x(question.inputs[kX]), residual(question.inputs[kResidual]);
  const Reader post(question.inputs[kPost]), comb(question.inputs[kComb]);
  const Sum out = question.recipe.sum(site::kOut);
  const int64_t streams = question.dims[kHc] - (fault == kLastStreamDropped ? 1 : 0);
  return each(question, a, question.inputs[kResidual].shape, [=, &a](const Extents& at, Products& products) {
    const int64_t n = at[0], i = at[1], h = at[2];
    products.add(post({n, i}), fault == kPostOnResidual ? residual({n, i, h}) : x({n, h}));
    for (int64_t j = 0; j < streams; ++j)
      products.add(fault == kCombTransposed ? comb({n, i, j}) : comb({n, j, i}), residual({n, j, h}));
    return products.sum(a, out);
  });
}

}  // namespace

std::vector<Oracle> oracles() {
  return {{.op = "mhc_post",
           .formula = formula,
           .faults = {"comb is transposed", "post weighs the residual", "the last stream is dropped"},
           .sums = {site::kOut},
           .block_axes = {3}}};
}

}  // namespace assay::mhc_post
