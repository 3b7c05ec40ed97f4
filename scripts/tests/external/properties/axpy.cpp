// SPDX-License-Identifier: Apache-2.0
// What axpy adds to the generic checks: one specimen, and no law.
#include "kernels/axpy/axpy.h"

#include "properties/core/specimen.h"

namespace assay::axpy {

std::vector<Specimen> specimens() {
  Path path = ops().front().path("cpu");
  path.name = "specimen.y_dropped";
  path.summary = "y is not added";
  path.run = [](const Call& call) {
    static constexpr double kZero = 0;  // no bit set: a zero of every dtype
    const ConstTensorView zeros{&kZero, call.dtype, call.inputs[kY].shape, {0}};
    axpy_cpu({call.inputs[kA], call.inputs[kX], zeros, call.outputs[kOut]});
  };
  return {{.op = "axpy", .fault = "y is not added", .path = path}};
}

std::vector<Law> laws() {
  return {};
}

}  // namespace assay::axpy
