// SPDX-License-Identifier: Apache-2.0
// How the program judges and times one path on one device: in workers, or in its own process with
// --no-isolate.
#pragma once

#include <memory>
#include <optional>

#include "bench/core/ceilings.h"
#include "bench/core/device_state.h"
#include "properties/core/isolation.h"
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
  bool refuses(const Case& which);  // FuzzOptions::refuses
  // Judges a case and, if it passes, times it on the same tensors.
  std::optional<CaseRecord> bench(const Case& which, const std::optional<Ceilings>& ceilings);

 private:
  void time_here(CaseRecord& record, const std::optional<Ceilings>& ceilings);
  // Returns whether the program was not interrupted.
  bool time_isolated(CaseRecord& record, const std::optional<Ceilings>& ceilings);

  Subject subject_;
  Device& device_;
  std::optional<Isolation> isolation_;
  std::unique_ptr<DeviceMonitor> monitor_;  // once something is timed
};

// Whether a command line is that of a worker, and what the worker does: it runs the cases of a path
// until the program that started it ends. Returns an exit code.
bool is_worker(int argc, const char* const* argv);
int run_worker(const Registry& registry, const char* const* argv);

}  // namespace assay
