// SPDX-License-Identifier: Apache-2.0
// Known-bad implementations of mhc_post (properties/core/planted.h).
#pragma once

#include <vector>

#include "properties/core/specimen.h"

namespace assay::mhc_post {

std::vector<Specimen> specimens();

}  // namespace assay::mhc_post
