// SPDX-License-Identifier: Apache-2.0
#include "reports/program/session.h"

#include <fmt/chrono.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <tuple>

#include "kernels/core/printable.h"
#include "properties/core/precheck.h"
#include "reports/program/capsule.h"
#include "reports/program/machine.h"
#include "reports/program/program.h"
#include "reports/program/run_folder.h"
#include "reports/program/terminal.h"
#include "reports/record/tally.h"
#include "reports/render/failures.h"
#include "reports/render/render.h"
#include "reports/render/summary.h"
#include "reports/render/text.h"
#include "reports/store/files.h"

namespace assay {
namespace {

// [bytes] The longest journal that is folded into reports within a second of an interruption.
constexpr int64_t kMostFolded = int64_t{8} << 20;

std::atomic<Session*> current = nullptr;  // for what ends the process inside a call of a path

std::string now() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

std::string key_of(const Case& drawn, std::string_view device) {
  return fmt::format("{} {}", drawn.to_string(), device);
}

std::string path_key(const Case& which, std::string_view device) {
  return fmt::format("{}/{} {}", which.op, which.path, device);
}

// What a journal says of a path, or 0.
template <class Value>
Value value_of(const std::map<std::string, Value>& of_paths, const Subject& subject, const Device& device) {
  const auto found =
      of_paths.find(fmt::format("{}/{} {}", subject.op->name, subject.path->name, device.info().name()));
  return found == of_paths.end() ? 0 : found->second;
}

std::string resume_command(const Options& options) {
  return fmt::format("{} {} --resume {}", shell_word(options.command_line.front()),
                     options.typed.at("command"), shell_word(options.out));
}

bool can_resume(Command command) {
  return command == Command::kVerify || command == Command::kBench || command == Command::kRun ||
         command == Command::kDemo;
}

}  // namespace

int exit_code_of(const Record& record) {
  const auto [failed, passed] = outcome_of(record);
  if (!record.complete) return kExitInterrupted;
  if (failed > 0) return kExitNumericalFailure;
  if (passed == 0) return kExitNothingSelected;
  return kExitPassed;
}

Session::Session(const Options& options)
    : options_(options), start_(std::chrono::steady_clock::now()), process_(getpid()), deadline_([this] {
        if (is_ending_.exchange(true)) return;
        alarm(5);  // a path may have damaged what the reports need
        try {
          conclude(false);
        } catch (const std::exception& error) {
          fmt::print(stderr, "assay: {}\n", error.what());
        }
        _exit(kExitInterrupted);
      }) {
  record_.started = now();
  record_.command = options.command_line;
  record_.seed = options.seed;
  record_.options = options.typed;
  record_.machine = machine_record();
  record_.tool = tool_record();
  if (const auto timeout = options.typed.find("--timeout"); timeout != options.typed.end())
    record_.timeout = timeout->second;
  if (!options.got.empty()) record_.given = GivenFiles{.in = options.in, .got = options.got};
  if (!options.out.empty()) make_output_directory(options.out);  // fails before any work is done
  [[maybe_unused]] static const bool registered =
      std::atexit(end_at_exit) == 0 && std::at_quick_exit(end_at_exit) == 0;
  current = this;
}

Session::~Session() {
  current = nullptr;
  clear_progress();
  if (is_ending_ || judged_ == 0 || options_.out.empty()) return;
  fmt::print(stderr, "assay: {} keeps what was judged", printable(options_.out));
  fmt::print(stderr, "{}\n",
             can_resume(options_.command) ? "; `" + resume_command(options_) + "` goes on" : "");
}

double Session::elapsed() const {
  return before_ + std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void Session::append(const std::string& line) {
  if (journal_) journal_->append(line);
}

void Session::add_device(const Device& device) {
  record_.machine.devices.push_back({.info = device.info(), .ceilings = {}});
}

void Session::begin(std::optional<int64_t> planned) {
  record_.planned = planned;
  journal_.emplace(options_.out.empty() ? LockedFile::in_memory() : open_journal(options_.out));
  if (!options_.resume.empty()) {
    resume();
  } else {
    journal_->cut(0);
    append(head_line(record_, options_.typed, {.pid = process_, .started = record_.started}));
  }
  if (options_.out.empty()) return;
  remove_reports(options_.out);
  remove_capsules(options_.out, read_journal(journal_->content(), "the journal").record);
}

void Session::resume() {
  Journal journal = unfinished_run(options_.out);
  const Json begun = to_json(record_);
  for (const char* field : {"tool", "machine"}) {
    if (journal.begun[field] == begun[field]) continue;
    throw usage_error("{}: the {} of the run there was {}, and is {}", excerpt(options_.out), field,
                      excerpt(one_line(journal.begun[field])), excerpt(one_line(begun[field])));
  }
  for (const CaseRecord& item : journal.record.cases) {
    const Judged judged{.which = item.which, .verdict = item.verdict, .shrunk_from = item.shrunk_from};
    if (item.drawn) ++drawn_[path_key(item.which, item.device)];
    recalled_.emplace(key_of(item.shrunk_from.value_or(item.which), item.device), judged);
  }
  spent_ = std::move(journal.spent);
  timeouts_ = std::move(journal.timeouts);
  judged_ = std::ssize(journal.record.cases);
  before_ = journal.record.seconds;
  journal_->cut(journal.bytes);
  append(resumed_line(elapsed(), {.pid = process_, .started = record_.started}));
}

std::optional<Judged> Session::recall(const Case& drawn, const Device& device) const {
  const auto found = recalled_.find(key_of(drawn, device.info().name()));
  return found == recalled_.end() ? std::nullopt : std::optional(found->second);
}

double Session::spent(const Subject& subject, const Device& device) const {
  return value_of(spent_, subject, device);
}

int Session::timeouts(const Subject& subject, const Device& device) const {
  return value_of(timeouts_, subject, device);
}

void Session::starts(const Case& which, const Device& device) {
  case_start_ = elapsed();
  append(running_line(case_start_, which, device.info().name()));
}

void Session::set_ceilings(const DeviceRecord& measured) {
  append(device_line(elapsed(), measured));
}

void Session::set_conditions(const Conditions& conditions) {
  append(conditions_line(elapsed(), conditions));
}

void Session::add_sentinel(const Sentinel& sentinel) {
  append(sentinel_line(elapsed(), sentinel));
}

void Session::add(const Device& device, const Judged& judged) {
  CaseRecord record{.which = judged.which,
                    .device = device.info().name(),
                    .verdict = judged.verdict,
                    .shrunk_from = judged.shrunk_from,
                    .perf = {},
                    .perf_warm = {},
                    .no_perf = is_failure(judged.verdict.kind)
                                   ? fmt::format("the verdict is {}", name_of(judged.verdict.kind))
                                   : "not timed"};
  if (options_.command == Command::kVerify || options_.command == Command::kRun)
    record.drawn = options_.shard + options_.shards * drawn_[path_key(judged.which, record.device)]++;
  add(std::move(record), judged.timeouts);
}

void Session::print_first(const CaseRecord& failure) {
  const std::string_view verdict = name_of(failure.verdict.kind);
  const auto& [op, path] = std::tie(failure.which.op, failure.which.path);
  if (!printed_.insert(fmt::format("{}/{} {} {}", op, path, failure.device, verdict)).second) return;
  clear_progress();
  fmt::print(stderr, "{}: {}\n  {}\n", verdict, excerpt(failure.verdict.reason, kReasonOnTerminal),
             printable(replay_command(record_, failure)));
}

// A capsule is a convenience. The verdict and the run are valid without it. A path that died while
// it was timed leaves none.
std::string Session::save_capsule(const CaseRecord& failure) const {
  if (failure.verdict.evidence == nullptr) return "";
  try {
    const auto capsules = std::filesystem::path(options_.out) / kCapsules;
    make_output_directory(capsules);
    return fmt::format("{}/{}", kCapsules,
                       write_capsule(capsules, static_cast<size_t>(judged_) + 1, failure.which,
                                     failure.verdict, record_.given.has_value()));
  } catch (const std::exception& error) {
    clear_progress();
    fmt::print(stderr, "no capsule: {}\n", excerpt(error.what()));
    return "";
  }
}

void Session::add(CaseRecord record, int timeouts) {
  if (!journal_) begin(std::nullopt);
  record.seconds = elapsed() - case_start_;
  // A specimen fails as it should.
  if (is_failure(record.verdict.kind) && record_.specimens.empty()) {
    print_first(record);
    if (!options_.out.empty()) record.capsule = save_capsule(record);
  }
  case_start_ = elapsed();
  append(case_line(case_start_, record, timeouts));
  ++judged_;
}

void Session::add_not_run(const Op& op, const Path& path, std::string reason) {
  record_.not_run.push_back(
      {.op = std::string(op.name), .path = std::string(path.name), .reason = std::move(reason)});
  append(not_run_line(elapsed(), record_.not_run.back()));
}

void Session::progress(const std::string& text, Progress kind) const {
  if (options_.quiet || is_ending_ || show_progress(text)) return;
  if (kind == Progress::kMilestone) fmt::print(stderr, "{}\n", text);
}

int Session::finish(bool complete) {
  while (is_ending_.exchange(true)) pause();  // the deadline ends the process
  return conclude(complete && !is_interrupted());
}

// Another thread may call this while a path runs, so it reads nothing but the journal.
int Session::conclude(bool complete) {
  clear_progress();
  if (!journal_) begin(std::nullopt);
  const bool has_files = !options_.out.empty();
  if (!complete && has_files && journal_->size() > kMostFolded) {
    fmt::print(stderr,
               "assay: interrupted after {} cases; {} keeps them: `report` renders it, `{}` goes on\n",
               format_count(judged_), printable(options_.out), printable(resume_command(options_)));
    return kExitInterrupted;
  }
  Record record = read_journal(journal_->content(), "the journal").record;
  record.complete = complete;
  record.seconds = elapsed();
  std::exception_ptr unwritten;
  try {
    if (has_files) write_reports(record, record_text(record), options_.out);
    if (has_files && complete) journal_->remove();
  } catch (const Error&) {
    unwritten = std::current_exception();
  }
  if (!complete && (options_.json || isatty(STDOUT_FILENO) == 0))
    fmt::print(stderr, "assay: {}\n", render_interruption(record));
  if (has_files && !unwritten && !options_.quiet) {
    fmt::print(stderr, "reports: {}\n",
               printable((std::filesystem::path(options_.out) / "report.html").string()));
  }
  const std::string headline = render_headline(record);
  if (options_.json) {
    if (complete && !options_.quiet) fmt::print(stderr, "{}\n", headline);
    fmt::print("{}", record_text(record));
  } else {
    const int width = text_width();
    fmt::print("{}{}", render_table(record, wants_colour(), width),
               render_failures(record, options_.out, width));
    for (const std::string& line : disturbed_times(record))
      fmt::print("{}.\n", wrapped(printable(line), width));
    fmt::print("{}\n", wrapped(headline, width));
  }
  std::fflush(stdout);
  // Not of a path that ends the run, nor of a machine that is unfit: both would do so again.
  if (can_resume(options_.command) && has_files && !complete && is_interrupted() && !options_.quiet)
    fmt::print(stderr, "assay: `{}` goes on\n", printable(resume_command(options_)));
  if (unwritten) std::rethrow_exception(unwritten);
  return exit_code_of(record);
}

// A path that calls exit() must not end the run as if it had passed.
void Session::end_at_exit() {
  Session* const session = current;
  if (session == nullptr || getpid() != session->process_ || session->is_ending_.exchange(true)) return;
  clear_progress();
  fmt::print(stderr, "assay: a path called exit()\n");
  try {
    session->conclude(false);
  } catch (const std::exception& error) {
    fmt::print(stderr, "assay: {}\n", error.what());
  }
  _exit(kExitNumericalFailure);
}

}  // namespace assay
