// SPDX-License-Identifier: Apache-2.0
// Oracle of trimul: the formula of the contract (kernels/trimul/trimul.h) over an Arithmetic.
//
// What a recipe does at its sites (site::) stands in the contract. left and right are rounded as
// mask * (p * sigmoid(g)), the gate as the sigmoid alone, z as y * gate. Underflow of scaled
// f16 costs at most A * 2^-38, for hidden A * 2^-37; A is defined in the contract.
#pragma once

#include <vector>

#include "oracles/core/oracle.h"

namespace assay::trimul {

std::vector<Oracle> oracles();

}  // namespace assay::trimul
