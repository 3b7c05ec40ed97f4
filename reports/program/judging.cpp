// SPDX-License-Identifier: Apache-2.0
#include "reports/program/judging.h"

#include <array>
#include <cstdlib>

#include "reports/program/program.h"
#include "reports/program/selection.h"
#include "reports/program/session.h"

namespace assay {
namespace {

// assay --worker OP PATH DEVICE PARENT
constexpr std::string_view kWorker = "--worker";
enum : size_t { kOpArgument = 2, kPathArgument, kDeviceArgument, kParentArgument, kArguments };

constexpr std::array kCaches{Cache::kCold, Cache::kWarm};

std::optional<Perf>& perf_of(CaseRecord& record, Cache cache) {
  return cache == Cache::kCold ? record.perf : record.perf_warm;
}

Message take_samples(std::optional<Problem>& problem, const std::string& name, Channel& channel) {
  const auto cache = std::ranges::find(kCaches, name, [](Cache one) { return name_of(one); });
  if (!problem || cache == kCaches.end()) throw Error("there is nothing to time with {} caches", name);
  channel.set_step(fmt::format("the timing with {} caches", name));
  return {.fields = {{"samples_ns", take_samples(*problem, *cache)}}, .tensors = {}};
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

std::optional<CaseRecord> PathJudge::bench(const Case& which, const Ceilings& ceilings) {
  CaseRecord record{.which = which,
                    .device = device_.info().name(),
                    .recipe = subject_.path->recipe(which.dims, which.dtype).to_string(),
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

void PathJudge::time_here(CaseRecord& record, const Ceilings& ceilings) {
  std::optional<Problem> problem;
  try {
    problem.emplace(*subject_.op, *subject_.path, record.which, device_);
    record.verdict = assay::judge(subject_, *problem);
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kDevice) throw;
    record.verdict = {.kind = VerdictKind::kSkipped, .reason = error.what(), .outputs = {}};
  }
  if (record.verdict.kind != VerdictKind::kPass) return;
  for (Cache cache : kCaches) perf_of(record, cache) = measure(*problem, cache, ceilings);
}

bool PathJudge::time_isolated(CaseRecord& record, const Ceilings& ceilings) {
  std::optional<Verdict> verdict = isolation_->judge(record.which, {}, true);
  if (!verdict) return false;
  record.verdict = *std::move(verdict);
  for (Cache cache : kCaches) {
    if (record.verdict.kind != VerdictKind::kPass) break;
    const Message request{.fields = {{"time", name_of(cache)}}, .tensors = {}};
    Worker::Answer answer = isolation_->ask(record.which, request);
    if (answer.message && answer.message->fields.contains("samples_ns")) {
      auto samples = answer.message->fields["samples_ns"].get<std::vector<double>>();
      perf_of(record, cache) =
          assay::perf_of(std::move(samples), subject_, record.which, device_.info(), cache, ceilings);
    } else if (answer.message) {
      record.verdict = {
          .kind = VerdictKind::kCrashed, .reason = answer.message->fields.at("reason"), .outputs = {}};
    } else if (answer.death) {
      record.verdict = {.kind = answer.death->kind, .reason = std::move(answer.death->reason), .outputs = {}};
    } else {
      return false;
    }
  }
  if (record.verdict.kind != VerdictKind::kPass) record.perf = record.perf_warm = std::nullopt;
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
    channel->send({.fields = {{"error", error.what()}}, .tensors = {}});
    return kExitDeviceAbsent;
  }
  channel->send({.fields = {{"ready", true}}, .tensors = {}});
  std::optional<Problem> kept;
  for (;;) {
    const std::optional<Message> request = channel->receive();
    Message answer;
    try {
      answer = request->fields.contains("time") ? take_samples(kept, request->fields["time"], *channel)
                                                : run_case(*subject, *device, *request, *channel, kept);
    } catch (const std::exception& error) {
      answer.fields = {{"verdict", name_of(VerdictKind::kCrashed)}, {"reason", error.what()}};
    }
    channel->send(answer);
  }
}

}  // namespace assay
