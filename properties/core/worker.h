// SPDX-License-Identifier: Apache-2.0
// A worker: this program, started anew, in which paths run. Whatever they do to it, the program
// that started it goes on.
//
// A worker has a process group of its own, no standard input, and the standard error as its
// standard output. It dies with the program that started it, and leaves neither a file nor memory
// nor processes that its path forked. Those that left the group end with the worker, unless the
// program is killed, or they have cleared the mark by which they are known (processes.h).
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "properties/core/channel.h"
#include "properties/core/processes.h"
#include "properties/core/verdict.h"

namespace assay {

// The verdict on an answer that no healthy worker gives.
Verdict nonsense();
// The step in which a worker that dies or does not return does so for want of threads. It takes
// place in a worker that has called no path.
inline constexpr std::string_view kStartOfThreads = "the start of threads";
// A field of requests. An answer has that of its request, so none is taken for another.
inline constexpr const char* kNumber = "number";

class Worker {
 public:
  // One of the two, or neither if the caller gave up. A death says what the worker's end tells of
  // the path, and in which step it came.
  struct Answer {
    std::optional<Message> message;
    std::optional<Verdict> death;
  };

  // Starts /proc/self/exe with these arguments and the process id of the caller after them. It has
  // to call become_worker(). If it dies before, it is started again. Throws Error (internal) if the
  // third one does not start either.
  Worker(std::vector<std::string> arguments, std::function<bool()> gives_up);
  // A copy of this process, which nobody need ask: receive() returns what `answer` returns there.
  // That may not throw.
  explicit Worker(const std::function<Message(Channel&)>& answer);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker();  // ends its whole process group

  void send(Message request);
  // The answer to the request, whose tensors have at most so many bytes. The timeout counts from
  // when the request was sent, or from the start if there was none. An answer that is there when
  // this is called is in time. After a death or giving up the worker is of no use. Throws as
  // Channel::receive() does for want of memory.
  Answer receive(Seconds timeout, int64_t most_bytes = 0);

 private:
  void start(const std::function<pid_t(int socket, int memory)>& start_process);
  Verdict death();  // of a process that has closed its end: a timeout if it goes on

  std::function<bool()> gives_up_;
  bool has_given_up_ = false;
  pid_t process_ = -1;
  std::unique_ptr<Channel> channel_;
  int64_t number_ = 0;  // of the last request; of a copy, which path cannot guess
  // When the last request was sent, or the worker was started.
  std::chrono::steady_clock::time_point asked_;
};

// Makes this process a worker of the process `parent`. Returns its end of the channel. What is
// printed from here on leaves the process line by line.
std::unique_ptr<Channel> become_worker(pid_t parent);

// Answers the request with this number; the answer is no_memory() if there is none for its tensors.
void send_answer(Channel& channel, Message answer, const nlohmann::ordered_json& number);

// Ends a worker that has lost its connection, so that its parent can tell.
[[noreturn]] void end_disconnected(Channel& channel);

}  // namespace assay
