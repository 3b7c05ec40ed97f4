// SPDX-License-Identifier: Apache-2.0
#include "properties/core/elsewhere.h"

#include "kernels/core/printable.h"
#include "properties/core/limits.h"
#include "properties/core/said_json.h"
#include "properties/core/worker.h"

namespace assay {
namespace {

std::string text_in(const nlohmann::ordered_json& fields, const char* name) {
  return excerpt(fields.at(name).get<std::string>(), kLongestReason);
}

}  // namespace

std::optional<Verdict> elsewhere(const std::function<Message(const OnStep&)>& function,
                                 const std::function<void(Message&&)>& take, Seconds timeout,
                                 int64_t most_bytes) {
  Worker copy(
      [&](Channel& channel) { return function([&](std::string_view name) { channel.set_step(name); }); });
  Worker::Answer answer = copy.receive(timeout, most_bytes);
  if (answer.death) return Verdict{.kind = answer.death->kind, .reason = answer.death->reason, .outputs = {}};
  try {
    const auto& fields = answer.message.value().fields;
    if (fields.contains(kNoMemory))
      return Verdict{.kind = VerdictKind::kSkipped, .reason = text_in(fields, kNoMemory), .outputs = {}};
    if (fields.contains(kLoweredLimits)) {
      return Verdict{
          .kind = VerdictKind::kCrashed,
          .reason = fmt::format("the path lowered its process's limits: {}", text_in(fields, kLoweredLimits)),
          .outputs = {}};
    }
    take(*std::move(answer.message));
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
    const auto limit = limit_on(path.device);
    return {.fields = to_json(ask_path(path, which.dims, which.dtype, step)), .tensors = {}};
  };
  auto died = elsewhere(ask, [&](Message&& message) {
    said = said_from_json(message.fields);
    if (!said.recipe && !said.verdict) throw Nonsense("an answer to another question");
  });
  return died ? Said{.verdict = std::move(died)} : said;
}

}  // namespace assay
