// SPDX-License-Identifier: Apache-2.0
#include "reports/store/locked_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "kernels/core/error.h"

namespace assay {
namespace {

Error failure(std::string_view what, const std::filesystem::path& path) {
  return usage_error("cannot {} {}: {}", what, path.empty() ? "the journal in memory" : path.string(),
                     std::strerror(errno));
}

// Whether the path still names the opened file. Its last owner may have removed it meanwhile.
bool is_named(int descriptor, const std::filesystem::path& path) {
  struct stat opened {
  }, named{};
  return fstat(descriptor, &opened) == 0 && stat(path.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

}  // namespace

std::optional<LockedFile> LockedFile::open(const std::filesystem::path& path) {
  for (;;) {
    const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
    if (descriptor < 0) throw failure("write", path);
    LockedFile file(descriptor, path);
    struct stat opened {};
    if (fstat(descriptor, &opened) == 0 && !S_ISREG(opened.st_mode))
      throw usage_error("cannot write {}: it is there and is not a regular file", path.string());
    if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) return std::nullopt;
      throw failure("lock", path);
    }
    if (is_named(descriptor, path)) return file;
  }
}

bool LockedFile::is_held(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  const bool is_held = descriptor >= 0 && flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (descriptor >= 0) close(descriptor);
  return is_held;
}

LockedFile LockedFile::in_memory() {
  const int descriptor = memfd_create("journal", MFD_CLOEXEC);
  if (descriptor < 0) throw failure("create", "a file in memory");
  return {descriptor, {}};
}

LockedFile::LockedFile(LockedFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), path_(std::move(other.path_)) {}

LockedFile::~LockedFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

void LockedFile::append(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(descriptor_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw failure("write", path_);
    text.remove_prefix(static_cast<size_t>(written));
  }
}

void LockedFile::cut(size_t bytes) {
  if (ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0) throw failure("cut", path_);
}

int64_t LockedFile::size() const {
  struct stat opened {};
  if (fstat(descriptor_, &opened) != 0) throw failure("read", path_);
  return opened.st_size;
}

std::string LockedFile::content() const {
  std::string text;
  for (;;) {
    char part[1 << 16];
    const ssize_t count = pread(descriptor_, part, sizeof(part), static_cast<off_t>(text.size()));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw failure("read", path_);
    if (count == 0) return text;
    text.append(part, static_cast<size_t>(count));
  }
}

void LockedFile::remove() {
  if (!path_.empty() && unlink(path_.c_str()) != 0) throw failure("remove", path_);
}

}  // namespace assay
