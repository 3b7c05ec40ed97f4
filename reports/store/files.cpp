// SPDX-License-Identifier: Apache-2.0
#include "reports/store/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "kernels/core/error.h"
#include "kernels/core/printable.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

// A file that is removed in the end unless it was renamed.
class TemporaryFile {
 public:
  // Errors name `target`, which is the file that the user asked for.
  explicit TemporaryFile(const fs::path& target) : target_(target) {
    for (int attempt = 0; descriptor_ < 0; ++attempt) {
      path_ = fmt::format("{}.{}.{}.tmp", target.string(), getpid(), attempt);
      descriptor_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (descriptor_ < 0 && errno != EEXIST) throw failure();
    }
  }
  ~TemporaryFile() {
    if (descriptor_ >= 0) close(descriptor_);
    if (!renamed_) unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  void append(std::string_view content) {
    while (!content.empty()) {
      const ssize_t written = write(descriptor_, content.data(), content.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) throw failure();
      content.remove_prefix(static_cast<size_t>(written));
    }
  }

  void rename_to_target() {
    if (fsync(descriptor_) != 0) throw failure();
    if (close(std::exchange(descriptor_, -1)) != 0) throw failure();
    if (rename(path_.c_str(), target_.c_str()) != 0) throw failure();
    renamed_ = true;
  }

 private:
  Error failure() const {
    return usage_error("cannot write {}: {}", excerpt(target_.string()), std::strerror(errno));
  }

  fs::path target_;
  std::string path_;
  int descriptor_ = -1;
  bool renamed_ = false;
};

}  // namespace

void write_file_atomically(const fs::path& path, std::span<const std::string_view> parts) {
  std::error_code error, ignored;
  // Renaming to a link, a device or a directory would replace it by a file.
  const fs::path target = fs::is_symlink(path, ignored) ? fs::weakly_canonical(path, error) : path;
  if (error) throw usage_error("cannot write {}: {}", excerpt(path.string()), error.message());
  if (fs::exists(target, ignored) && !fs::is_regular_file(target, ignored)) {
    throw usage_error("cannot write {}: it is there and is not a regular file", excerpt(path.string()));
  }
  TemporaryFile file(target);
  for (std::string_view part : parts) file.append(part);
  file.rename_to_target();
}

void write_file_atomically(const fs::path& path, std::string_view content) {
  write_file_atomically(path, std::span(&content, 1));
}

void make_output_directory(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw usage_error("cannot create the directory {}: {}", excerpt(path.string()), error.message());
  if (!fs::is_directory(path, error)) throw usage_error("{} is not a directory", excerpt(path.string()));
  if (access(path.c_str(), W_OK | X_OK) != 0) {
    throw usage_error("cannot write to the directory {}: {}", excerpt(path.string()), std::strerror(errno));
  }
}

}  // namespace assay
