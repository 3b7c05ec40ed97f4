// SPDX-License-Identifier: Apache-2.0
// What a worker answers that has timed a problem.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/core/timer.h"
#include "properties/core/channel.h"

namespace assay {

struct Timed {
  Samples samples;
  std::vector<TimedAnswer> answers;
};

// {"samples_ns", "other_ns", "graph_ns", "waits_s", "fault", "doubt", "answers": draws, "near":
// {"ns", "recipe"} or null}, and what is kept of the outputs, of these draws and of near.
Message to_message(Timed timed);

// The way back. Throws an exception for what no worker sends that is intact. `draws` is the seed of
// the timer.
Timed timed_in(Message message, const Subject& subject, const Case& which, uint64_t draws);

}  // namespace assay
