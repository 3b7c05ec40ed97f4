// SPDX-License-Identifier: Apache-2.0
// Oracle of trimul: the formula of the contract (kernels/trimul/trimul.h) over an Arithmetic.
//
// Sites, in the order of the formula. `factor` is Recipe::factor, `between` is
// Recipe::intermediate.
//   xn      rounded to factor
//   W       each weight of a product, rounded to factor
//   left, right   mask * (p * sigmoid(g)) in f32, rounded to factor
//   hidden  rounded to between
//   gate    sigmoid in f32, rounded to between
//   z       y * gate in f32, rounded to factor
// Nothing is rounded where factor is kStored; kBF16x3 and kTF32x3 split each factor in two and
// leave out lo*lo (Sum::parts). f16 is scaled, so that underflow takes at most A * 2^-38, of hidden
// A * 2^-37. Which of two numbers of tf32 a tie becomes is left to the path.
// Sums of products are contiguous, and truncate to 24 bits where a tensor core adds.
#pragma once

#include <vector>

#include "oracles/core/oracle.h"

namespace assay::trimul {

std::vector<Oracle> oracles();

}  // namespace assay::trimul
