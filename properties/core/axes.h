// SPDX-License-Identifier: Apache-2.0
// The axes of a tensor by the names of their dimensions.
#pragma once

#include <string_view>
#include <vector>

#include "kernels/core/op.h"

namespace assay {

// "n hc h" as {"n", "hc", "h"}. The names live as long as the op's table.
std::vector<std::string_view> axes_of(const TensorInfo& tensor);

}  // namespace assay
