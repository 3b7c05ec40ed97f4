// SPDX-License-Identifier: Apache-2.0
#include "oracles/mhc_post/mhc_post.h"

#include "kernels/mhc_post/mhc_post.h"
#include "oracles/core/read.h"

namespace assay::mhc_post {
namespace {

enum Fault : int { kCombTransposed = 1, kPostOnResidual, kLastStreamDropped };

Evaluate formula(const Question& question, int, const Arithmetic& a, int fault) {
  return [&, fault](std::span<const int64_t> elements, std::span<Ball> values) {
    const Reader x(question.inputs[kX]), residual(question.inputs[kResidual]);
    const Reader post(question.inputs[kPost]), comb(question.inputs[kComb]);
    const Extents shape = question.inputs[kResidual].shape;
    const int64_t streams = shape[1] - (fault == kLastStreamDropped ? 1 : 0);
    Balls mixes, inputs;
    for (size_t k = 0; k < elements.size(); ++k) {
      const Extents at = index_of(elements[k], shape);
      const int64_t n = at[0], i = at[1], h = at[2];
      mixes.clear(), inputs.clear();
      mixes.push_back({post({n, i})});
      inputs.push_back({fault == kPostOnResidual ? residual({n, i, h}) : x({n, h})});
      for (int64_t j = 0; j < streams; ++j) {
        mixes.push_back({fault == kCombTransposed ? comb({n, i, j}) : comb({n, j, i})});
        inputs.push_back({residual({n, j, h})});
      }
      values[k] =
          a.round(question.recipe.storage, a.dot(mixes.row(), inputs.row(), question.recipe.sum(site::kOut)));
    }
  };
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
