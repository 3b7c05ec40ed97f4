// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "kernels/core/op.h"

namespace assay {

struct NamedRecipe {
  std::string name;  // "bf16", "bf16, dimensions of 128"
  DType dtype;
  Recipe recipe;
};

// The recipes of a path by storage dtype. One that depends on the size is that of the smallest
// problem and that of a problem with 128 of everything.
std::vector<NamedRecipe> recipes_of(const Op& op, const Path& path);

}  // namespace assay
