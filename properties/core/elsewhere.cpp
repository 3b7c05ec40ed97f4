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
  if (answer.death) return Verdict{.kind = answer.death->kind, .reason = answer.death->reason, .outputs = {}};
  try {
    take(std::move(answer.message).value());
  } catch (const std::exception&) {
    return Verdict{.kind = VerdictKind::kCrashed, .reason = std::string(kNonsense), .outputs = {}};
  }
  return std::nullopt;
}

Said precheck_elsewhere(const Subject& subject, const Case& which) {
  Said said{.verdict = precheck_case(subject, which)};
  if (said.verdict) return said;
  const Path& path = *subject.path;
  const auto ask = [&](const OnStep& step) -> Message {
    std::optional<MemoryLimit> limit;
    if (path.device == DeviceKind::kCpu) limit.emplace();
    return {.fields = to_json(ask_path(path, which.dims, which.dtype, step)), .tensors = {}};
  };
  auto died = elsewhere(ask, [&](Message&& message) { said = said_from_json(message.fields); });
  return died ? Said{.verdict = std::move(died)} : said;
}

}  // namespace assay
