// SPDX-License-Identifier: Apache-2.0
// The problem that echo is timed on.
#include "kernels/echo/echo.h"

#include "bench/core/measure.h"

namespace assay::echo {

std::vector<Sweep> sweeps() {
  return {{.op = "echo", .device = DeviceKind::kCpu, .dtype = DType::kF32, .dims = {{kN, int64_t{1} << 16}}}};
}

}  // namespace assay::echo
