// SPDX-License-Identifier: Apache-2.0
// Known-bad implementations of dynamic_conv and dynamic_conv_grad (properties/core/planted.h).
#pragma once

#include <vector>

#include "properties/core/specimen.h"

namespace assay::dynamic_conv {

std::vector<Specimen> specimens();

}  // namespace assay::dynamic_conv
