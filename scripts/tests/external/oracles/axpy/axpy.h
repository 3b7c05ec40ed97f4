// SPDX-License-Identifier: Apache-2.0
// Oracle of axpy, by the formula: a sum of the two products a * x[i] and 1 * y[i], with the bound
// of SumOfProducts (oracles/core/bound.h) for n = 2. The oracle reads the inputs as stored, so the
// bound has no term for them.
#pragma once

#include <vector>

#include "oracles/core/oracle.h"

namespace assay::axpy {

std::vector<Oracle> oracles();

}  // namespace assay::axpy
