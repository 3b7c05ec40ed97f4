// SPDX-License-Identifier: Apache-2.0
// Known-bad implementations of the Cheri ops.
#pragma once

#include <vector>

#include "properties/core/specimen.h"

namespace assay::cheri {

std::vector<Specimen> specimens();

}  // namespace assay::cheri
