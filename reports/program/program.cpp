// SPDX-License-Identifier: Apache-2.0
#include "reports/program/program.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "kernels/core/error.h"
#include "kernels/core/printable.h"
#include "properties/core/float_environment.h"
#include "reports/program/commands.h"
#include "reports/program/interrupt.h"
#include "reports/program/judging.h"
#include "reports/program/selection.h"
#include "reports/program/streams.h"

namespace assay {
namespace {

int run_command(const Registry& registry, const std::vector<Sweep>& sweeps, const Options& options) {
  // A mistyped filter beside a right one must not look like a pass.
  // A gate looks for its filters in the records, and ab in another program.
  const bool judges_here = options.command != Command::kCompare && options.command != Command::kGate &&
                           options.command != Command::kAb;
  const auto unmatched = !judges_here ? std::vector<std::string>{} : unmatched_filters(registry, options);
  for (const std::string& wrong : unmatched) fmt::print(stderr, "assay: {}\n", wrong);
  if (!unmatched.empty()) return kExitNothingSelected;
  switch (options.command) {
    case Command::kList:
      return run_list(registry, options);
    case Command::kDoctor:
      return run_doctor(options);
    case Command::kVerify:
      if (options.specimens) return run_specimens(registry, options);
      [[fallthrough]];
    case Command::kBench:
    case Command::kRun:
      return run_paths(registry, sweeps, options);
    case Command::kDemo:
      return run_demo(registry, options);
    case Command::kReplay:
      return run_replay(registry, options);
    case Command::kDraw:
      return run_draw(registry, options);
    case Command::kJudge:
      return run_judge(registry, options);
    case Command::kExec:
      return run_exec(registry, options);
    case Command::kReport:
      return run_report(options);
    case Command::kNew:
      return run_new(registry, options);
    case Command::kCompare:
    case Command::kGate:
      return run_compare(options);
    case Command::kAb:
      return run_ab(options);
    case Command::kCalibrate:
      return run_calibrate(options);
    case Command::kMerge:
      return run_merge(options);
    case Command::kHistory:
      return run_history(options);
    case Command::kProbe:
      return run_probe(registry, options);
    case Command::kStudy:
      return run_study(registry, sweeps, options);
    case Command::kCompletion:
      return run_completion(registry, options);
    case Command::kManual:
      return run_manual(options);
  }
  throw Error("Command({}) is not a command", static_cast<int>(options.command));
}

int exit_code(const Error& error) {
  switch (error.kind()) {
    case Error::Kind::kUsage:
    case Error::Kind::kUnsupported:
      return kExitUsage;
    case Error::Kind::kDevice:
      return kExitDeviceAbsent;
    case Error::Kind::kInternal:
      return kExitInternalError;
  }
  return kExitInternalError;
}

// exec --no-isolate calls a path in this process. One that calls exit(), or pthread_exit() in this
// thread, must not end it as if all was well. So does a run with --no-isolate, which says so
// itself, before this (session.cpp).
class ExitGuard {
 public:
  static void begin() {
    [[maybe_unused]] static const bool registered =
        std::atexit(end_at_exit) == 0 && std::at_quick_exit(end_at_exit) == 0;
    process_ = getpid();
  }
  // No destructor calls it: the end of a thread calls those, too.
  static void end() { process_ = 0; }

 private:
  static void end_at_exit() {
    if (process_ != getpid()) return;
    fmt::print(stderr, "assay: a path called exit() or pthread_exit()\n");
    _exit(kExitNumericalFailure);
  }
  static inline std::atomic<pid_t> process_ = 0;  // that runs a command
};

constexpr std::string_view kUnwritable = "cannot write to standard output";

int run_guarded(int argc, const char* const* argv, const Registry& registry,
                const std::vector<Sweep>& sweeps) {
  try {
    if (is_worker(argc, argv)) return run_worker(registry, argv);
    ExitGuard::begin();
    prepare_streams();
    install_interrupt_handler();
    const ParsedOptions parsed = parse_options(argc, argv);
    const int code = parsed.options ? run_command(registry, sweeps, *parsed.options) : parsed.exit_code;
    // Output that does not reach its reader is no success. Flushing finds a full disk behind a
    // redirection.
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) throw usage_error("{}", kUnwritable);
    return code;
  } catch (const Error& error) {
    fmt::print(stderr, "assay: {}\n", error.what());
    if (error.kind() == Error::Kind::kInternal) {
      fmt::print(stderr, "  at {}:{}\n", error.where().file_name(), error.where().line());
    }
    return is_interrupted() ? kExitInterrupted : exit_code(error);
  } catch (const std::exception& error) {
    if (std::ferror(stdout) != 0) {  // output beyond the buffer fails before the flush
      fmt::print(stderr, "assay: {}\n", kUnwritable);
      return is_interrupted() ? kExitInterrupted : kExitUsage;
    }
    fmt::print(stderr, "assay: internal error: {}\n", excerpt(message_of(error)));
    return kExitInternalError;
  }
}

}  // namespace

namespace {

constexpr int kBisectSkips = 125;

// For `git bisect run` 0 and 1 to 127 are verdicts, but 125 skips the commit. An interruption ends
// the bisection.
int bisect_code(int code) {
  const bool is_verdict = code == kExitPassed || code == kExitNumericalFailure || code == kExitGateFailed;
  return is_verdict || code == kExitInterrupted ? code : kBisectSkips;
}

// Also where the other options cannot be read.
bool bisects(int argc, const char* const* argv) {
  const char* const variable = std::getenv("ASSAY_BISECT");
  const bool is_gate = argc > 1 && std::string_view(argv[1]) == "gate";
  return is_gate && (variable != nullptr || std::count(argv, argv + argc, std::string_view("--bisect")) > 0);
}

}  // namespace

int run_program(int argc, const char* const* argv, const Registry& registry,
                const std::vector<Sweep>& sweeps) {
  // A library that was built for fast arithmetic may flush subnormal numbers since the start.
  const FloatEnvironment environment;
  int code = run_guarded(argc, argv, registry, sweeps);
  if (bisects(argc, argv)) code = bisect_code(code);
  ExitGuard::end();
  return code;
}

}  // namespace assay
