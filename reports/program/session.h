// SPDX-License-Identifier: Apache-2.0
// One run of the program that leaves a record: the results so far, progress on stderr, and the
// files at the end.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <map>
#include <set>
#include <string>

#include "kernels/core/device.h"
#include "properties/core/fuzz.h"
#include "reports/program/interrupt.h"
#include "reports/program/options.h"
#include "reports/record/record.h"
#include "reports/store/locked_file.h"

namespace assay {

int exit_code_of(const Record& record);  // an ExitCode of program.h

// Everything is appended to the journal of the run as soon as it is known, and the record is folded
// from the journal in the end: by finish(), soon after a signal if the run has not finished
// by then, or where a path calls exit().
class Session {
 public:
  explicit Session(const Options& options);
  ~Session();

  void add_device(const Device& device);
  void set_specimens(std::vector<SpecimenRecord> specimens) { record_.specimens = std::move(specimens); }
  // Begins the journal, or goes on with it (--resume). `planned` is the number of cases, if it is
  // known. Throws Error (usage) if another process writes to the directory, or if the run to resume
  // was made by another program or on another machine.
  void begin(std::optional<int64_t> planned);
  void set_ceilings(const DeviceRecord& measured);
  void set_conditions(const Conditions& conditions);
  void add_sentinel(const Sentinel& sentinel);

  // What the resumed run said of a case before it was interrupted.
  std::optional<Judged> recall(const Case& drawn, const Device& device) const;
  // [s] How long the resumed run took for the cases of a path.
  double spent(const Subject& subject, const Device& device) const;
  int timeouts(const Subject& subject, const Device& device) const;  // of the same cases

  void starts(const Case& which, const Device& device);  // before a case is judged
  // Adds a judged case. Of each path the first failure of a kind is printed at once. If there is an
  // output directory, a failure is saved as a capsule. The record does not keep its evidence.
  void add(const Device& device, const Judged& judged);
  void add(CaseRecord record, int timeouts = 0);
  void add_not_run(const Op& op, const Path& path, std::string reason);

  // Prints a line on stderr. On a terminal the next line replaces it; elsewhere only milestones are
  // printed.
  enum class Progress : uint8_t { kMilestone, kStep };
  void progress(const std::string& text, Progress kind = Progress::kMilestone) const;

  // Closes the record, writes the files to --out, and prints the table or the JSON. Returns the
  // exit code. A record is not complete if its run was interrupted or ended before its work was
  // done. Its journal stays then.
  int finish(bool complete = true);

  const std::vector<NotRun>& not_run() const { return record_.not_run; }
  int64_t judged() const { return judged_; }

 private:
  double elapsed() const;  // [s]
  void append(const std::string& line);
  void resume();
  void print_first(const CaseRecord& failure);
  std::string save_capsule(const CaseRecord& failure) const;
  int conclude(bool complete);
  static void end_at_exit();  // of the process

  const Options& options_;
  Record record_;  // as it is before the first case
  std::optional<LockedFile> journal_;
  std::map<std::string, Judged> recalled_;  // by drawn case and device
  std::map<std::string, double> spent_;
  std::map<std::string, int> timeouts_;
  std::map<std::string, int64_t> drawn_;  // cases of each path so far
  std::set<std::string> printed_;         // "op/path device verdict"
  int64_t judged_ = 0;
  double before_ = 0;  // [s] that the resumed run took
  std::chrono::steady_clock::time_point start_;
  double case_start_ = 0;  // [s] by elapsed()
  pid_t process_;
  std::atomic<bool> is_ending_ = false;  // somebody concludes
  Deadline deadline_;                    // last, because its thread uses the others
};

}  // namespace assay
