// SPDX-License-Identifier: Apache-2.0
#include "oracles/axpy/axpy.h"

#include "kernels/axpy/axpy.h"
#include "oracles/core/bound.h"
#include "oracles/core/read.h"

namespace assay::axpy {
namespace {

Answer answer(bool forgets_scale, const Question& question) {
  return [forgets_scale, &question](std::span<const int64_t> elements, std::span<Expected> expected) {
    const double a = forgets_scale ? 1 : Reader(question.inputs[kA])({0});
    const Reader x(question.inputs[kX]);
    const Reader y(question.inputs[kY]);
    for (size_t i = 0; i < elements.size(); ++i) {
      SumOfProducts sum;
      sum.add(a, x({elements[i]}));
      sum.add(1, y({elements[i]}));
      expected[i] = sum.expected(question.recipe);
    }
  };
}

Solve solve(bool forgets_scale) {
  return [forgets_scale](const Question& question, int) { return answer(forgets_scale, question); };
}

}  // namespace

std::vector<Oracle> oracles() {
  return {{.op = "axpy", .solve = solve(false), .counterfeits = {{"the scale is forgotten", solve(true)}}}};
}

}  // namespace assay::axpy
