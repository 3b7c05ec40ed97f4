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

std::optional<Perf>& perf_of(CaseRecord& record, Cache cache) {
  return cache == Cache::kCold ? record.perf : record.perf_warm;
}

// A path may have written anything there.
bool has_verdict(const Message& answer, VerdictKind kind) {
  const auto verdict = answer.fields.find("verdict");
  return verdict != answer.fields.end() && verdict->is_string() &&
         verdict->get<std::string>() == name_of(kind);
}

Message answer_of(Verdict verdict) {
  return {.fields = to_json(Said{.verdict = std::move(verdict)}), .tensors = {}};
}

Message take_samples(std::optional<Problem>& problem, const std::string& name, Channel& channel) {
  const auto cache = std::ranges::find(kCaches, name, [](Cache one) { return name_of(one); });
  if (!problem || cache == kCaches.end()) throw Error("there is nothing to time with {} caches", name);
  channel.set_step(fmt::format("the timing with {} caches", name));
  try {
    if (*cache == Cache::kCold) problem->device().flush_cache();
    const auto limit = limit_on(problem->path().device);
    return {.fields = {{"samples_ns", take_samples(*problem, *cache)}}, .tensors = {}};
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

Message crashed(std::string_view reason) {
  return answer_of({.kind = VerdictKind::kCrashed, .reason = excerpt(reason, kLongestReason), .outputs = {}});
}

Message answer(const Subject& subject, Device& device, const Message& request, Channel& channel,
               std::optional<Problem>& kept) {
  try {
    if (request.fields.contains("time")) return take_samples(kept, request.fields["time"], channel);
    return run_case(subject, device, request, channel, kept);
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

std::optional<CaseRecord> PathJudge::bench(const Case& which, const std::optional<Ceilings>& ceilings) {
  CaseRecord record{.which = which,
                    .device = device_.info().name(),
                    .verdict = {},
                    .shrunk_from = {},
                    .perf = {},
                    .perf_warm = {},
                    .no_perf = ""};
  if (!monitor_) monitor_ = open_monitor(device_.info());
  if (isolation_) {
    if (!time_isolated(record, ceilings)) return std::nullopt;
  } else {
    time_here(record, ceilings);
  }
  if (record.verdict.kind != VerdictKind::kPass)
    record.no_perf = fmt::format("the verdict is {}", name_of(record.verdict.kind));
  return record;
}

void PathJudge::time_here(CaseRecord& record, const std::optional<Ceilings>& ceilings) {
  Said said = precheck(subject_, record.which);
  std::optional<Problem> problem;
  try {
    if (said.recipe) problem.emplace(*subject_.op, *subject_.path, record.which, device_);
    record.verdict = said.recipe ? assay::judge(subject_, *problem, *said.recipe) : *std::move(said.verdict);
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kDevice) throw;
    record.verdict = {.kind = VerdictKind::kSkipped, .reason = error.what(), .outputs = {}};
  }
  if (record.verdict.kind != VerdictKind::kPass) return;
  try {
    for (Cache cache : kCaches) {
      Watch watch(*monitor_);
      Perf perf = measure(*problem, *said.recipe, cache, ceilings);
      add_telemetry(perf, watch.stop(), ceilings);
      perf_of(record, cache) = std::move(perf);
    }
  } catch (const PathThrew& threw) {
    record.verdict = in_step(threw.verdict, "the timing");
    record.perf = record.perf_warm = std::nullopt;
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kDevice) throw;
    record.no_perf = error.what();  // no memory to flush the caches with
  }
}

bool PathJudge::time_isolated(CaseRecord& record, const std::optional<Ceilings>& ceilings) {
  const auto crash = [&](VerdictKind kind, std::string reason) {
    record.verdict = {.kind = kind, .reason = std::move(reason), .outputs = {}};
    record.perf = record.perf_warm = std::nullopt;
  };
  std::optional<Verdict> verdict = isolation_->judge(record.which, {}, true);
  if (!verdict) return false;
  record.verdict = *std::move(verdict);
  if (is_failure(record.verdict.kind) && !record.verdict.fails_alone) {
    const std::optional<Verdict> alone = judge_alone(record.which);
    if (!alone) return false;
    record.verdict.set_fails_alone(alone->kind == record.verdict.kind);
  }
  for (Cache cache : kCaches) {
    if (record.verdict.kind != VerdictKind::kPass) break;
    Watch watch(*monitor_);
    Worker::Answer answer =
        isolation_->ask(record.which, {.fields = {{"time", name_of(cache)}}, .tensors = {}});
    Telemetry telemetry = watch.stop();
    if (!answer.message && !answer.death) return false;
    if (answer.death) {
      crash(answer.death->kind, std::move(answer.death->reason));
    } else if (std::vector<double> samples = samples_in(*answer.message); !samples.empty()) {
      perf_of(record, cache) = assay::perf_of(std::move(samples), *subject_.op, isolation_->recipe().value(),
                                              record.which, device_.info(), cache, ceilings);
      add_telemetry(*perf_of(record, cache), std::move(telemetry), ceilings);
    } else if (has_verdict(*answer.message, VerdictKind::kSkipped)) {
      record.no_perf = reason_in(*answer.message);  // no memory to flush the caches with
      break;
    } else {
      crash(VerdictKind::kCrashed, reason_in(*answer.message));
    }
  }
  return true;
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
  std::optional<Problem> kept;
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
