// SPDX-License-Identifier: Apache-2.0
#include "reports/program/judging.h"

#include <unistd.h>

#include <array>
#include <cstdlib>

#include "kernels/core/printable.h"
#include "properties/core/limits.h"
#include "properties/core/precheck.h"
#include "properties/core/said_json.h"
#include "properties/core/thrown.h"
#include "reports/program/interrupt.h"
#include "reports/program/program.h"
#include "reports/program/selection.h"

namespace assay {
namespace {

// assay --worker OP PATH DEVICE PARENT
constexpr std::string_view kWorker = "--worker";
enum : size_t { kOpArgument = 2, kPathArgument, kDeviceArgument, kParentArgument, kArguments };

constexpr std::array kCaches{Cache::kCold, Cache::kWarm};

// A path may have written anything there.
bool has_verdict(const Message& answer, VerdictKind kind) {
  const auto verdict = answer.fields.find("verdict");
  return verdict != answer.fields.end() && verdict->is_string() &&
         verdict->get<std::string>() == name_of(kind);
}

Message answer_of(Verdict verdict) {
  return {.fields = to_json(Said{.verdict = std::move(verdict)}), .tensors = {}};
}

Message take_samples(std::optional<Problem>& problem, const std::string& name, int rounds, Channel& channel) {
  const auto cache = std::ranges::find(kCaches, name, [](Cache one) { return name_of(one); });
  if (!problem || cache == kCaches.end()) throw Error("there is nothing to time with {} caches", name);
  channel.set_step(fmt::format("the timing with {} caches", name));
  try {
    if (*cache == Cache::kCold) problem->device().flush_cache();
    const auto limit = limit_on(problem->path().device);
    return {.fields = {{"samples_ns", take_samples(*problem, *cache, rounds)}}, .tensors = {}};
  } catch (const OutOfMemory& error) {
    return answer_of(no_memory(error.what()));
  }
}

// [ns] None if the message makes no sense.
std::vector<double> samples_in(const Message& answer) {
  std::vector<double> samples;
  if (!answer.fields.contains("samples_ns")) return samples;
  for (const auto& sample : answer.fields["samples_ns"]) {
    if (!sample.is_number()) return {};
    samples.push_back(sample.get<double>());
  }
  return samples;
}

// Why there are none.
std::string reason_in(const Message& answer) {
  const auto reason = answer.fields.find("reason");
  return reason != answer.fields.end() && reason->is_string()
             ? excerpt(reason->get<std::string>(), kLongestReason)
             : nonsense().reason;
}

// Of an answer without outputs.
[[noreturn]] void throw_verdict(const Message& answer) {
  const std::string reason = reason_in(answer);
  if (has_verdict(answer, VerdictKind::kUnsupported)) throw unsupported_error("{}", reason);
  if (has_verdict(answer, VerdictKind::kSkipped)) throw device_error("{}", reason);
  const bool has_failed = has_verdict(answer, VerdictKind::kFail);
  throw PathThrew(
      {.kind = has_failed ? VerdictKind::kFail : VerdictKind::kCrashed, .reason = reason, .outputs = {}});
}

Message crashed(std::string_view reason) {
  return answer_of({.kind = VerdictKind::kCrashed, .reason = excerpt(reason, kLongestReason), .outputs = {}});
}

// What a worker has beside its path.
struct Kept {
  std::optional<Problem> problem;
  std::optional<PlainCalls> calls;
};

Message answer(const Subject& subject, Device& device, const Message& request, Channel& channel, Kept& kept) {
  try {
    if (request.fields.contains("call")) {
      if (!kept.calls) kept.calls.emplace(subject, device);
      return answer_call(*kept.calls, request, channel);
    }
    if (request.fields.contains("time"))
      return take_samples(kept.problem, request.fields["time"], request.fields.at("rounds").get<int>(),
                          channel);
    return run_case(subject, device, request, channel, kept.problem);
  } catch (const PathThrew& threw) {
    return answer_of(in_step(threw.verdict, channel.step()));
  } catch (const Error& error) {
    return crashed(error.what());
  } catch (const std::exception& error) {  // that of an exception's destructor
    return crashed(fmt::format("the path threw: {}", message_of(error)));
  }
}

}  // namespace

PathJudge::PathJudge(const Subject& subject, Device& device, const Options& options)
    : subject_(subject), device_(device) {
  if (!options.isolate) return;
  isolation_.emplace(
      subject, IsolationOptions{.arguments = {options.command_line.at(0), std::string(kWorker),
                                              std::string(subject.op->name), std::string(subject.path->name),
                                              device.info().name()},
                                .timeout = options.timeout,
                                .gives_up = is_interrupted});
}

std::optional<Verdict> PathJudge::judge(const Case& which, const JudgeOptions& options) {
  return isolation_ ? isolation_->judge(which, options) : assay::judge(subject_, which, device_, options);
}

std::optional<Verdict> PathJudge::judge_alone(const Case& which) {
  return isolation_.value().judge_alone(which);
}

bool PathJudge::refuses(const Case& which) {
  const auto verdict =
      isolation_ ? isolation_->ask_path(which) : ask_path(*subject_.path, which.dims, which.dtype).verdict;
  return verdict && verdict->kind == VerdictKind::kUnsupported;
}

std::optional<Message> PathJudge::ask_for_call(const Case& which, const TensorBytes& inputs) {
  Worker::Answer answer =
      isolation_->ask(which, {.fields = {{"call", which.to_string()}}, .tensors = inputs});
  if (answer.death) throw PathThrew(*std::move(answer.death));
  return std::move(answer.message);
}

std::optional<TensorBytes> PathJudge::call(const Case& which, const TensorBytes& inputs) {
  if (!isolation_) {
    if (!calls_) calls_.emplace(subject_, device_);
    return calls_->outputs(which, inputs);
  }
  std::optional<Message> answer = ask_for_call(which, inputs);
  if (!answer) return std::nullopt;
  if (have_sizes_of(answer->tensors, subject_.op->outputs, which)) return std::move(answer->tensors);
  throw_verdict(*answer);
}

std::optional<Recipe> PathJudge::recipe(const Case& which) {
  if (!isolation_) return subject_.path->recipe(which.dims, which.dtype);
  const std::optional<Message> answer = ask_for_call(which, {});
  if (!answer) return std::nullopt;
  if (answer->fields.contains("recipe")) return recipe_from_json(answer->fields["recipe"]);
  throw_verdict(*answer);
}

std::optional<CaseRecord> PathJudge::bench(const Case& which, const std::optional<Ceilings>& ceilings) {
  std::optional<CaseRecord> record = judge_and_keep(which);
  if (!record) return std::nullopt;
  for (Cache cache : kCaches) {
    if (record->verdict.kind != VerdictKind::kPass) break;
    auto samples = sample(*record, cache);
    if (!samples) return std::nullopt;
    if (samples->empty()) break;
    (cache == Cache::kCold ? record->perf : record->perf_warm) =
        perf_of(*record, *std::move(samples), cache, ceilings);
  }
  kept_.reset();
  if (record->verdict.kind != VerdictKind::kPass) {
    record->perf = record->perf_warm = std::nullopt;
    record->no_perf = fmt::format("the verdict is {}", name_of(record->verdict.kind));
  }
  return record;
}

std::optional<CaseRecord> PathJudge::judge_and_keep(const Case& which) {
  std::optional<Verdict> verdict = isolation_ ? judge_isolated(which) : judge_here(which);
  if (!verdict) return std::nullopt;
  return CaseRecord{.which = which,
                    .device = device_.info().name(),
                    .verdict = *std::move(verdict),
                    .shrunk_from = {},
                    .perf = {},
                    .perf_warm = {},
                    .no_perf = ""};
}

Verdict PathJudge::judge_here(const Case& which) {
  kept_.reset();
  Said said = precheck(subject_, which);
  if (!said.recipe) return *std::move(said.verdict);
  recipe_ = said.recipe;
  try {
    kept_.emplace(*subject_.op, *subject_.path, which, device_);
    return assay::judge(subject_, *kept_, *said.recipe);
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kDevice) throw;
    return {.kind = VerdictKind::kSkipped, .reason = error.what(), .outputs = {}};
  }
}

std::optional<Verdict> PathJudge::judge_isolated(const Case& which) {
  std::optional<Verdict> verdict = isolation_->judge(which, {}, true);
  recipe_ = isolation_->recipe();
  if (verdict && is_failure(verdict->kind) && !verdict->fails_alone) {
    const std::optional<Verdict> alone = judge_alone(which);
    if (!alone) return std::nullopt;
    verdict->set_fails_alone(alone->kind == verdict->kind);
  }
  return verdict;
}

std::optional<std::vector<double>> PathJudge::sample(CaseRecord& record, Cache cache, int rounds) {
  return isolation_ ? sample_isolated(record, cache, rounds) : sample_here(record, cache, rounds);
}

Perf PathJudge::perf_of(const CaseRecord& record, std::vector<double> samples_ns, Cache cache,
                        const std::optional<Ceilings>& ceilings) const {
  return assay::perf_of(std::move(samples_ns), *subject_.op, recipe_.value(), record.which, device_.info(),
                        cache, ceilings);
}

std::vector<double> PathJudge::sample_here(CaseRecord& record, Cache cache, int rounds) {
  try {
    return take_samples(kept_.value(), cache, rounds);
  } catch (const PathThrew& threw) {
    record.verdict = in_step(threw.verdict, "the timing");
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kDevice) throw;
    record.no_perf = error.what();  // no memory to flush the caches with
  }
  return {};
}

std::optional<std::vector<double>> PathJudge::sample_isolated(CaseRecord& record, Cache cache, int rounds) {
  const auto crash = [&](VerdictKind kind, std::string reason) {
    record.verdict = {.kind = kind, .reason = std::move(reason), .outputs = {}};
  };
  Worker::Answer answer = isolation_->ask(
      record.which, {.fields = {{"time", name_of(cache)}, {"rounds", rounds}}, .tensors = {}});
  if (!answer.message && !answer.death) return std::nullopt;
  std::vector<double> samples;
  if (answer.death) {
    crash(answer.death->kind, std::move(answer.death->reason));
  } else if (samples = samples_in(*answer.message); !samples.empty()) {
    return samples;
  } else if (has_verdict(*answer.message, VerdictKind::kSkipped)) {
    record.no_perf = reason_in(*answer.message);  // no memory to flush the caches with
  } else {
    crash(VerdictKind::kCrashed, reason_in(*answer.message));
  }
  return samples;
}

bool is_worker(int argc, const char* const* argv) {
  return argc == kArguments && argv[1] == kWorker;
}

int run_worker(const Registry& registry, const char* const* argv) {
  const auto channel = become_worker(std::atoi(argv[kParentArgument]));
  std::unique_ptr<Device> device;
  std::optional<Subject> subject;
  try {
    subject = registry.subject(argv[kOpArgument], argv[kPathArgument]);
    device = open_device_for(*subject->path, argv[kDeviceArgument]);
  } catch (const Error& error) {
    channel->send({.fields = {{"error", error.what()}, {kNumber, 0}}, .tensors = {}});
    return kExitDeviceAbsent;
  }
  channel->send({.fields = {{"ready", true}, {kNumber, 0}}, .tensors = {}});
  Kept kept;
  const pid_t worker = getpid();
  for (;;) {
    try {
      const std::optional<Message> request = channel->receive();
      Message message = answer(*subject, *device, *request, *channel, kept);
      if (getpid() != worker) _exit(0);  // a copy that the path made: nobody has asked it
      send_answer(*channel, std::move(message), request->fields.at(kNumber));
    } catch (const Disconnected&) {
      end_disconnected(*channel);
    }
  }
}

}  // namespace assay
