// SPDX-License-Identifier: Apache-2.0
#include "reports/store/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <list>
#include <utility>

#include "kernels/core/error.h"
#include "kernels/core/printable.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

// Renaming to a link, a device or a directory would replace it by a file.
fs::path target_of(const fs::path& path) {
  std::error_code error, ignored;
  const fs::path target = fs::is_symlink(path, ignored) ? fs::weakly_canonical(path, error) : path;
  if (error) throw usage_error("cannot write {}: {}", excerpt(path.string()), error.message());
  if (fs::exists(target, ignored) && !fs::is_regular_file(target, ignored)) {
    throw usage_error("cannot write {}: it is there and is not a regular file", excerpt(path.string()));
  }
  return target;
}

// A file that is gone in the end unless it was named as its target. Until then it has no name, so
// that a killed process leaves nothing. It has one where the file system wants that, and for a
// moment where the target is there already.
class TemporaryFile {
 public:
  // Errors name the target, which is the file that the user asked for.
  explicit TemporaryFile(const fs::path& path) : target_(target_of(path)) {
    const fs::path folder = target_.has_parent_path() ? target_.parent_path() : ".";
    descriptor_ = open(folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
    if (descriptor_ < 0) {
      with_new_name(
          [&] { return descriptor_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666); });
    }
  }
  ~TemporaryFile() {
    if (descriptor_ >= 0) close(descriptor_);
    if (!is_named_ && !path_.empty()) unlink(path_.c_str());
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

  void flush() {
    if (fsync(descriptor_) != 0) throw failure();
  }

  void name_as_target() {
    if (path_.empty()) {
      const std::string here = fmt::format("/proc/self/fd/{}", descriptor_);
      const auto link = [&](const std::string& name) {
        return linkat(AT_FDCWD, here.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW);
      };
      if (link(target_) == 0) {
        is_named_ = true;
        return;
      }
      with_new_name([&] { return link(path_); });
    }
    if (rename(path_.c_str(), target_.c_str()) != 0) throw failure();
    is_named_ = true;
  }

 private:
  // Calls `create` with other names in `path_` until it finds one that is free.
  template <class Create>
  void with_new_name(const Create& create) {
    for (int attempt = 0;; ++attempt) {
      path_ = fmt::format("{}.{}.{}.tmp", target_.string(), getpid(), attempt);
      if (create() >= 0) return;
      if (errno == EEXIST) continue;
      path_.clear();
      throw failure();
    }
  }

  Error failure() const {
    return usage_error("cannot write {}: {}", excerpt(target_.string()), std::strerror(errno));
  }

  fs::path target_;
  std::string path_;
  int descriptor_ = -1;
  bool is_named_ = false;
};

}  // namespace

void write_file_atomically(const fs::path& path, std::span<const std::string_view> parts) {
  TemporaryFile file(path);
  for (std::string_view part : parts) file.append(part);
  file.flush();
  file.name_as_target();
}

void write_file_atomically(const fs::path& path, std::string_view content) {
  write_file_atomically(path, std::span(&content, 1));
}

void write_files_atomically(std::span<const NamedContent> files) {
  std::list<TemporaryFile> whole;
  for (const auto& [path, content] : files) {
    whole.emplace_back(path).append(content);
  }
  for (TemporaryFile& file : whole) file.flush();
  for (TemporaryFile& file : whole) file.name_as_target();
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
