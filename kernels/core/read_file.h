// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace assay {

// [bytes] The longest text that is read. A JSON document takes up to sixteen times its text.
inline constexpr int64_t kMostText = int64_t{256} << 20;

// The content of a regular file, or what the standard input gives for "-". Throws Error (usage)
// with the path and the reason if that cannot be read or has more than `most` bytes. Refuses pipes,
// devices and directories, some of which never end. A signal that is handled ends the wait for
// the standard input.
std::string read_file(const std::filesystem::path& path, int64_t most = kMostText);

}  // namespace assay
