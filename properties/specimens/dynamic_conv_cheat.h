// SPDX-License-Identifier: Apache-2.0
// What the hostile paths on a CPU are made from.
#pragma once

#include <string_view>

#include "properties/core/planted.h"

namespace assay::dynamic_conv {

Specimen cheat(std::string_view path, std::string_view fault, const Run& run);
Specimen without_promise(Specimen specimen);  // that equal inputs give equal bits
void compute(const Call& call);               // honestly

}  // namespace assay::dynamic_conv
