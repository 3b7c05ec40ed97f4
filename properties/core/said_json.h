// SPDX-License-Identifier: Apache-2.0
// What a path says, on its way from a worker to the program.
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "kernels/core/error.h"
#include "properties/core/precheck.h"

namespace assay {

// The one of these values that has this name. Throws Error if there is none.
template <class Values>
typename Values::value_type value_of(const Values& values, const std::string& name) {
  const auto found = std::ranges::find(values, name, [](auto value) { return name_of(value); });
  if (found == values.end()) throw Error("{} is no name that a worker gives", name);
  return *found;
}

nlohmann::ordered_json to_json(const Recipe& recipe);
// {"recipe"} or {"verdict", "reason"}
nlohmann::ordered_json to_json(const Said& said);

// The inverses. They throw a JSON exception, or Error, for what no worker sends that is intact.
Recipe recipe_from_json(const nlohmann::ordered_json& json);
Said said_from_json(const nlohmann::ordered_json& json);

}  // namespace assay
