// SPDX-License-Identifier: Apache-2.0
// One run of the program that leaves a record: the results so far, progress on stderr, and the
// files at the end.
#pragma once

#include <chrono>
#include <string>

#include "kernels/core/device.h"
#include "properties/core/fuzz.h"
#include "reports/program/options.h"
#include "reports/record/record.h"

namespace assay {

// After install_interrupt_handler(), SIGINT and SIGTERM set is_interrupted(). The program then
// finishes the case, writes the reports and exits with 130.
void install_interrupt_handler();
bool is_interrupted();

class Session {
 public:
  explicit Session(const Options& options);

  void add_device(const Device& device);
  void set_ceilings(const Device& device, const Ceilings& ceilings);
  // Adds a judged case. A failure is printed at once and, if there is an output directory, saved as
  // a capsule. The record does not keep its evidence.
  void add(const Subject& subject, const Device& device, const Judged& judged);
  void add(CaseRecord record);
  void add_not_run(const Op& op, const Path& path, std::string reason);

  // Prints a line on stderr. On a terminal the next line replaces it; elsewhere only milestones are
  // printed.
  enum class Progress : uint8_t { kMilestone, kStep };
  void progress(const std::string& text, Progress kind = Progress::kMilestone);

  // Closes the record, prints the table or the JSON, and writes the files to --out. Returns the
  // exit code. A record is not complete if its run was interrupted or ended before its work was
  // done.
  int finish(bool complete = true);

  const Record& record() const { return record_; }

 private:
  void save_capsule(const CaseRecord& failure) const;

  const Options& options_;
  Record record_;
  std::chrono::steady_clock::time_point start_;
  bool on_terminal_;
  bool line_is_open_ = false;
};

// Whether standard output is a terminal on which NO_COLOR does not forbid colours.
bool wants_colour();

// Writes run.json, report.html, report.md, junit.xml and benchmark.json, each whole or not at all.
void write_reports(const Record& record, const std::string& directory);

}  // namespace assay
