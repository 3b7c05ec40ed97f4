// SPDX-License-Identifier: Apache-2.0
#include "reports/program/session.h"

#include <fmt/chrono.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>

#include "kernels/core/printable.h"
#include "reports/program/capsule.h"
#include "reports/program/machine.h"
#include "reports/program/program.h"
#include "reports/render/render.h"
#include "reports/store/files.h"

namespace assay {
namespace {

std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may only use lock-free atomics");

int exit_code(const Record& record) {
  const Tally all = tally(record.cases);
  if (!record.complete) return kExitInterrupted;
  if (all.failures() > 0) return kExitNumericalFailure;
  if (all.pass == 0) return kExitNothingSelected;
  return kExitPassed;
}

}  // namespace

void install_interrupt_handler() {
  const auto handler = [](int) { interrupted = true; };
  std::signal(SIGINT, handler);
  std::signal(SIGTERM, handler);
}

bool is_interrupted() {
  return interrupted;
}

Session::Session(const Options& options)
    : options_(options), start_(std::chrono::steady_clock::now()), on_terminal_(isatty(STDERR_FILENO) != 0) {
  record_.started = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  record_.command = options.command_line;
  record_.seed = options.seed;
  record_.machine = machine_record();
  record_.tool = tool_record();
  if (!options.out.empty()) make_output_directory(options.out);  // fails before any work is done
}

void Session::add_device(const Device& device) {
  record_.machine.devices.push_back({.info = device.info(), .ceilings = {}});
}

void Session::set_ceilings(const Device& device, const Ceilings& ceilings) {
  for (DeviceRecord& known : record_.machine.devices) {
    if (known.info.name() == device.info().name()) known.ceilings = ceilings;
  }
}

void Session::add(const Subject& subject, const Device& device, const Judged& judged) {
  add({.which = judged.which,
       .device = device.info().name(),
       .recipe = subject.path->recipe(judged.which.dims, judged.which.dtype).to_string(),
       .verdict = judged.verdict,
       .shrunk_from = judged.shrunk_from,
       .perf = {},
       .perf_warm = {},
       .no_perf = is_failure(judged.verdict.kind)
                      ? fmt::format("the verdict is {}", name_of(judged.verdict.kind))
                      : "not timed"});
}

// A capsule is a convenience. The verdict and the run are valid without it.
void Session::save_capsule(const CaseRecord& failure) const {
  try {
    const auto capsules = std::filesystem::path(options_.out) / "capsules";
    make_output_directory(capsules);
    write_capsule(capsules, record_.cases.size() + 1, failure.which, failure.verdict);
  } catch (const std::exception& error) {
    fmt::print(stderr, "no capsule: {}\n", excerpt(error.what()));
  }
}

void Session::add(CaseRecord record) {
  if (is_failure(record.verdict.kind)) {
    progress("");
    fmt::print(stderr, "{}: {}\n", name_of(record.verdict.kind), printable(record.verdict.reason));
    // No path made the outputs that `judge` was given.
    if (options_.command != Command::kJudge)
      fmt::print(stderr, "  assay replay '{}'\n", record.which.to_string());
    if (!options_.out.empty()) save_capsule(record);
  }
  record.verdict.evidence.reset();  // which is large
  record_.cases.push_back(std::move(record));
}

void Session::add_not_run(const Op& op, const Path& path, std::string reason) {
  record_.not_run.push_back(
      {.op = std::string(op.name), .path = std::string(path.name), .reason = std::move(reason)});
}

void Session::progress(const std::string& text, Progress kind) {
  if (options_.quiet) return;
  if (!on_terminal_) {
    if (!text.empty() && kind == Progress::kMilestone) fmt::print(stderr, "{}\n", text);
    return;
  }
  constexpr const char* kClearLine = "\r\x1b[2K";
  if (line_is_open_) fmt::print(stderr, "{}", kClearLine);
  fmt::print(stderr, "{}", text);
  line_is_open_ = !text.empty();
  std::fflush(stderr);
}

int Session::finish(bool complete) {
  progress("");
  record_.complete = complete && !is_interrupted();
  record_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  if (options_.json) {
    fmt::print("{}", record_text(record_));
  } else {
    fmt::print("{}", render_table(record_, wants_colour()));
  }
  std::fflush(stdout);  // whether or not the files can be written
  if (!options_.out.empty()) write_reports(record_, options_.out);
  if (!options_.out.empty() && !options_.quiet) {
    fmt::print(stderr, "reports: {}\n", (std::filesystem::path(options_.out) / "report.html").string());
  }
  return exit_code(record_);
}

bool wants_colour() {
  const char* no_colour = std::getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) != 0 && (no_colour == nullptr || *no_colour == '\0');
}

void write_reports(const Record& record, const std::string& directory) {
  const std::filesystem::path root(directory);
  write_file_atomically(root / "run.json", record_text(record));
  write_file_atomically(root / "report.html", render_html(record));
  write_file_atomically(root / "report.md", render_markdown(record));
  write_file_atomically(root / "junit.xml", render_junit(record));
  write_file_atomically(root / "benchmark.json", render_benchmark_json(record));
}

}  // namespace assay
