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

// What a worker holds of the case that it was last asked to keep.
struct Held {
  std::optional<Problem> problem;
  std::optional<Timer> timer;
};

// request {"time": "cold" or "warm", "draws": seed}
// answer  {"samples_ns", "other_ns", "waits_s", "fault", "unequal", "answers": draws}, and the
//         outputs of these
Message take_samples(Held& held, const Message& request, Channel& channel) {
  const auto name = request.fields.at("time").get<std::string>();
  const auto cache = std::ranges::find(kCaches, name, [](Cache one) { return name_of(one); });
  if (!held.problem || cache == kCaches.end()) throw Error("there is nothing to time with {} caches", name);
  channel.set_step(fmt::format("the timing with {} caches", name));
  try {
    Device& device = held.problem->device();
    if (*cache == Cache::kCold) device.flush_cache();
    const auto limit = limit_on(held.problem->path().device);
    if (!held.timer) held.timer.emplace(*held.problem, request.fields.at("draws").get<uint64_t>());
    Samples samples = held.timer->take(*cache);
    Message answer{.fields = {{"samples_ns", samples.ns},
                              {"other_ns", samples.other_ns},
                              {"waits_s", samples.waits},
                              {"fault", samples.fault},
                              {"unequal", samples.unequal},
                              {"answers", nlohmann::ordered_json::array()}},
                   .tensors = {}};
    for (TimedAnswer& timed : held.timer->take_answers()) {
      answer.fields["answers"].push_back(timed.draw);
      std::ranges::move(timed.outputs, std::back_inserter(answer.tensors));
    }
    return answer;
  } catch (const Trespass& error) {
    return answer_of({.kind = VerdictKind::kFail, .reason = error.what(), .outputs = {}});
  } catch (const OutOfMemory& error) {
    return answer_of(no_memory(error.what()));
  }
}

// Throws a JSON exception, or Nonsense, for what no worker sends that is intact.
std::pair<Samples, std::vector<TimedAnswer>> timed_in(Message&& message, const Op& op, const Case& which) {
  const auto& fields = message.fields;
  Samples samples{.ns = fields.at("samples_ns").get<std::vector<double>>(),
                  .other_ns = fields.at("other_ns").get<std::vector<double>>(),
                  .waits = fields.at("waits_s").get<double>(),
                  .fault = excerpt(fields.at("fault").get<std::string>(), kLongestReason),
                  .unequal = excerpt(fields.at("unequal").get<std::string>(), kLongestReason)};
  if (samples.ns.empty()) throw Nonsense("no samples");
  std::vector<TimedAnswer> answers;
  size_t next = 0;
  for (const auto draw : fields.at("answers").get<std::vector<size_t>>()) {
    TimedAnswer answer{.draw = draw, .outputs = {}};
    for (size_t i = 0; i < op.outputs.size(); ++i)
      answer.outputs.push_back(std::move(message.tensors.at(next++)));
    if (draw > kOtherData || !have_sizes_of(answer.outputs, op.outputs, which))
      throw Nonsense("outputs of other sizes");
    answers.push_back(std::move(answer));
  }
  return {std::move(samples), std::move(answers)};
}

// Why there are none.
std::string reason_in(const Message& answer) {
  const auto reason = answer.fields.find("reason");
  return reason != answer.fields.end() && reason->is_string()
             ? excerpt(reason->get<std::string>(), kLongestReason)
             : nonsense().reason;
}

// Nobody can tell it ahead, so no path knows the draws.
uint64_t unpredictable() {
  return std::random_device()();
}

Message crashed(std::string_view reason) {
  return answer_of({.kind = VerdictKind::kCrashed, .reason = excerpt(reason, kLongestReason), .outputs = {}});
}

Message answer(const Subject& subject, Device& device, const Message& request, Channel& channel, Held& held) {
  try {
    if (request.fields.contains("time")) return take_samples(held, request, channel);
    held.timer.reset();
    return run_case(subject, device, request, channel, held.problem);
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
    : subject_(subject), device_(device), draws_(unpredictable()) {
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
    Timer timer(*problem, draws_);
    for (Cache cache : kCaches) {
      Samples samples = timer.take(cache);
      if (!add_times(record, *said.recipe, cache, std::move(samples), timer.take_answers(), ceilings)) break;
    }
  } catch (const PathThrew& threw) {
    record.verdict = in_step(threw.verdict, "the timing");
    record.perf = record.perf_warm = std::nullopt;
  } catch (const Trespass& error) {
    record.verdict = {.kind = VerdictKind::kFail, .reason = error.what(), .outputs = {}};
    record.perf = record.perf_warm = std::nullopt;
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kDevice) throw;
    record.no_perf = error.what();  // no memory to flush the caches with
  }
}

// A fault of the timed calls is one of the path, and its times mean nothing.
bool PathJudge::add_times(CaseRecord& record, const Recipe& recipe, Cache cache, Samples samples,
                          std::vector<TimedAnswer> answers, const std::optional<Ceilings>& ceilings) {
  std::optional<Verdict> wrong;
  const auto blame = [&](std::string& fault) {
    if (!wrong && !fault.empty())
      wrong = Verdict{.kind = VerdictKind::kFail, .reason = std::move(fault), .outputs = {}};
  };
  blame(samples.fault);
  if (!wrong) wrong = find_wrong_answer(subject_, record.which, recipe, draws_, std::move(answers));
  blame(samples.unequal);
  if (wrong) {
    record.verdict = *std::move(wrong);
    record.perf = record.perf_warm = std::nullopt;
    return false;
  }
  perf_of(record, cache) = assay::perf_of(std::move(samples), *subject_.op, recipe, record.which,
                                          device_.info(), cache, ceilings, draws_);
  return true;
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
    Worker::Answer answer = isolation_->ask(
        record.which, {.fields = {{"time", name_of(cache)}, {"draws", draws_}}, .tensors = {}});
    if (!answer.message && !answer.death) return false;
    if (answer.death) {
      crash(answer.death->kind, std::move(answer.death->reason));
    } else if (answer.message->fields.contains("samples_ns")) {
      try {
        auto [samples, answers] = timed_in(*std::move(answer.message), *subject_.op, record.which);
        add_times(record, isolation_->recipe().value(), cache, std::move(samples), std::move(answers),
                  ceilings);
      } catch (const nlohmann::json::exception&) {
        crash(VerdictKind::kCrashed, nonsense().reason);
      } catch (const Nonsense&) {
        crash(VerdictKind::kCrashed, nonsense().reason);
      } catch (const std::out_of_range&) {
        crash(VerdictKind::kCrashed, nonsense().reason);
      }
    } else if (has_verdict(*answer.message, VerdictKind::kSkipped)) {
      record.no_perf = reason_in(*answer.message);  // no memory to time it with
      break;
    } else if (has_verdict(*answer.message, VerdictKind::kFail)) {
      crash(VerdictKind::kFail, reason_in(*answer.message));
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
  Held held;
  const pid_t worker = getpid();
  for (;;) {
    try {
      const std::optional<Message> request = channel->receive();
      Message message = answer(*subject, *device, *request, *channel, held);
      if (getpid() != worker) _exit(0);  // a copy that the path made: nobody has asked it
      send_answer(*channel, std::move(message), request->fields.at(kNumber));
    } catch (const Disconnected&) {
      end_disconnected(*channel);
    }
  }
}

}  // namespace assay
