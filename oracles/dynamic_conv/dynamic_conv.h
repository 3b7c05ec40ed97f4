// SPDX-License-Identifier: Apache-2.0
// Oracle of dynamic_conv and dynamic_conv_grad, element by element. Sites: each output is a sum of
// products in f32, in any order, rounded once to the storage dtype. dk is one product, and 0 where
// its tap lies before t = 0.
#pragma once

#include <vector>

#include "oracles/core/oracle.h"

namespace assay::dynamic_conv {

std::vector<Oracle> oracles();

}  // namespace assay::dynamic_conv
