// SPDX-License-Identifier: Apache-2.0
#include "kernels/core/read_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "kernels/core/error.h"
#include "kernels/core/printable.h"

namespace assay {
namespace {

Error failure(const std::filesystem::path& path, std::string_view why) {
  return usage_error("cannot read {}: {}", excerpt(path.string()), why);
}

Error system_failure(const std::filesystem::path& path) {
  return failure(path, std::strerror(errno));
}

Error too_long(const std::filesystem::path& path, int64_t most) {
  return failure(path, fmt::format("it has more than {} bytes, which is the limit", most));
}

// A descriptor of a regular file.
class RegularFile {
 public:
  explicit RegularFile(const std::filesystem::path& path) : path_(path) {
    // Opening a pipe waits for its writer without O_NONBLOCK.
    descriptor_ = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (descriptor_ < 0) throw system_failure(path);
  }
  ~RegularFile() { close(descriptor_); }
  RegularFile(const RegularFile&) = delete;
  RegularFile& operator=(const RegularFile&) = delete;

  // Reads as much as the file says that it has. Some files of /proc say 0 and never end.
  std::string read_all(int64_t most) const {
    struct stat status {};
    if (fstat(descriptor_, &status) != 0) throw system_failure(path_);
    if (S_ISDIR(status.st_mode)) throw failure(path_, std::strerror(EISDIR));
    if (!S_ISREG(status.st_mode)) throw failure(path_, "it is not a regular file");
    if (status.st_size > most) throw too_long(path_, most);
    std::string content(static_cast<size_t>(status.st_size), '\0');
    size_t done = 0;
    while (done < content.size()) {
      const ssize_t count = read(descriptor_, content.data() + done, content.size() - done);
      if (count < 0 && errno != EINTR) throw system_failure(path_);
      if (count == 0) break;
      done += static_cast<size_t>(std::max<ssize_t>(count, 0));
    }
    content.resize(done);
    return content;
  }

 private:
  std::filesystem::path path_;
  int descriptor_;
};

std::string read_standard_input(int64_t most) {
  constexpr size_t kStep = 1 << 16;  // [bytes]
  const std::filesystem::path name = "the standard input";
  std::string content;
  for (;;) {
    pollfd waiting{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    if (poll(&waiting, 1, -1) < 0) throw system_failure(name);
    const size_t done = content.size();
    content.resize(done + kStep);
    const ssize_t count = read(STDIN_FILENO, content.data() + done, kStep);
    if (count < 0 && errno != EAGAIN) throw system_failure(name);
    content.resize(done + static_cast<size_t>(std::max<ssize_t>(count, 0)));
    if (count == 0) return content;
    if (static_cast<int64_t>(content.size()) > most) throw too_long(name, most);
  }
}

}  // namespace

std::string read_file(const std::filesystem::path& path, int64_t most) {
  return path == "-" ? read_standard_input(most) : RegularFile(path).read_all(most);
}

}  // namespace assay
