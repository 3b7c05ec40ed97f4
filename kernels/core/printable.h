// SPDX-License-Identifier: Apache-2.0
// Text from outside (a file, an argument, an exception of a library), for a message.
#pragma once

#include <string>
#include <string_view>

namespace assay {

// The text, with every byte that cannot be shown (control characters, broken UTF-8) written as
// \x1b.
std::string printable(std::string_view text);

// printable(), without its middle if that has more than 200 bytes.
std::string excerpt(std::string_view text);

}  // namespace assay
