// SPDX-License-Identifier: Apache-2.0
#include "kernels/core/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace assay {
namespace {

unsigned char byte_at(std::string_view text, size_t i) {
  return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
}

// [bytes] The length of the UTF-8 character at the start of `text`; 0 if there is none, or if XML
// or a terminal does not take it.
size_t shown_length(std::string_view text) {
  const unsigned char first = byte_at(text, 0);
  if (first < 0x80) return first >= 0x20 && first != 0x7F ? 1 : 0;
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  uint32_t code = first & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte_at(text, i) & 0xC0) != 0x80) return 0;
    code = code << 6 | (byte_at(text, i) & 0x3Fu);
  }
  // Below 0xA0 are control characters.
  constexpr std::array<uint32_t, 5> kSmallest{0, 0, 0xA0, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  const bool noncharacter = (code & 0xFFFE) == 0xFFFE;
  const bool valid = first >= 0xC2 && code >= kSmallest[length] && code <= 0x10FFFF;
  return valid && !surrogate && !noncharacter ? length : 0;
}

// Whether a UTF-8 character goes on at `i`.
bool is_inside_character(std::string_view text, size_t i) {
  return (byte_at(text, i) & 0xC0) == 0x80;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const size_t length = shown_length(text);
    if (length == 0) {
      shown += fmt::format("\\x{:02x}", byte_at(text, 0));
    } else {
      shown += text.substr(0, length);
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return shown;
}

std::string excerpt(std::string_view text, size_t most) {
  // Of a text of any length only the ends are looked at. No character is longer than the margin.
  const size_t margin = most + 4;
  const bool is_huge = text.size() > 2 * margin;
  const std::string head = printable(is_huge ? text.substr(0, margin) : text);
  if (head.size() <= most) return head;
  const std::string tail = is_huge ? printable(text.substr(text.size() - margin)) : head;
  size_t start = most / 2, end = tail.size() - most / 5;
  while (is_inside_character(head, start)) --start;
  while (is_inside_character(tail, end)) ++end;
  return fmt::format("{}[... {} bytes ...]{}", head.substr(0, start), text.size(), tail.substr(end));
}

std::string_view message_of(const std::exception& error) {
  const char* const message = error.what();
  return message == nullptr ? "(its what() is null)" : message;
}

}  // namespace assay
