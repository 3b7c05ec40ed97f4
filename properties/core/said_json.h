// SPDX-License-Identifier: Apache-2.0
// What a path says, on its way from a worker to the program.
#pragma once

#include <nlohmann/json.hpp>

#include "properties/core/precheck.h"

namespace assay {

nlohmann::ordered_json to_json(const Recipe& recipe);
// {"recipe"} or {"verdict", "reason"}
nlohmann::ordered_json to_json(const Said& said);

// The inverses. They throw a JSON exception, or Error, for what no worker sends that is intact.
Recipe recipe_from_json(const nlohmann::ordered_json& json);
Said said_from_json(const nlohmann::ordered_json& json);

}  // namespace assay
