// SPDX-License-Identifier: Apache-2.0
#include "properties/core/recipes.h"

#include <fmt/format.h>

#include <algorithm>

#include "properties/core/elsewhere.h"
#include "properties/core/limits.h"
#include "properties/core/said_json.h"

namespace assay {
namespace {

Dims dims_of(const Op& op, int64_t size) {
  Dims dims;
  for (const DimInfo& dim : op.dims) dims.set(dim.key, std::clamp(size, dim.min, dim.max));
  return dims;
}

}  // namespace

SaidRecipes recipes_of(const Op& op, const Path& path) {
  constexpr int64_t kSmall = 1, kLarge = 128;
  const auto ask = [&](const OnStep& step) -> Message {
    const auto limit = limit_on(path.device);
    auto said = nlohmann::ordered_json::array();
    for (DType dtype : path.dtypes) {
      for (int64_t size : {kSmall, kLarge})
        said.push_back(to_json(ask_recipe(path, dims_of(op, size), dtype, step)));
    }
    return {.fields = {{"said", std::move(said)}}, .tensors = {}};
  };
  SaidRecipes all;
  const auto take = [&](Message&& message) {
    const auto& answer = message.fields.at("said");
    for (size_t i = 0; i < path.dtypes.size(); ++i) {
      const DType dtype = path.dtypes[i];
      Said small = said_from_json(answer.at(2 * i)), large = said_from_json(answer.at(2 * i + 1));
      for (const Said& said : {small, large}) {
        if (!said.recipe) all.why_not = said.verdict.value().reason;
      }
      if (!all.why_not.empty()) return;
      const bool is_one = small.recipe->to_string() == large.recipe->to_string();
      all.recipes.push_back({std::string(name_of(dtype)), dtype, *std::move(small.recipe)});
      if (is_one) continue;
      all.recipes.push_back(
          {fmt::format("{}, dimensions of {}", name_of(dtype), kLarge), dtype, *std::move(large.recipe)});
    }
  };
  if (const auto died = elsewhere(ask, take)) all.why_not = died->reason;
  if (!all.why_not.empty()) all.recipes.clear();
  return all;
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
