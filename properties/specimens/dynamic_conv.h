// SPDX-License-Identifier: Apache-2.0
// Known-bad implementations of dynamic_conv and dynamic_conv_grad: one plain loop with one fault each.
//
// Every fault is a mistake that a kernel author can make. The harness is trusted to see it only because it
// does see it here: `assay verify --specimens` judges each with the default budget and fails if one is not
// caught.
#pragma once

#include <vector>

#include "properties/core/specimen.h"

namespace assay::dynamic_conv {

std::vector<Specimen> specimens();

}  // namespace assay::dynamic_conv
