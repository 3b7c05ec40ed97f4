// SPDX-License-Identifier: Apache-2.0
#include "properties/core/elsewhere.h"

#include "properties/core/limits.h"
#include "properties/core/said_json.h"
#include "properties/core/worker.h"

namespace assay {
std::optional<Verdict> elsewhere(const std::function<Message(const OnStep&)>& function,
                                 const std::function<void(Message&&)>& take, Seconds timeout,
                                 int64_t most_bytes) {
  Worker copy(
      [&](Channel& channel) { return function([&](std::string_view name) { channel.set_step(name); }); });
  Worker::Answer answer = copy.receive(timeout, most_bytes);
  if (answer.death) return answer.death;
  try {
    Said said = said_from_json(answer.message.value().fields);
    if (said.verdict) return said.verdict;
    take(*std::move(answer.message));
  } catch (const std::exception&) {
    return nonsense();
  }
  return std::nullopt;
}

Said precheck_elsewhere(const Subject& subject, const Case& which, Seconds timeout) {
  Said said{.verdict = precheck_case(subject, which)};
  if (said.verdict) return said;
  const Path& path = *subject.path;
  const auto ask = [&](const OnStep& step) -> Message {
    const auto limit = limit_on(path.device);
    return {.fields = to_json(ask_path(path, which.dims, which.dtype, step)), .tensors = {}};
  };
  const auto take = [&](Message&& message) { said.recipe = recipe_from_json(message.fields.at("recipe")); };
  said.verdict = elsewhere(ask, take, timeout);
  return said;
}

}  // namespace assay
