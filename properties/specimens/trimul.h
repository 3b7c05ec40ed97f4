// SPDX-License-Identifier: Apache-2.0
// Known-bad implementations of trimul.
#pragma once

#include <vector>

#include "properties/core/specimen.h"

namespace assay::trimul {

std::vector<Specimen> specimens();

}  // namespace assay::trimul
