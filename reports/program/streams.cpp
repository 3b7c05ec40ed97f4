// SPDX-License-Identifier: Apache-2.0
#include "reports/program/streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <initializer_list>

namespace assay {
namespace {

ssize_t write_or_drop(void*, const char* text, size_t size) {
  for (size_t done = 0; done < size;) {
    const ssize_t written = write(STDERR_FILENO, text + done, size - done);
    if (written < 0 && errno != EINTR) break;
    if (written > 0) done += static_cast<size_t>(written);
  }
  return static_cast<ssize_t>(size);
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
  // fmt::print throws where a write to a stream fails. This one has none that fail.
  static FILE* const lossy =
      fopencookie(nullptr, "w", {.read = nullptr, .write = write_or_drop, .seek = nullptr, .close = nullptr});
  if (lossy == nullptr || stderr == lossy) return;
  std::setvbuf(lossy, nullptr, _IONBF, 0);
  stderr = lossy;
}

}  // namespace assay
