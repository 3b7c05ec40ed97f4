// SPDX-License-Identifier: Apache-2.0
#include "properties/core/plain_call.h"

#include <new>

#include "kernels/core/parallel.h"
#include "properties/core/limits.h"
#include "properties/core/said_json.h"
#include "properties/core/worker.h"

namespace assay {
namespace {

Message decided(VerdictKind kind, std::string reason) {
  Verdict verdict{.kind = kind, .reason = std::move(reason), .outputs = {}};
  return {.fields = to_json(Said{.recipe = {}, .verdict = std::move(verdict)}), .tensors = {}};
}

VerdictKind kind_of(const Error& error) {
  switch (error.kind()) {
    case Error::Kind::kUnsupported:
      return VerdictKind::kUnsupported;
    case Error::Kind::kDevice:
      return VerdictKind::kSkipped;
    case Error::Kind::kUsage:
    case Error::Kind::kInternal:  // a Trespass, too
      return VerdictKind::kFail;
  }
  throw Error("Error::Kind({}) is not a kind", static_cast<int>(error.kind()));
}

}  // namespace

PlainCalls::PlainCalls(const Subject& subject, Device& device)
    : subject_(subject), device_(device), context_(std::make_shared<Context>(device)) {
  context_->tuner().allow_trials(false);
}

Said PlainCalls::says(const Case& which) const {
  return precheck(subject_, which);
}

TensorBytes PlainCalls::outputs(const Case& which, const TensorBytes& inputs) const {
  Problem problem(*subject_.op, *subject_.path, which, device_, context_);
  problem.set_inputs(inputs);
  problem.poison_outputs(Poison::kNan);
  problem.run();
  return problem.outputs();
}

Message answer_call(const PlainCalls& calls, const Message& request, Channel& channel) {
  const Case which = parse_case(request.fields.at("call").get<std::string>());
  channel.set_step(kStartOfThreads);
  start_threads();
  channel.set_step("a call");
  try {
    if (request.tensors.empty()) return {.fields = to_json(calls.says(which)), .tensors = {}};
    return {.fields = {{"outputs", true}}, .tensors = calls.outputs(which, request.tensors)};
  } catch (const PathThrew&) {
    throw;
  } catch (const Error& error) {
    return decided(kind_of(error), error.what());
  } catch (const std::bad_alloc&) {
    return decided(VerdictKind::kSkipped, "there is no memory for its tensors");
  }
}

}  // namespace assay
