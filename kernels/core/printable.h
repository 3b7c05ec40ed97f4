// SPDX-License-Identifier: Apache-2.0
// Text from outside (a file, an argument, an exception of a library), for a message.
#pragma once

#include <cstddef>
#include <exception>
#include <string>
#include <string_view>

namespace assay {

// The text, with every byte that cannot be shown (control characters, broken UTF-8) written as
// \x1b.
std::string printable(std::string_view text);

// printable(), without its middle if that has more than so many bytes.
std::string excerpt(std::string_view text, size_t most = 200);

// What an exception says of itself. That of a path may be a null pointer.
std::string_view message_of(const std::exception& error);

}  // namespace assay
