// SPDX-License-Identifier: Apache-2.0
#include "oracles/axpy/axpy.h"

#include "kernels/axpy/axpy.h"
#include "oracles/core/read.h"

namespace assay::axpy {
namespace {

enum Fault : int { kScaleForgotten = 1 };

Evaluate formula(const Question& question, int, const Arithmetic& arithmetic, int fault) {
  return [&, fault](std::span<const int64_t> elements, std::span<Ball> values) {
    const Reader a(question.inputs[kA]), x(question.inputs[kX]), y(question.inputs[kY]);
    for (size_t i = 0; i < elements.size(); ++i) {
      Balls scales, terms;
      scales.push_back({fault == kScaleForgotten ? 1 : a({0})});
      terms.push_back({x({elements[i]})});
      scales.push_back({1});
      terms.push_back({y({elements[i]})});
      values[i] = arithmetic.round(question.recipe.storage, arithmetic.dot(scales.row(), terms.row(), {}));
    }
  };
}

}  // namespace

std::vector<Oracle> oracles() {
  return {{.op = "axpy", .formula = formula, .faults = {"the scale is forgotten"}, .block_axes = {1}}};
}

}  // namespace assay::axpy
