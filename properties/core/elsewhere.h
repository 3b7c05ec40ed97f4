// SPDX-License-Identifier: Apache-2.0
// Calls a path in a copy of this process, for what must not end with the path: commands that run no
// worker, and lists.
#pragma once

#include "properties/core/channel.h"
#include "properties/core/precheck.h"
#include "properties/core/processes.h"

namespace assay {

inline constexpr Seconds kTimeToSay{5};  // for what a path says of itself

// Calls `function` in a copy of this process, and then `take` here with its answer. `function`
// reports its steps to the OnStep, and may not throw. `take` throws if the answer makes no sense.
// Returns a verdict if `function` has put one into its answer (to_json(Said)), or if the copy ends
// without an answer, answers too late or answers nonsense. Then `take` is not called. The tensors
// of an answer have at most `most_bytes` bytes.
std::optional<Verdict> elsewhere(const std::function<Message(const OnStep&)>& function,
                                 const std::function<void(Message&&)>& take, Seconds timeout = kTimeToSay,
                                 int64_t most_bytes = 0);

// precheck_case() here, ask_path() elsewhere.
Said precheck_elsewhere(const Subject& subject, const Case& which, Seconds timeout = kTimeToSay);

}  // namespace assay
