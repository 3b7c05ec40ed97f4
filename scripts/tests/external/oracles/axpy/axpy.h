// SPDX-License-Identifier: Apache-2.0
// Oracle of axpy, element by element: the sum of a * x[i] and y[i] in f32, rounded once to the
// storage dtype.
#pragma once

#include <vector>

#include "oracles/core/oracle.h"

namespace assay::axpy {

std::vector<Oracle> oracles();

}  // namespace assay::axpy
