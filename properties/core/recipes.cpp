// SPDX-License-Identifier: Apache-2.0
#include "properties/core/recipes.h"

#include <fmt/format.h>

#include <algorithm>

#include "properties/core/precheck.h"

namespace assay {
namespace {

std::vector<NamedRecipe> said_recipes_of(const Op& op, const Path& path) {
  const auto recipe_at = [&](int64_t size, DType dtype) {
    Dims dims;
    for (const DimInfo& dim : op.dims) dims.set(dim.key, std::clamp(size, dim.min, dim.max));
    return path.recipe(dims, dtype);
  };
  std::vector<NamedRecipe> recipes;
  for (DType dtype : path.dtypes) {
    const Recipe small = recipe_at(1, dtype), large = recipe_at(128, dtype);
    recipes.push_back({std::string(name_of(dtype)), dtype, small});
    if (large.to_string() == small.to_string()) continue;
    recipes.push_back({fmt::format("{}, dimensions of 128", name_of(dtype)), dtype, large});
  }
  return recipes;
}

}  // namespace

std::vector<NamedRecipe> recipes_of(const Op& op, const Path& path) {
  return returns_elsewhere([&] { said_recipes_of(op, path); }) ? said_recipes_of(op, path)
                                                               : std::vector<NamedRecipe>{};
}

std::vector<Path> all_paths(const Op& op) {
  std::vector<Path> paths = op.paths;
  for (const AbsentPath& absent : op.absent) {
    paths.push_back({.name = absent.name,
                     .device = DeviceKind::kCuda,
                     .dtypes = absent.dtypes,
                     .deterministic = true,
                     .recipe = absent.recipe,
                     .unsupported = {},
                     .run = {},
                     .summary = {}});
  }
  return paths;
}

std::vector<Recipe> recipes_of(const Op& op, const Dims& dims, DType storage) {
  std::vector<Recipe> recipes;
  for (const Path& path : all_paths(op)) {
    if (std::ranges::count(path.dtypes, storage) == 0) continue;
    Recipe recipe = path.recipe(dims, storage);
    const auto is_same = [&](const Recipe& other) { return other.to_string() == recipe.to_string(); };
    if (std::ranges::none_of(recipes, is_same)) recipes.push_back(std::move(recipe));
  }
  return recipes;
}

}  // namespace assay
