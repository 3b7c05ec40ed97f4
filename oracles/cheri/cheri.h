// SPDX-License-Identifier: Apache-2.0
// Oracles of the Cheri ops. Where a path may round stands in the contract (kernels/cheri/cheri.h):
//
//   conv        a sum of three products in f32, which is not rounded again
//   statistics  of these very values, in f64 (Arithmetic::moments)
//   y, dconv    differences and products in f32
//   dw          at most kSumGroup products in f32, such groups in f64
//   outputs     rounded to the storage dtype
//
// Between the steps of cheri_block, a recipe rounds more. "stored" means to Recipe::intermediate,
// if that has 16 bits; "as a factor" means to the format of Recipe::factor:
//
//   y           stored, and as a factor
//   w1          as a factor
//   z = w1 y    summed in f32, by tensor cores where factors or stored values have 16 bits; stored
//   gelu(z)     stored, and as a factor
//   w2          multiplied by the scale and made a factor, if factors have a format of their own
//   w2 g        summed as z is; stored, and multiplied by the scale if w2 is not
//
// Factors in two parts are not rounded. Their products lack what Sum::parts says.
#pragma once

#include <vector>

#include "oracles/core/oracle.h"

namespace assay::cheri {

std::vector<Oracle> oracles();

}  // namespace assay::cheri
