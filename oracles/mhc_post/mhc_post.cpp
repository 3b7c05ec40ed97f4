// SPDX-License-Identifier: Apache-2.0
#include "oracles/mhc_post/mhc_post.h"

#include "kernels/mhc_post/mhc_post.h"
#include "oracles/core/bound.h"
#include "oracles/core/read.h"

namespace assay::mhc_post {
namespace {

// What a counterfeit gets wrong; kNothing for the oracle itself.
enum class Fault : uint8_t { kNothing, kCombTransposed, kPostOnResidual, kLastStreamDropped };

Answer answer(Fault fault, const Question& question) {
  return [fault, &question](std::span<const int64_t> elements, std::span<Expected> expected) {
    const Reader x(question.inputs[kX]);
    const Reader residual(question.inputs[kResidual]);
    const Reader post(question.inputs[kPost]);
    const Reader comb(question.inputs[kComb]);
    const Extents shape = question.inputs[kResidual].shape;
    const int64_t streams = shape[1] - (fault == Fault::kLastStreamDropped ? 1 : 0);
    for (size_t k = 0; k < elements.size(); ++k) {
      const Extents at = index_of(elements[k], shape);
      const int64_t n = at[0], i = at[1], h = at[2];
      SumOfProducts sum;
      sum.add(post({n, i}), fault == Fault::kPostOnResidual ? residual({n, i, h}) : x({n, h}));
      for (int64_t j = 0; j < streams; ++j) {
        sum.add(fault == Fault::kCombTransposed ? comb({n, i, j}) : comb({n, j, i}), residual({n, j, h}));
      }
      expected[k] = sum.expected(question.recipe);
    }
  };
}

Solve solve(Fault fault) {
  return [fault](const Question& question, int) { return answer(fault, question); };
}

}  // namespace

std::vector<Oracle> oracles() {
  return {{.op = "mhc_post",
           .solve = solve(Fault::kNothing),
           .counterfeits = {{"comb is transposed", solve(Fault::kCombTransposed)},
                            {"post weighs the residual", solve(Fault::kPostOnResidual)},
                            {"the last stream is dropped", solve(Fault::kLastStreamDropped)}}}};
}

}  // namespace assay::mhc_post
