// SPDX-License-Identifier: Apache-2.0
// A recipe on its way from a worker to the program.
#pragma once

#include <nlohmann/json.hpp>

#include "kernels/core/recipe.h"

namespace assay {

nlohmann::ordered_json to_json(const Recipe& recipe);
// The inverse. Throws a JSON exception, or Error, for what is no recipe.
Recipe recipe_from_json(const nlohmann::ordered_json& json);

}  // namespace assay
