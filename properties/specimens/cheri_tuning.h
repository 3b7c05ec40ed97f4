// SPDX-License-Identifier: Apache-2.0
// Implementations of the Cheri ops with right arithmetic and a wrong memory of earlier calls: in
// their tuning, in their plans, in their cast weights.
#pragma once

#include <vector>

#include "properties/core/specimen.h"

namespace assay::cheri {

std::vector<Specimen> tuning_specimens();

}  // namespace assay::cheri
