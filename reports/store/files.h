// SPDX-License-Identifier: Apache-2.0
// Files that are either whole or absent.
#pragma once

#include <filesystem>
#include <span>
#include <string_view>

namespace assay {

// Writes a temporary file in the same directory, flushes it to the disk and renames it. If that
// fails (no such directory, full disk, ...), it throws Error (usage) with the path and the system's
// reason, and the old file stays. Refuses an existing path that is not a regular file.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);
// The same for contents in several parts.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::string_view> parts);

// Creates the directory and its parents. Throws Error (usage) unless the result is a directory that
// we may write to.
void make_output_directory(const std::filesystem::path& path);

}  // namespace assay
