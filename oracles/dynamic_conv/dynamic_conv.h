// SPDX-License-Identifier: Apache-2.0
// Oracle of dynamic_conv and dynamic_conv_grad, by the formula, element by element, in double.
//
//   out   a sum of min(W, t+1) products: the bound of SumOfProducts (oracles/core/bound.h), n <= W
//   dx    a sum of min(W, T-t) products: the same
//   dk    one product: the same with n = 1; exactly 0, bound 0, where the tap lies before t = 0
//
// The oracle reads the inputs as stored, so the bound has no term for them.
#pragma once

#include <vector>

#include "oracles/core/oracle.h"

namespace assay::dynamic_conv {

std::vector<Oracle> oracles();

}  // namespace assay::dynamic_conv
