// SPDX-License-Identifier: Apache-2.0
#include "properties/core/elsewhere.h"

#include "properties/core/said_json.h"
#include "properties/core/worker.h"

namespace assay {

std::optional<Verdict> elsewhere(const std::function<nlohmann::ordered_json(const OnStep&)>& function,
                                 const std::function<void(const nlohmann::ordered_json&)>& take) {
  constexpr Seconds kTimeout{5};
  Worker copy([&](Channel& channel) -> Message {
    const OnStep step = [&](std::string_view name) { channel.set_step(name); };
    return {.fields = {{"returned", function(step)}}, .tensors = {}};
  });
  const Worker::Answer answer = copy.receive(kTimeout);
  if (answer.death) return Verdict{.kind = answer.death->kind, .reason = answer.death->reason, .outputs = {}};
  try {
    take(answer.message.value().fields.at("returned"));
  } catch (const std::exception&) {
    return Verdict{.kind = VerdictKind::kCrashed, .reason = std::string(kNonsense), .outputs = {}};
  }
  return std::nullopt;
}

Said precheck_elsewhere(const Subject& subject, const Case& which) {
  Said said{.verdict = precheck_case(subject, which)};
  if (said.verdict) return said;
  const auto ask = [&](const OnStep& step) {
    return to_json(ask_path(*subject.path, which.dims, which.dtype, step));
  };
  auto died = elsewhere(ask, [&](const nlohmann::ordered_json& json) { said = said_from_json(json); });
  return died ? Said{.verdict = std::move(died)} : said;
}

}  // namespace assay
