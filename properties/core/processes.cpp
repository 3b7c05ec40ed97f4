// SPDX-License-Identifier: Apache-2.0
#include "properties/core/processes.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <thread>

#include "kernels/core/error.h"

namespace assay {
namespace {

constexpr const char* kMark = "ASSAY_WORKER_OF";
constexpr Seconds kKilled{5};  // for the system to end a killed process
constexpr Seconds kOrphan{1};  // the same for one of those that a worker leaves behind

std::set<pid_t> live_workers;

// The children of this process, by the system's own list.
std::vector<pid_t> children() {
  std::ifstream file(fmt::format("/proc/self/task/{}/children", getpid()));
  return {std::istream_iterator<pid_t>(file), {}};
}

// Of each thread: the first one may have ended.
std::string text_of(pid_t process, std::string_view what) {
  std::string text;
  std::error_code error;
  std::filesystem::directory_iterator thread(fmt::format("/proc/{}/task", process), error);
  for (; thread != std::filesystem::directory_iterator(); thread.increment(error)) {
    std::ifstream file(thread->path() / what);
    text.append(std::istreambuf_iterator<char>(file), {});
  }
  return text;
}

// Whether a worker, or what its path has started, runs in this process: it has inherited the mark.
// A copy has the environment that this process started with, so it is known by the shared memory.
bool is_of_workers(pid_t process) {
  const std::string mark = mark_of_workers();
  return ('\0' + text_of(process, "environ")).find('\0' + mark + '\0') != std::string::npos ||
         text_of(process, "maps").find("/memfd:" + mark + " ") != std::string::npos;
}

// Ends what a worker has left behind outside its group. The system makes it, and then what it has
// started itself, children of this process. So may be what somebody else left behind.
void end_orphans() {
  const auto start = std::chrono::steady_clock::now();
  for (bool found = true; found && std::chrono::steady_clock::now() - start < kKilled;) {
    found = false;
    for (const pid_t child : children()) {
      if (live_workers.contains(child)) continue;
      const bool has_ended = waitpid(child, nullptr, WNOHANG) == child;
      if (!has_ended && !is_of_workers(child)) continue;
      found = true;
      if (!has_ended && kill(child, SIGKILL) == 0) ends_within(child, kOrphan);
    }
  }
}

}  // namespace

std::string mark_of_workers() {
  return fmt::format("{}={}", kMark, getpid());
}

pid_t start_program(std::vector<std::string> arguments, int socket, int memory) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (fcntl(STDERR_FILENO, F_GETFD) < 0)
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, socket, kWorkerSocket);
  posix_spawn_file_actions_adddup2(&files, memory, kWorkerMemory);
  posix_spawn_file_actions_addclosefrom_np(&files, kWorkerMemory + 1);

  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);

  std::vector<char*> argv, variables;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  for (char** variable = environ; *variable != nullptr; ++variable) variables.push_back(*variable);
  std::string mark = mark_of_workers();
  variables.insert(variables.end(), {mark.data(), nullptr});
  pid_t process = -1;
  const int error =
      posix_spawn(&process, "/proc/self/exe", &files, &attributes, argv.data(), variables.data());
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) throw Error("a worker cannot be started: {}", std::strerror(error));
  live_workers.insert(process);
  return process;
}

pid_t start_copy(const std::function<void()>& main, int socket, int memory) {
  std::fflush(nullptr);  // what both would write
  const std::string program = std::to_string(getpid());
  const pid_t process = fork();
  if (process < 0) throw Error("a worker cannot be started: {}", std::strerror(errno));
  if (process > 0) {
    setpgid(process, process);  // whoever comes first
    live_workers.insert(process);
    return process;
  }
  setpgid(0, 0);
  for (int signal = 1; signal < NSIG; ++signal) std::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  dup2(socket, kWorkerSocket);
  dup2(memory, kWorkerMemory);
  closefrom(kWorkerMemory + 1);
  setenv(kMark, program.c_str(), 1);  // for what it starts
  [&]() noexcept { main(); }();
  _exit(0);
}

bool ends_within(pid_t process, Seconds time) {
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    siginfo_t info{};
    const int failed = waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOHANG | WNOWAIT);
    // Of a process that is traced waitid() reports stops, too.
    const bool has_ended =
        info.si_code == CLD_EXITED || info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED;
    if (failed == 0 && info.si_pid == process && has_ended) return true;
    if (std::chrono::steady_clock::now() - start >= time) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

std::optional<int> end_group(pid_t process) {
  // kill() takes 0 for the caller's group, and -1 for all processes.
  if (process <= 1) throw Error("process {} is no worker to end", process);
  kill(process, SIGKILL);
  kill(-process, SIGKILL);
  int status = 0;
  if (!ends_within(process, kKilled) || waitpid(process, &status, WNOHANG) != process) return std::nullopt;
  // What is left of its group became children of this process when it ended.
  const auto start = std::chrono::steady_clock::now();
  for (pid_t ended = 0; ended >= 0 && std::chrono::steady_clock::now() - start < kKilled;) {
    ended = waitpid(-process, nullptr, WNOHANG);
    if (ended == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  live_workers.erase(process);
  end_orphans();
  return status;
}

}  // namespace assay
