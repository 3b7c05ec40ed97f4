// SPDX-License-Identifier: Apache-2.0
// Oracle of echo: the sum of the one product 1 * x[i].
#pragma once

#include <vector>

#include "oracles/core/oracle.h"

namespace assay::echo {

std::vector<Oracle> oracles();

}  // namespace assay::echo
