// SPDX-License-Identifier: Apache-2.0
#include "properties/core/worker.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <thread>

#include "properties/core/host_memory.h"

namespace assay {
namespace {

constexpr int kSocket = 3, kMemory = 4;  // descriptors of a worker
constexpr int kFree = 10;                // the first descriptor that no worker uses
constexpr Seconds kStart{60};            // for a worker to become ready
constexpr int kMostStarts = 3;           // of a worker that dies before it is ready
constexpr Seconds kEnd{1};               // for a process to end that has closed its channel
constexpr Seconds kKilled{5};            // for the system to end a killed process

constexpr std::string_view kClosed = "the path closed its process's connection to this program";

class Descriptor {
 public:
  explicit Descriptor(int value, std::string_view what) : value_(value) {
    if (value < 0) throw Error("{}: {}", what, std::strerror(errno));
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (value_ >= 0) close(value_);
  }
  int get() const { return value_; }
  int release() { return std::exchange(value_, -1); }

 private:
  int value_;
};

// A copy that no descriptor of a worker overwrites while it is put in place.
int moved_up(int descriptor) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur <= kFree)
    throw Error("a worker needs more than {} files; the limit (ulimit -n) is {}", kFree, limit.rlim_cur);
  return fcntl(descriptor, F_DUPFD_CLOEXEC, kFree);
}

// A variable in the environment of workers, and so of whatever they start.
std::string mark_of_workers() {
  return fmt::format("ASSAY_WORKER_OF={}", getpid());
}

std::set<pid_t> live_workers;

// Starts the program in a process group of its own, with all signals as they are at first.
pid_t spawn(std::vector<std::string> arguments, int socket, int memory) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (fcntl(STDERR_FILENO, F_GETFD) < 0)
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, socket, kSocket);
  posix_spawn_file_actions_adddup2(&files, memory, kMemory);
  posix_spawn_file_actions_addclosefrom_np(&files, kMemory + 1);

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
  return process;
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

// The children of this process, by the system's own list.
std::vector<pid_t> children() {
  std::ifstream file(fmt::format("/proc/self/task/{}/children", getpid()));
  return {std::istream_iterator<pid_t>(file), {}};
}

// Whether a worker, or what its path has started, runs in this process: it has inherited the mark.
bool is_of_workers(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/environ", process));
  const std::string environment{std::istreambuf_iterator<char>(file), {}};
  return ('\0' + environment).find('\0' + mark_of_workers() + '\0') != std::string::npos;
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
      if (!has_ended && kill(child, SIGKILL) == 0) ends_within(child, kEnd);
    }
  }
}

// Ends a process, which may have left its group, and the group, and then forgets the process. Its
// status is returned if it is known.
std::optional<int> end(pid_t process) {
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

// A descriptor that can be read when the process has ended; -1 on a system without them.
int descriptor_of(pid_t process) {
  return static_cast<int>(syscall(SYS_pidfd_open, process, 0));
}

// The system ends this process with the program, but not what a path forks, and not this process
// either if its path has seen to that. So a second process waits for the end of this one or of the
// program, and then ends this one and the group. Without it, no more than that is left. A path that
// waits for its own children does not see this one, since its end is no SIGCHLD.
void end_group_with(int program) {
  constexpr int kPollMilliseconds = 1000;  // where there are no such descriptors
  const pid_t worker = getpid();
  const int own = descriptor_of(worker);
  if (syscall(SYS_clone, 0L, nullptr, nullptr, nullptr, 0L) == 0) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, nullptr);
    pollfd ends[] = {{.fd = dup2(program, 0), .events = POLLIN, .revents = 0},
                     {.fd = dup2(own, 1), .events = POLLIN, .revents = 0}};
    closefrom(2);
    while (getppid() == worker && poll(ends, 2, kPollMilliseconds) <= 0) {
    }
    syscall(SYS_pidfd_send_signal, ends[1].fd, SIGKILL, nullptr, 0);
    kill(-worker, SIGKILL);
    _exit(1);
  }
  close(own);
}

// The limit on the size of files is also one on shared memory. What exceeds it fails from here on.
void allow_large_files() {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_FSIZE, &limit);
}

constexpr std::array kLimits{RLIMIT_AS, RLIMIT_DATA, RLIMIT_FSIZE};

std::array<rlim_t, kLimits.size()> limits() {
  std::array<rlim_t, kLimits.size()> found{};
  for (size_t i = 0; i < kLimits.size(); ++i) {
    rlimit limit{};
    if (getrlimit(kLimits[i], &limit) == 0) found[i] = limit.rlim_max;
    // See MemoryLimit.
    if (kLimits[i] != RLIMIT_DATA) found[i] = std::min(found[i], limit.rlim_cur);
  }
  return found;
}

const std::array<rlim_t, kLimits.size()>& limits_at_start() {
  static const std::array<rlim_t, kLimits.size()> found = limits();
  return found;
}

// What the step is called in which a worker has lost its connection.
constexpr std::string_view kDisconnected = "disconnected";

bool answers(const Message& message, int64_t request) {
  const auto number = message.fields.find(kNumber);
  return number != message.fields.end() && number->is_number_integer() && *number == request;
}

std::string how_it_ended(int status) {
  if (WIFEXITED(status))
    return fmt::format("the path ended its process with exit status {}", WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  const char* name = sigabbrev_np(signal);
  return fmt::format("the path's process died of SIG{}{}", name == nullptr ? std::to_string(signal) : name,
                     signal == SIGKILL ? ", perhaps for want of memory," : "");
}

}  // namespace

Worker::Worker(std::vector<std::string> arguments, std::function<bool()> gives_up)
    : gives_up_(std::move(gives_up)) {
  std::signal(SIGCHLD, SIG_DFL);  // if it is ignored, no status is kept
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  arguments.push_back(std::to_string(getpid()));
  Answer ready;
  int starts = 0;
  do {
    start(arguments);
    ready = receive(kStart);
  } while (++starts < kMostStarts && ready.death && ready.death->kind == VerdictKind::kCrashed);
  if (ready.death) throw Error("a worker did not start: {}", ready.death->reason);
  if (ready.message && ready.message->fields.contains("error"))
    throw device_error("{}", ready.message->fields["error"].get<std::string>());
  number_ = std::random_device()();  // which no path guesses
}

void Worker::start(const std::vector<std::string>& arguments) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw Error("a worker needs a socket: {}", std::strerror(errno));
  Descriptor own(ends[0], "a socket"), given(ends[1], "a socket");
  Descriptor memory(memfd_create("assay", MFD_CLOEXEC | MFD_ALLOW_SEALING), "shared memory");
  // Memory that shrank under its mapping would end this process.
  if (fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) != 0)
    throw Error("shared memory cannot be sealed: {}", std::strerror(errno));
  const Descriptor high_socket(moved_up(given.get()), "a socket");
  const Descriptor high_memory(moved_up(memory.get()), "shared memory");
  channel_ = std::make_unique<Channel>(own.release(), memory.release());
  channel_->set_step("the start of the program");
  process_ = spawn(arguments, high_socket.get(), high_memory.get());
  live_workers.insert(process_);
}

Worker::~Worker() {
  if (process_ > 0) end(process_);
}

void Worker::send(Message request) {
  request.fields[kNumber] = ++number_;
  try {
    channel_->send(request);
  } catch (const Disconnected&) {
    // receive() says why
  }
}

Worker::Answer Worker::receive(Seconds timeout, int64_t most_bytes) {
  const auto start = std::chrono::steady_clock::now();
  const auto is_late = [&] { return std::chrono::steady_clock::now() - start >= timeout; };
  // What the path forked may hold the connection.
  const auto has_ended = [&] { return ends_within(process_, Seconds(0)); };
  try {
    auto message = channel_->receive([&] { return gives_up_() || is_late() || has_ended(); }, most_bytes);
    if (message && !answers(*message, number_)) throw Nonsense("an answer to no request");
    if (message) return {.message = std::move(message), .death = {}};
  } catch (const Disconnected&) {
    return {.message = {}, .death = death()};
  } catch (const Nonsense&) {
    return {.message = {}, .death = Death{.kind = VerdictKind::kCrashed, .reason = std::string(kNonsense)}};
  }
  if (gives_up_()) return {};
  if (has_ended()) return {.message = {}, .death = death()};
  end(std::exchange(process_, -1));
  return {.message = {},
          .death = Death{.kind = VerdictKind::kTimeout,
                         .reason = fmt::format("the path did not return within {:.3g} s, in {}",
                                               timeout.count(), channel_->step())}};
}

Worker::Death Worker::death() {
  const bool has_ended = ends_within(process_, kEnd);
  const std::optional<int> status = end(std::exchange(process_, -1));
  if (has_ended && channel_->step() == kDisconnected)
    return {.kind = VerdictKind::kCrashed, .reason = std::string(kClosed)};
  if (has_ended && status) {
    return {.kind = VerdictKind::kCrashed,
            .reason = fmt::format("{} in {}", how_it_ended(*status), channel_->step())};
  }
  return {.kind = VerdictKind::kTimeout,
          .reason = fmt::format("{}, and did not end within {:.3g} s, in {}", kClosed, kEnd.count(),
                                channel_->step())};
}

std::unique_ptr<Channel> become_worker(pid_t parent) {
  // The parent may have died before: then nothing would tell this process. The signal comes with
  // the end of the thread that started it, which is the main thread.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int program = descriptor_of(parent);
  if (getppid() != parent) _exit(1);
  int type = 0;
  socklen_t size = sizeof(type);
  if (getsockopt(kSocket, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || fcntl(kMemory, F_GET_SEALS) < 0)
    throw usage_error("only the program itself starts a worker");
  for (int descriptor : {kSocket, kMemory}) fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  end_group_with(program);
  close(program);
  allow_large_files();
  limits_at_start();
  const rlimit no_core{.rlim_cur = 0, .rlim_max = 0};
  setrlimit(RLIMIT_CORE, &no_core);
  std::ofstream("/proc/self/oom_score_adj") << 1000;  // the first to end if memory is short
  return std::make_unique<Channel>(kSocket, kMemory);
}

bool has_lowered_limits() {
  const auto &before = limits_at_start(), now = limits();
  return !std::ranges::equal(now, before, std::ranges::greater_equal());
}

void end_disconnected(Channel& channel) {
  channel.set_step(kDisconnected);
  _exit(1);
}

namespace {

// [bytes] Memory that RLIMIT_DATA counts. Tensors with large strides map more than they use. A
// stream would take 20 us longer, and this is asked for each case.
double mapped_data() {
  char text[128] = {};
  const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t length = read(file, text, sizeof(text) - 1);
  close(file);
  long pages = 0;
  if (length <= 0 || std::sscanf(text, "%*d %*d %*d %*d %*d %ld", &pages) != 1) return 0;
  return static_cast<double>(pages) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

void limit_data(double bytes) {
  static const rlim_t most = [] {
    rlimit limit{};
    getrlimit(RLIMIT_DATA, &limit);
    return limit.rlim_max;
  }();
  const rlimit limit{.rlim_cur = bytes < static_cast<double>(most) ? static_cast<rlim_t>(bytes) : most,
                     .rlim_max = most};
  setrlimit(RLIMIT_DATA, &limit);
}

}  // namespace

MemoryLimit::MemoryLimit() {
  static const double available = available_host_memory();
  constexpr double kSets = 4;  // of tensors, with those of states and of the tuner
  limit_data(available + kSets * mapped_data());
}

MemoryLimit::~MemoryLimit() {
  limit_data(HUGE_VAL);
}

}  // namespace assay
