// SPDX-License-Identifier: Apache-2.0
// Oracle of axpy, element by element: the sum of a * x[i] and y[i] in f32, rounded once to the
// storage dtype.
#include "kernels/axpy/axpy.h"

#include "oracles/core/formula.h"

namespace assay::axpy {
namespace {

enum Fault : int { kScaleForgotten = 1 };

Evaluate formula(const Question& question, int, const Arithmetic& arithmetic, int fault) {
  return [&, fault](std::span<const int64_t> elements, std::span<Ball> values) {
    const Reader a(question.inputs[kA]), x(question.inputs[kX]), y(question.inputs[kY]);
    for (size_t i = 0; i < elements.size(); ++i) {
      Products products;
      products.add(fault == kScaleForgotten ? Ball{1} : a({0}), x({elements[i]}));
      products.add({1}, y({elements[i]}));
      values[i] = arithmetic.round(question.recipe.storage, products.sum(arithmetic, {}));
    }
  };
}

}  // namespace

std::vector<Oracle> oracles() {
  return {{.op = "axpy", .formula = formula, .faults = {"the scale is forgotten"}, .block_axes = {1}}};
}

}  // namespace assay::axpy
