// SPDX-License-Identifier: Apache-2.0
// Calls a path in a copy of this process, for what must not end with the path: commands that run no
// worker, and lists.
#pragma once

#include "properties/core/channel.h"
#include "properties/core/precheck.h"
#include "properties/core/processes.h"

namespace assay {

inline constexpr Seconds kTimeToSay{5};  // for what a path says of itself

// Calls `function` in a copy of this process. Returns the verdict that it has put into its answer
// (to_json(Said)), or that on its end, on an answer that is late or on one that makes no sense.
// Otherwise calls `take` here with the answer, whose tensors have at most so many bytes; if that
// throws, the answer makes no sense. `function` is given what to tell its steps to, and may not
// throw.
std::optional<Verdict> elsewhere(const std::function<Message(const OnStep&)>& function,
                                 const std::function<void(Message&&)>& take, Seconds timeout = kTimeToSay,
                                 int64_t most_bytes = 0);

// precheck_case() here, ask_path() elsewhere.
Said precheck_elsewhere(const Subject& subject, const Case& which, Seconds timeout = kTimeToSay);

}  // namespace assay
