// SPDX-License-Identifier: Apache-2.0
// The problems that axpy is timed on.
#include "kernels/axpy/axpy.h"

#include "bench/core/measure.h"

namespace assay::axpy {

std::vector<Sweep> sweeps() {
  return {{.op = "axpy", .device = DeviceKind::kCpu, .dtype = DType::kF32, .dims = {{kN, int64_t{1} << 22}}}};
}

}  // namespace assay::axpy
