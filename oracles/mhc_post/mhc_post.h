// SPDX-License-Identifier: Apache-2.0
// Oracle of mhc_post, element by element. Sites: each output is a sum of HC + 1 products in f32, in
// any order, rounded once to the storage dtype.
#pragma once

#include <vector>

#include "oracles/core/oracle.h"

namespace assay::mhc_post {

std::vector<Oracle> oracles();

}  // namespace assay::mhc_post
