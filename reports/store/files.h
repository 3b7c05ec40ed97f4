// SPDX-License-Identifier: Apache-2.0
// Files that are either whole or absent.
#pragma once

#include <filesystem>
#include <span>
#include <string_view>

namespace assay {

// Writes a file without a name in the same directory, flushes it to the disk and names it. If that
// fails (no such directory, full disk, ...), it throws Error (usage) with the path and the system's
// reason, and the old file stays. Refuses an existing path that is not a regular file.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);
// The same for contents in several parts.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::string_view> parts);

// Replaces several files as one: the first is renamed when all are whole. If that fails, all old
// files stay.
struct NamedContent {
  std::filesystem::path path;
  std::string content;
};
void write_files_atomically(std::span<const NamedContent> files);

// Creates the directory and its parents. Throws Error (usage) unless the result is a directory that
// we may write to.
void make_output_directory(const std::filesystem::path& path);

}  // namespace assay
