// SPDX-License-Identifier: Apache-2.0
// How the program judges and times one path on one device: in workers, or in its own process with
// --no-isolate.
#pragma once

#include <memory>
#include <optional>

#include "bench/core/ceilings.h"
#include "bench/core/device_state.h"
#include "properties/core/isolation.h"
#include "properties/core/plain_call.h"
#include "properties/core/registry.h"
#include "reports/program/options.h"
#include "reports/record/record.h"

namespace assay {

class PathJudge {
 public:
  PathJudge(const Subject& subject, Device& device, const Options& options);

  // These return nothing if the program was interrupted. judge_alone() takes a new worker.
  std::optional<Verdict> judge(const Case& which, const JudgeOptions& options = {});
  std::optional<Verdict> judge_alone(const Case& which);
  // Not with --no-isolate: FuzzOptions::refuses, and FuzzOptions::expects.
  bool refuses(const Case& which);
  void expect(const Case& following) { isolation_.value().expect(following); }
  // Judges a case and, if it passes, times it on the same tensors.
  std::optional<CaseRecord> bench(const Case& which, const std::optional<Ceilings>& ceilings);

  // The outputs for these inputs, by a call without a judge, or what the path says of the case.
  // Throws Error (unsupported) if it refuses, Error (device) for want of memory, and PathThrew for
  // whatever else it does, also if it ends its process.
  std::optional<TensorBytes> call(const Case& which, const TensorBytes& inputs);
  std::optional<Recipe> recipe(const Case& which);

  // The parts of bench(), so that paths can take turns: judges a case and keeps its tensors.
  std::optional<CaseRecord> judge_and_keep(const Case& which);
  // Samples of one of `rounds` rounds. None if there is no memory for them (record.no_perf), or if
  // the path does not answer, or does something wrong when it is timed (record.verdict). Nothing if
  // interrupted.
  std::optional<Samples> sample(CaseRecord& record, Cache cache, int rounds = 1);
  Perf perf_of(const CaseRecord& record, Samples samples, Cache cache,
               const std::optional<Ceilings>& ceilings) const;

 private:
  std::optional<Message> ask_for_call(const Case& which, const TensorBytes& inputs);
  Verdict judge_here(const Case& which);
  std::optional<Verdict> judge_isolated(const Case& which);
  Samples sample_here(CaseRecord& record, Cache cache, int rounds);
  std::optional<Samples> sample_isolated(CaseRecord& record, Cache cache, int rounds);
  // What the timed calls did wrong becomes the verdict.
  void judge_samples(CaseRecord& record, Samples& samples, std::vector<TimedAnswer> answers);

  Subject subject_;
  Device& device_;
  bool judges_again_;  // a failure, to tell whether it comes alone
  Seconds least_;      // that samples go on
  std::optional<Isolation> isolation_;
  uint64_t draws_ = 0;           // the seed of the timer, of each problem its own
  std::optional<Problem> kept_;  // in this process
  std::optional<Timer> timer_;   // of it
  std::optional<PlainCalls> calls_;
  std::optional<Recipe> recipe_;
  std::unique_ptr<DeviceMonitor> monitor_;  // once something is timed
  std::optional<Telemetry> telemetry_;      // while the last samples were taken
};

// Whether a command line is that of a worker, and what the worker does: it runs the cases of a path
// until the program that started it ends. Returns an exit code.
bool is_worker(int argc, const char* const* argv);
int run_worker(const Registry& registry, const char* const* argv);

}  // namespace assay
