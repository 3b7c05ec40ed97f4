// SPDX-License-Identifier: Apache-2.0
#include "reports/program/streams.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <initializer_list>

#include "reports/program/interrupt.h"

namespace assay {
namespace {

// Waits until the descriptor takes something; after an interruption, in which nobody may be left to
// read, for no more than a fifth of a second in all.
bool is_ready(int descriptor) {
  constexpr int kWait = 50;  // [ms]
  static std::atomic<int> last_waits = 4;
  for (;;) {
    pollfd ready{.fd = descriptor, .events = POLLOUT, .revents = 0};
    if (poll(&ready, 1, kWait) > 0) return true;  // also if writing fails
    if (is_interrupted() && --last_waits < 0) return false;
  }
}

// Writes what the descriptor takes, and drops the rest if that is no error. Returns the bytes that
// are done with. The descriptor may be non-blocking, by a path or by whoever shares it.
ssize_t write_or_drop(int descriptor, const char* text, size_t size, bool (*drops)(int error)) {
  for (size_t done = 0; done < size;) {
    ssize_t written = -1;
    // A pipe that takes something takes so much without waiting.
    if (is_ready(descriptor)) {
      written = write(descriptor, text + done, std::min<size_t>(size - done, PIPE_BUF));
    } else {
      errno = ETIMEDOUT;
    }
    if (written > 0) done += static_cast<size_t>(written);
    if (written >= 0 || errno == EINTR || errno == EAGAIN) continue;
    return drops(errno) ? static_cast<ssize_t>(size) : static_cast<ssize_t>(done);
  }
  return static_cast<ssize_t>(size);
}

ssize_t write_output(void*, const char* text, size_t size) {
  return write_or_drop(STDOUT_FILENO, text, size, [](int error) { return error == EPIPE; });
}
ssize_t write_error(void*, const char* text, size_t size) {
  return write_or_drop(STDERR_FILENO, text, size, [](int) { return true; });
}

FILE* stream_of(cookie_write_function_t* writer, int buffering) {
  FILE* stream =
      fopencookie(nullptr, "w", {.read = nullptr, .write = writer, .seek = nullptr, .close = nullptr});
  if (stream != nullptr) std::setvbuf(stream, nullptr, buffering, BUFSIZ);
  return stream;
}

}  // namespace

void prepare_streams() {
  for (int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free number is this one. Reading stdin, or writing the others, fails.
    if (open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0) return;
  }
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // of a limit on sizes; write() fails instead
  // fmt::print throws where a write to a stream fails.
  static FILE* const output = stream_of(write_output, isatty(STDOUT_FILENO) != 0 ? _IOLBF : _IOFBF);
  static FILE* const error = stream_of(write_error, _IONBF);
  if (output != nullptr) stdout = output;
  if (error != nullptr) stderr = error;
}

}  // namespace assay
