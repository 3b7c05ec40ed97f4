// SPDX-License-Identifier: Apache-2.0
// A file to which one process at a time appends.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace assay {

// The lock ends with the process, however that ends. All members throw Error (usage) with the path
// and the system's reason if the system refuses.
class LockedFile {
 public:
  // Opens the file, or creates it. Nothing if another process holds it.
  static std::optional<LockedFile> open(const std::filesystem::path& path);
  // Whether a process holds the file. It need not be one that we may write to.
  static bool is_held(const std::filesystem::path& path);
  // A file without a name, which is in memory.
  static LockedFile in_memory();

  LockedFile(LockedFile&& other) noexcept;
  LockedFile& operator=(LockedFile&&) = delete;
  ~LockedFile();

  // Appends by one write, so that whoever reads the file meanwhile finds no part of a line, except
  // in a process that died while it wrote, or on a full disk.
  void append(std::string_view text);
  void cut(size_t bytes);  // keeps the first bytes
  int64_t size() const;    // [bytes]
  std::string content() const;
  void remove();  // from its folder

 private:
  LockedFile(int descriptor, std::filesystem::path path) : descriptor_(descriptor), path_(std::move(path)) {}

  int descriptor_;
  std::filesystem::path path_;  // empty if it has no name
};

}  // namespace assay
