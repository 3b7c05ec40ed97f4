// SPDX-License-Identifier: Apache-2.0
// Parses the names, integers and lists of the command line.
#pragma once

#include <fmt/ranges.h>

#include <charconv>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "kernels/core/did_you_mean.h"
#include "kernels/core/error.h"
#include "kernels/core/printable.h"

namespace assay {

// The parts between separators, one more than there are separators.
std::vector<std::string_view> split(std::string_view text, char separator);

// Both throw Error (usage) that names the field and the text.
template <class Enum>
Enum parse_name(std::string_view field, std::string_view text, std::span<const Enum> values) {
  std::vector<std::string> names;
  for (Enum value : values) {
    if (text == name_of(value)) return value;
    names.emplace_back(name_of(value));
  }
  throw usage_error("{}={} is not one of {}{}", excerpt(field), excerpt(text), fmt::join(names, ", "),
                    did_you_mean(text, names));
}

template <class Integer>
Integer parse_integer(std::string_view field, std::string_view text) {
  Integer value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw usage_error("{}={} is not a {} integer", excerpt(field), excerpt(text),
                      std::is_signed_v<Integer> ? "64-bit" : "non-negative 64-bit");
  }
  return value;
}

}  // namespace assay
