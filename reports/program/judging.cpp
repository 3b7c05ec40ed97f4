// SPDX-License-Identifier: Apache-2.0
#include "reports/program/judging.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <random>

#include "kernels/core/printable.h"
#include "properties/core/limits.h"
#include "properties/core/precheck.h"
#include "properties/core/said_json.h"
#include "properties/core/thrown.h"
#include "reports/program/interrupt.h"
#include "reports/program/machine.h"
#include "reports/program/program.h"
#include "reports/program/selection.h"
#include "reports/program/timed_message.h"

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

// What a worker has beside its path: the case that it was last asked to keep, and other calls.
struct Kept {
  std::optional<Problem> problem;
  std::optional<Timer> timer;
  std::optional<PlainCalls> calls;
};

// request {"time": "cold" or "warm", "rounds", "draws": seed, "least": [s]}, answer:
// timed_message.h
Message take_samples(const Subject& subject, Kept& kept, const Message& request, Channel& channel) {
  const auto name = request.fields.at("time").get<std::string>();
  const auto cache = std::ranges::find(kCaches, name, [](Cache one) { return name_of(one); });
  if (!kept.problem || cache == kCaches.end()) throw Error("there is nothing to time with {} caches", name);
  const auto draws = request.fields.at("draws").get<uint64_t>();
  channel.set_step(fmt::format("the timing with {} caches", name));
  try {
    if (*cache == Cache::kCold) kept.problem->device().flush_cache();
    const auto limit = limit_on(kept.problem->path().device);
    if (!kept.timer || kept.timer->seed() != draws)
      kept.timer.emplace(subject, *kept.problem, draws, request.fields.at("least").get<double>());
    Samples samples = kept.timer->take(*cache, request.fields.at("rounds").get<int>());
    return to_message({.samples = std::move(samples), .answers = kept.timer->take_answers()});
  } catch (const Trespass& error) {
    return answer_of({.kind = VerdictKind::kFail, .reason = error.what(), .outputs = {}});
  } catch (const OutOfMemory& error) {
    return answer_of(no_memory(error.what()));
  }
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

// Nobody can tell it ahead, so no path knows the draws.
uint64_t unpredictable() {
  std::random_device source;
  return uint64_t{source()} << 20 | source() >> 12;  // 52 bits, which each reader of JSON keeps
}

Message answer(const Subject& subject, Device& device, const Message& request, Channel& channel, Kept& kept) {
  try {
    if (request.fields.contains("call")) {
      if (!kept.calls) kept.calls.emplace(subject, device);
      return answer_call(*kept.calls, request, channel);
    }
    if (request.fields.contains("time")) return take_samples(subject, kept, request, channel);
    kept.timer.reset();
    kept.problem.reset();
    if (!kept.calls) device.renew_streams();
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
    : subject_(subject),
      device_(device),
      judges_again_(!options.no_shrink),
      least_(options.min_time.value_or(Seconds(0))) {
  if (!options.isolate) return;
  isolation_.emplace(
      subject, IsolationOptions{.arguments = {options.command_line.at(0), std::string(kWorker),
                                              std::string(subject.op->name), std::string(subject.path->name),
                                              device.info().name()},
                                .timeout = options.timeout,
                                .gives_up = is_interrupted,
                                .repeats_deaths = judges_again_});
}

std::optional<Verdict> PathJudge::judge(const Case& which, const JudgeOptions& options) {
  return isolation_ ? isolation_->judge(which, options) : assay::judge(subject_, which, device_, options);
}

std::optional<Verdict> PathJudge::judge_alone(const Case& which) {
  return isolation_.value().judge_alone(which);
}

bool PathJudge::refuses(const Case& which) {
  const auto verdict = isolation_.value().ask_path(which);
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
    if (samples->ns.empty()) break;
    (cache == Cache::kCold ? record->perf : record->perf_warm) =
        perf_of(*record, *std::move(samples), cache, ceilings);
  }
  timer_.reset();
  kept_.reset();
  if (isolation_) isolation_->take_held();
  if (record->verdict.kind != VerdictKind::kPass) {
    record->perf = record->perf_warm = std::nullopt;
    record->no_perf = fmt::format("the verdict is {}", name_of(record->verdict.kind));
  }
  return record;
}

std::optional<CaseRecord> PathJudge::judge_and_keep(const Case& which) {
  draws_ = unpredictable();
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
  timer_.reset();
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
  if (judges_again_ && verdict && is_failure(verdict->kind) && !verdict->fails_alone) {
    const std::optional<Verdict> alone = judge_alone(which);
    if (!alone) return std::nullopt;
    verdict->set_fails_alone(alone->kind == verdict->kind);
  }
  return verdict;
}

std::optional<Samples> PathJudge::sample(CaseRecord& record, Cache cache, int rounds) {
  if (!monitor_) monitor_ = open_monitor(device_.info());
  std::optional<Samples> samples;
  for (const bool is_last : {false, true}) {
    samples = isolation_ ? sample_isolated(record, cache, rounds) : sample_here(record, cache, rounds);
    if (!samples || record.verdict.kind != VerdictKind::kPass || samples->doubt.empty()) break;
    if (is_last) {
      record.verdict = {.kind = VerdictKind::kFail, .reason = samples->doubt, .outputs = {}};
      break;
    }
    // On the same kind of other data, and the same other shape if there are few of these.
    constexpr int kTries = 1000;
    const auto near = [&] { return near_case(*subject_.op, record.which, draws_); };
    const Data known_data = other_data(draws_);
    const std::optional<Case> known_shape = near();
    int tries = 0;
    do draws_ = unpredictable();
    while (!(other_data(draws_) == known_data) || (++tries < kTries && near() != known_shape));
    timer_.reset();
  }
  if (samples && record.verdict.kind != VerdictKind::kPass) samples->ns.clear();
  return samples;
}

Perf PathJudge::perf_of(const CaseRecord& record, Samples samples, Cache cache,
                        const std::optional<Ceilings>& ceilings) const {
  Perf perf = assay::perf_of(std::move(samples), subject_, recipe_.value(), record.which, device_.info(),
                             cache, ceilings, draws_);
  // The memory of a virtual machine is faster for seconds when its neighbours fall silent. No time
  // is impossible that the machine would allow at its fastest.
  constexpr int kTries = 5;
  for (int i = 0; perf.implausible && i < kTries; ++i) {
    if (i > 0) measured_device(device_);
    const std::optional<Ceilings> fastest = fastest_ceilings(device_.info());
    if (fastest) perf.implausible = why_implausible(perf, recipe_.value(), device_.info(), *fastest);
  }
  if (telemetry_) add_telemetry(perf, *telemetry_);
  return perf;
}

void PathJudge::judge_samples(CaseRecord& record, Samples& samples, std::vector<TimedAnswer> answers) {
  std::optional<Verdict> wrong;
  const auto blame = [&](std::string& fault) {
    if (!wrong && !fault.empty())
      wrong = Verdict{.kind = VerdictKind::kFail, .reason = std::move(fault), .outputs = {}};
  };
  blame(samples.fault);
  if (!wrong && !answers.empty()) {
    wrong = find_wrong_answer(subject_, record.which, recipe_.value(), draws_, std::move(answers),
                              isolation_ ? isolation_->take_held() : std::nullopt);
  }
  if (!wrong && samples.near) {
    try {
      wrong = find_wrong_answer(subject_, *samples.near, draws_);
    } catch (const OutOfMemory&) {
      samples.near.reset();
    }
  }
  if (wrong) record.verdict = *std::move(wrong);
}

Samples PathJudge::sample_here(CaseRecord& record, Cache cache, int rounds) {
  Samples samples;
  try {
    if (!timer_) timer_.emplace(subject_, kept_.value(), draws_, least_.count());
    Watch watch(*monitor_);
    samples = timer_->take(cache, rounds);
    telemetry_ = watch.stop();
    judge_samples(record, samples, timer_->take_answers());
  } catch (const PathThrew& threw) {
    record.verdict = in_step(threw.verdict, kept_.value().step());
  } catch (const Trespass& error) {
    record.verdict = {.kind = VerdictKind::kFail, .reason = error.what(), .outputs = {}};
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kDevice) throw;
    record.no_perf = error.what();  // no memory to time it with, or to judge what was timed
    samples = {};
  }
  return samples;
}

std::optional<Samples> PathJudge::sample_isolated(CaseRecord& record, Cache cache, int rounds) {
  const auto end = [&](VerdictKind kind, std::string reason) {
    record.verdict = {.kind = kind, .reason = std::move(reason), .outputs = {}};
    return Samples{};
  };
  Watch watch(*monitor_);
  // Where the machine is busy, calls take longer than the one that tells how many there are to be.
  Worker::Answer answer = isolation_->ask(
      record.which,
      {.fields = {{"time", name_of(cache)}, {"rounds", rounds}, {"draws", draws_}, {"least", least_.count()}},
       .tensors = {}},
      3 * least_);
  telemetry_ = watch.stop();
  if (answer.death) return end(answer.death->kind, std::move(answer.death->reason));
  if (!answer.message) return std::nullopt;
  if (has_verdict(*answer.message, VerdictKind::kSkipped)) {
    record.no_perf = reason_in(*answer.message);  // no memory to time it with
    return Samples{};
  }
  if (has_verdict(*answer.message, VerdictKind::kFail))
    return end(VerdictKind::kFail, reason_in(*answer.message));
  if (!answer.message->fields.contains("samples_ns"))
    return end(VerdictKind::kCrashed, reason_in(*answer.message));
  std::optional<Timed> timed;
  try {
    timed = timed_in(*std::move(answer.message), subject_, record.which, draws_);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception&) {
    return end(VerdictKind::kCrashed, nonsense().reason);
  }
  try {
    judge_samples(record, timed->samples, std::move(timed->answers));
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kDevice) throw;
    record.no_perf = error.what();
    return Samples{};
  }
  return std::move(timed->samples);
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
