// SPDX-License-Identifier: Apache-2.0
// Planted: an oracle that calls the kernel it judges. It compiles, and must not link.
#include "kernels/dynamic_conv/dynamic_conv.h"
#include "oracles/core/oracle.h"

namespace assay::dynamic_conv {
std::vector<Oracle> oracles();
}

int main() {
  assay::dynamic_conv::forward_cpu({});
  return static_cast<int>(assay::dynamic_conv::oracles().size());
}
