// SPDX-License-Identifier: Apache-2.0
// ab: two versions of the program, timed in turns.
#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "kernels/core/printable.h"
#include "reports/program/commands.h"
#include "reports/program/interrupt.h"
#include "reports/program/program.h"
#include "reports/store/files.h"

extern char** environ;

namespace assay {
namespace {

namespace fs = std::filesystem;

// Runs a program, whose stdout is our stderr. Returns its exit code, or 128 and its signal.
int run_words(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  pid_t child = 0;
  const int error = posix_spawn(&child, words.front().c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw usage_error("cannot run {}: {}", excerpt(words.front()), std::strerror(error));
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw usage_error("lost {}: {}", excerpt(words.front()), std::strerror(errno));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// A run with failures leaves a record, too, and the gate tells which of them are new.
bool leaves_record(int code) {
  return code == kExitPassed || code == kExitNumericalFailure;
}

}  // namespace

int run_ab(const Options& given) {
  Options options = given;
  if (options.out.empty()) options.out = "assay-ab";
  const fs::path out = options.out;
  const std::pair<std::string, const char*> sides[] = {{options.subject, "before"}, {options.after, "after"}};
  std::error_code error;
  for (const auto& [program, side] : sides)
    if (!fs::is_regular_file(program, error)) throw usage_error("{} is no program", excerpt(program));
  for (const auto& [program, side] : sides) {
    if (fs::exists(out / side, error))
      throw usage_error("{} is there already: remove it, or name another folder with --out",
                        excerpt((out / side).string()));
  }
  for (int64_t i = 0; i < options.repeats; ++i) {
    for (int turn = 0; turn < 2; ++turn) {
      // What comes second may find a warmer machine: the sides take turns in that, too.
      const auto& [program, side] = sides[(i + turn) % 2];
      const fs::path folder = out / side / fmt::format("{:03}", i + 1);
      make_output_directory(folder);
      std::vector<std::string> words{fs::absolute(program).string(), "bench"};
      words.insert(words.end(), options.filters.begin(), options.filters.end());
      words.insert(words.end(), {"--device", options.device, "--out", folder.string(), "--quiet"});
      if (options.dtype) words.insert(words.end(), {"--dtype", std::string(name_of(*options.dtype))});
      if (!options.quiet)
        fmt::print(stderr, "assay: {}, run {} of {}: {}\n", side, i + 1, options.repeats, printable(program));
      const int code = run_words(words);
      if (is_interrupted() || code == kExitInterrupted) return kExitInterrupted;
      if (leaves_record(code) && !fs::exists(folder / "run.json", error))
        throw usage_error("{} is no Assay: its bench left no run.json", excerpt(program));
      if (!leaves_record(code)) {
        fmt::print(stderr, "assay: {} bench ended with exit code {}\n", printable(program), code);
        return code >= 128 ? static_cast<int>(kExitInternalError) : code;
      }
    }
  }
  options.subject = (out / "before").string();
  options.after = (out / "after").string();
  return run_compare(options);
}

}  // namespace assay
