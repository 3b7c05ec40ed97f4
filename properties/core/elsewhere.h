// SPDX-License-Identifier: Apache-2.0
// Asks a path in a copy of this process, for what must not end with the path: commands that run no
// worker, and lists.
#pragma once

#include <nlohmann/json.hpp>

#include "properties/core/precheck.h"

namespace assay {

// Calls `function` in a copy of this process, which has five seconds for it, and `take` here with
// what it returned. If there is no such thing, or `take` throws because it makes no sense: the
// verdict on that. `function` is given what to tell its steps to, and may not throw.
std::optional<Verdict> elsewhere(const std::function<nlohmann::ordered_json(const OnStep&)>& function,
                                 const std::function<void(const nlohmann::ordered_json&)>& take);

// precheck_case() here, ask_path() elsewhere.
Said precheck_elsewhere(const Subject& subject, const Case& which);

}  // namespace assay
