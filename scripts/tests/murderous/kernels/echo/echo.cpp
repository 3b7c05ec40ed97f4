// SPDX-License-Identifier: Apache-2.0
#include "kernels/echo/echo.h"

#include <algorithm>
#include <iterator>

#include "kernels/core/build.h"

namespace assay::echo {

void copy(const Call& call) {
  const ConstTensorView& x = call.inputs[kX];
  const TensorView& out = call.outputs[kOut];
  for (int64_t i = 0; i < out.shape[0]; ++i)
    out.as<float>()[i * out.strides[0]] = x.as<float>()[i * x.strides[0]];
}

const std::vector<Op>& ops() {
  static const std::vector<Op> all = [] {
    Op op{.name = "echo",
          .formula = "out[i] = x[i]",
          .dims = {{kN, 0, int64_t{1} << 40, {8}, "elements"}},
          .inputs = {{kX, "n", {}, "what is copied"}},
          .outputs = {{kOut, "n", {}, "the copy"}},
          .cost = [](const Dims& dims, DType) { return Cost{.bytes = 8 * dims[kN], .flops = 0}; },
          .paths = murderous_paths()};
    Path healthy = f32_path("healthy", DeviceKind::kCpu, copy, "copies");
    healthy.dtypes = {DType::kF32};
    op.paths.insert(op.paths.begin(), healthy);
    std::ranges::move(paths_that_do_not_answer(), std::back_inserter(op.paths));
    healthy.name = "healthy_too";
    op.paths.push_back(healthy);
    healthy.name = "serves_even_sizes";
    healthy.unsupported = [](const Dims& dims, DType) {
      return dims[kN] % 2 == 0 ? std::nullopt : std::optional<std::string>("n is odd");
    };
    op.paths.push_back(healthy);
    if constexpr (kHasCuda) std::ranges::move(cuda_paths(), std::back_inserter(op.paths));
    return std::vector{op};
  }();
  return all;
}

}  // namespace assay::echo
