// SPDX-License-Identifier: Apache-2.0
#include "properties/core/worker.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <random>
#include <thread>

#include "properties/core/limits.h"
#include "properties/core/said_json.h"

namespace assay {
namespace {

constexpr int kFree = 10;       // the first descriptor that no worker uses
constexpr Seconds kStart{60};   // for a worker to become ready
constexpr int kMostStarts = 3;  // of a worker that dies before it is ready
constexpr Seconds kEnd{1};      // for a process to end that has closed its channel

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

// What the step is called in which a worker has lost its connection.
constexpr std::string_view kDisconnected = "disconnected";

bool answers(const Message& message, int64_t request) {
  const auto number = message.fields.find(kNumber);
  return number != message.fields.end() && number->is_number_integer() && *number == request;
}

template <class... Args>
Verdict verdict(VerdictKind kind, FormatOf<Args...> format, const Args&... args) {
  return {.kind = kind, .reason = fmt::vformat(format.text, fmt::make_format_args(args...)), .outputs = {}};
}

std::string how_it_ended(int status) {
  if (WIFEXITED(status))
    return fmt::format("the path ended its process with exit status {}", WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  const char* name = sigabbrev_np(signal);
  return fmt::format("the path's process died of SIG{}{}", name == nullptr ? std::to_string(signal) : name,
                     signal == SIGKILL ? ", perhaps for want of memory," : "");
}

// libtbb stops or waits for ever where one of its threads cannot start.
Verdict no_threads() {
  return verdict(VerdictKind::kSkipped,
                 "threads do not start; there may be too little memory (ulimit -v) "
                 "or too few processes (ulimit -u)");
}

}  // namespace

Verdict nonsense() {
  return verdict(VerdictKind::kCrashed, "the path damaged its process, whose answer makes no sense");
}

Worker::Worker(std::vector<std::string> arguments, std::function<bool()> gives_up)
    : gives_up_(std::move(gives_up)) {
  arguments.push_back(std::to_string(getpid()));
  Answer ready;
  int starts = 0;
  do {
    start([&](int socket, int memory) { return start_program(arguments, socket, memory); });
    ready = receive(kStart);
  } while (++starts < kMostStarts && ready.death && ready.death->kind == VerdictKind::kCrashed);
  if (ready.death) throw Error("a worker did not start: {}", ready.death->reason);
  if (ready.message && ready.message->fields.contains("error"))
    throw device_error("{}", ready.message->fields["error"].get<std::string>());
  number_ = std::random_device()();  // which no path guesses
}

Worker::Worker(const std::function<Message(Channel&)>& answer)
    : gives_up_([] { return false; }), number_(std::random_device()()) {
  const auto answer_once = [&, program = getpid()] {
    const auto channel = become_worker(program);
    const pid_t copy = getpid();
    Message message = answer(*channel);
    if (getpid() != copy) _exit(0);  // a copy that the path made: nobody has asked it
    try {
      send_answer(*channel, std::move(message), number_);
    } catch (const Disconnected&) {
      end_disconnected(*channel);
    }
    for (;;) pause();
  };
  start([&](int socket, int memory) { return start_copy(answer_once, socket, memory); });
}

void Worker::start(const std::function<pid_t(int socket, int memory)>& start_process) {
  std::signal(SIGCHLD, SIG_DFL);  // if it is ignored, no status is kept
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw Error("a worker needs a socket: {}", std::strerror(errno));
  Descriptor own(ends[0], "a socket"), given(ends[1], "a socket");
  Descriptor memory(memfd_create(mark_of_workers().c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING),
                    "shared memory");
  // Memory that shrank under its mapping would end this process.
  if (fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) != 0)
    throw Error("shared memory cannot be sealed: {}", std::strerror(errno));
  const Descriptor high_socket(moved_up(given.get()), "a socket");
  const Descriptor high_memory(moved_up(memory.get()), "shared memory");
  channel_ = std::make_unique<Channel>(own.release(), memory.release());
  channel_->set_step("the start of the program");
  process_ = start_process(high_socket.get(), high_memory.get());
  asked_ = std::chrono::steady_clock::now();
}

Worker::~Worker() {
  if (process_ > 0) end_group(process_);
}

void Worker::send(Message request) {
  request.fields[kNumber] = ++number_;
  try {
    channel_->send(request);
  } catch (const Disconnected&) {
    // receive() says why
  }
  asked_ = std::chrono::steady_clock::now();
}

Worker::Answer Worker::receive(Seconds timeout, int64_t most_bytes) {
  if (has_given_up_) return {};
  const auto is_late = [&] { return std::chrono::steady_clock::now() - asked_ >= timeout; };
  // What the path forked may hold the connection.
  const auto has_ended = [&] { return ends_within(process_, Seconds(0)); };
  try {
    auto message = channel_->receive([&] { return gives_up_() || is_late() || has_ended(); }, most_bytes);
    if (message && !answers(*message, number_)) throw Nonsense("an answer to no request");
    if (message) return {.message = std::move(message), .death = {}};
  } catch (const Disconnected&) {
    return {.message = {}, .death = death()};
  } catch (const Nonsense&) {
    return {.message = {}, .death = nonsense()};
  }
  if (gives_up_()) {
    has_given_up_ = true;  // what comes later is no answer to a later request
    return {};
  }
  if (has_ended()) return {.message = {}, .death = death()};
  end_group(std::exchange(process_, -1));
  if (channel_->step() == kStartOfThreads) return {.message = {}, .death = no_threads()};
  return {.message = {},
          .death = verdict(VerdictKind::kTimeout, "the path did not return within {:.3g} s, in {}",
                           timeout.count(), channel_->step())};
}

Verdict Worker::death() {
  const bool has_ended = ends_within(process_, kEnd);
  const std::optional<int> status = end_group(std::exchange(process_, -1));
  const std::string step = channel_->step();
  if (step == kStartOfThreads) return no_threads();
  if (has_ended && step == kDisconnected) return verdict(VerdictKind::kCrashed, "{}", kClosed);
  if (has_ended && status) return verdict(VerdictKind::kCrashed, "{} in {}", how_it_ended(*status), step);
  return verdict(VerdictKind::kTimeout, "{}, and did not end within {:.3g} s, in {}", kClosed, kEnd.count(),
                 step);
}

std::unique_ptr<Channel> become_worker(pid_t parent) {
  // The parent may have died before: then nothing would tell this process. The signal comes with
  // the end of the thread that started it, which is the main thread.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int program = descriptor_of(parent);
  if (getppid() != parent) _exit(1);
  int type = 0;
  socklen_t size = sizeof(type);
  if (getsockopt(kWorkerSocket, SOL_SOCKET, SO_TYPE, &type, &size) != 0 ||
      fcntl(kWorkerMemory, F_GET_SEALS) < 0)
    throw usage_error("only the program itself starts a worker");
  for (int descriptor : {kWorkerSocket, kWorkerMemory}) fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  end_group_with(program);
  close(program);
  std::signal(SIGPIPE, SIG_IGN);  // what a path prints may have no reader
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  set_limits();
  std::ofstream("/proc/self/oom_score_adj") << 1000;  // the first to end if memory is short
  return std::make_unique<Channel>(kWorkerSocket, kWorkerMemory);
}

void send_answer(Channel& channel, Message answer, const nlohmann::ordered_json& number) {
  std::fflush(stdout);  // what the path has printed
  answer.fields[kNumber] = number;
  try {
    channel.send(answer);
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kDevice) throw;
    answer = {.fields = to_json(Said{.verdict = no_memory(error.what())}), .tensors = {}};
    answer.fields[kNumber] = number;
    channel.send(answer);
  }
}

void end_disconnected(Channel& channel) {
  channel.set_step(kDisconnected);
  _exit(1);
}

}  // namespace assay
