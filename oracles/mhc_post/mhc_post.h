// SPDX-License-Identifier: Apache-2.0
// Oracle of mhc_post, by the formula, element by element, in double.
//
//   out   a sum of HC + 1 products, post * x and comb * residual: the bound of SumOfProducts
//         (oracles/core/bound.h) with n <= HC + 1
//
// The oracle reads the inputs as stored, so the bound has no term for them. The mixes are f32 for
// every storage dtype. A product of 24-bit significands is exact in double. Paths multiply and add
// in f32, as the recipe says.
#pragma once

#include <vector>

#include "oracles/core/oracle.h"

namespace assay::mhc_post {

std::vector<Oracle> oracles();

}  // namespace assay::mhc_post
