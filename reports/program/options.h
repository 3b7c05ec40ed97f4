// SPDX-License-Identifier: Apache-2.0
// The command line: subcommands, options, and their environment twins ASSAY_<OPTION>.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernels/core/dtype.h"
#include "reports/gate/changes.h"
#include "reports/program/command_table.h"
#include "reports/program/study_options.h"

namespace assay {

enum class Command : uint8_t {
  kList,
  kDoctor,
  kVerify,
  kBench,
  kRun,
  kDemo,
  kReplay,
  kExec,
  kDraw,
  kJudge,
  kReport,
  kNew,
  kCompare,
  kGate,
  kAb,
  kCalibrate,
  kMerge,
  kHistory,
  kProbe,
  kStudy,
  kCompletion,
  kManual
};

struct Options {
  Command command = Command::kRun;
  std::vector<std::string> filters;  // globs on op or op/path; empty selects all
  std::optional<DType> dtype;
  std::string device = "all";                             // all, cpu, cuda, cuda:k
  bool device_is_typed = false;                           // and does not come from the environment
  std::optional<int64_t> terms;                           // of the sums that are probed
  int64_t cases = 200;                                    // per path
  std::optional<std::chrono::duration<double>> budget;    // per path; replaces `cases`
  std::optional<std::chrono::duration<double>> timeout;   // of a case in a worker
  std::optional<std::chrono::duration<double>> min_time;  // of the samples of a timed problem
  bool isolate = true;                                    // run paths in workers
  std::optional<int64_t> max_failures;                    // per path
  bool no_shrink = false;                                 // failures stay as they were drawn
  std::optional<int64_t> max_elements;                    // of the largest tensor of a case
  uint64_t seed = 0;
  int64_t shard = 0;               // of `--shard i/n`: i - 1
  int64_t shards = 1;              // n
  std::vector<std::string> sizes;  // of `bench`: axes of dimensions
  bool specimens = false;
  bool hostile = false;  // those specimens that cheat when they are timed
  bool shares = false;
  bool json = false;
  bool recipes = false;
  std::string probed;  // of `list`: a probe.json
  bool strict_env = false;
  bool quiet = false;
  bool all = false;      // also print what did not change
  bool certain = false;  // unclear times fail
  bool markdown = false;
  bool allow_traded = false;
  bool bisect = false;
  int64_t repeats = 3;               // of `ab`
  std::string noise;                 // file of `calibrate`
  std::string branch = "main";       // of `history`
  std::vector<std::string> records;  // of `calibrate`, `merge` and `history`
  Limits limits;
  std::string out;      // directory; for exec and draw a file
  std::string in;       // file of inputs
  std::string got;      // file of outputs
  std::string subject;  // a case line, a capsule, a record, a new op's name or a shell, by command
  std::string formula;  // of a new op
  std::string after;    // a record, or a folder of them, to compare with the subject
  std::string resume;   // the directory of an unfinished run
  StudyOptions study;
  // The options that select, draw and judge cases, as they were typed. A resumed run has the same.
  std::map<std::string, std::string> typed;
  // The options and positionals of the command that have a value: "--slower", "FILTER". It may come
  // from the environment.
  std::vector<std::string> given;
  std::vector<std::string> command_line;
};

// There are no options if the command line was answered already: --help, --version, or an error
// that was printed. Then `exit_code` is its exit code.
struct ParsedOptions {
  std::optional<Options> options;
  int exit_code = 0;
};
ParsedOptions parse_options(int argc, const char* const* argv);

Table command_table();

}  // namespace assay
