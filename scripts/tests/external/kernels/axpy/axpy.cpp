// SPDX-License-Identifier: Apache-2.0
#include "kernels/axpy/axpy.h"

namespace assay::axpy {
namespace {

Cost cost(const Dims& dims, DType storage) {
  const int64_t n = dims[kN];
  return {.bytes = (3 * n + 1) * static_cast<int64_t>(size_of(storage)), .flops = 2 * n};
}

Path cpu_path() {
  return {.name = "cpu",
          .device = DeviceKind::kCpu,
          .dtypes = {DType::kF32, DType::kBF16},
          .deterministic = true,
          .recipe = f32_recipe,
          .unsupported = {},
          .run =
              [](const Call& call) {
                axpy_cpu({call.inputs[kA], call.inputs[kX], call.inputs[kY], call.outputs[kOut]});
              },
          .summary = "one plain loop"};
}

}  // namespace

const std::vector<Op>& ops() {
  static const std::vector<Op> all = {
      {.name = "axpy",
       .formula = "out[i] = a * x[i] + y[i]",
       .dims = {{kN, 0, int64_t{1} << 40, {8, 16}, "elements"}},
       .inputs = {{kA, "1", {}, "scale"}, {kX, "n", {}, "scaled vector"}, {kY, "n", {}, "added vector"}},
       .outputs = {{kOut, "n", {}, "sum"}},
       .cost = cost,
       .paths = {cpu_path()}}};
  return all;
}

}  // namespace assay::axpy
