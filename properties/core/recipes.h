// SPDX-License-Identifier: Apache-2.0
// The recipes that an op's formula is asked for: those of its paths, also of paths that this build
// lacks.
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

// What a path says of its recipes, asked in a process of its own, which it may end.
struct SaidRecipes {
  std::vector<NamedRecipe> recipes;
  std::string why_not;  // why there are none
};

// The recipes of a path by storage dtype. One that depends on the size is that of the smallest
// problem and that of a problem with 128 of everything.
SaidRecipes recipes_of(const Op& op, const Path& path);

// The op's paths. Those that this build lacks cannot run.
std::vector<Path> all_paths(const Op& op);
// The recipes of all_paths() for a problem, without repetition.
std::vector<Recipe> recipes_of(const Op& op, const Dims& dims, DType storage);

}  // namespace assay
