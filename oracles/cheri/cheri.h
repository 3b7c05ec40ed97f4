// SPDX-License-Identifier: Apache-2.0
// Oracles of the Cheri ops. Where a path may round stands in the contract (kernels/cheri/cheri.h):
//
//   conv        a sum of three products in f32, which is not rounded again
//   statistics  of these very values, in f64 (Arithmetic::moments)
//   y, dconv    differences and products in f32
//   dw          at most kSumGroup products in f32, such groups in f64
//   outputs     rounded to the storage dtype
//
// cheri_block also rounds at the other sites of the recipe. Where w2 has a format, it is multiplied
// by the scale before it is rounded. Tensor cores add up truncating.
#pragma once

#include <vector>

#include "oracles/core/oracle.h"

namespace assay::cheri {

std::vector<Oracle> oracles();

}  // namespace assay::cheri
