// SPDX-License-Identifier: Apache-2.0
#include "reports/self/mutation.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace assay {
namespace {

constexpr std::string_view kWords[] = {"1e999",
                                       "-1e999",
                                       "1e19",
                                       "-1",
                                       "0",
                                       "1e-400",
                                       "9223372036854775808",
                                       "18446744073709551616",
                                       "[",
                                       "]",
                                       "{",
                                       "}",
                                       "\"",
                                       ",",
                                       ":",
                                       "null",
                                       "true",
                                       "{}",
                                       "[]",
                                       "\"\"",
                                       "\\u001b",
                                       "\\ud800",
                                       "/",
                                       "=",
                                       "+",
                                       "//",
                                       "sum_{",
                                       "state=",
                                       "after:f32",
                                       "\n",
                                       "\x1b[2J",
                                       "\xff",
                                       "é",
                                       std::string_view("\0", 1),
                                       "__metadata__"};

void replace_number(std::string& text, size_t at, std::string_view word) {
  constexpr std::string_view kDigits = "0123456789";
  const size_t begin = text.find_first_of(kDigits, at);
  if (begin == std::string::npos) return;
  text.replace(begin, text.find_first_not_of(kDigits, begin) - begin, word);
}

}  // namespace

std::string with_length(std::string_view header, std::string_view data) {
  const uint64_t length = header.size();
  std::string content(sizeof length, '\0');
  std::memcpy(content.data(), &length, sizeof length);
  return content.append(header).append(data);
}

std::string Mutation::text(bool has_length) {
  const std::string& seed = (*seeds_)[below(seeds_->size())];
  const bool fits = has_length && seed.size() >= sizeof(uint64_t) && below(8) != 0;
  if (!fits) return changed(seed);
  uint64_t header = 0;
  std::memcpy(&header, seed.data(), sizeof header);
  const std::string rest = seed.substr(sizeof header);
  const std::string changed_rest = changed(rest);
  const size_t data = rest.size() - std::min<uint64_t>(header, rest.size());
  const size_t end = changed_rest.size() - std::min(data, changed_rest.size());
  return with_length(std::string_view(changed_rest).substr(0, end),
                     std::string_view(changed_rest).substr(end));
}

std::string Mutation::changed(std::string text) {
  do change(text);
  while (below(2) == 0);
  return text;
}

void Mutation::change(std::string& text) {
  const size_t at = below(text.size() + 1);
  const size_t length = std::min(1 + below(16), text.size() - at);
  const std::string_view word = kWords[below(std::size(kWords))];
  switch (below(8)) {
    case 0:
      if (at < text.size()) text[at] = static_cast<char>(below(256));
      break;
    case 1:
      text.insert(at, word);
      break;
    case 2:
      text.erase(at, length);
      break;
    case 3:
      text.replace(at, length, word);
      break;
    case 4:
      replace_number(text, at, word);
      break;
    case 5:
      repeat(text, at, length);
      break;
    case 6: {
      const std::string& other = (*seeds_)[below(seeds_->size())];
      text.insert(at, other, below(other.size() + 1), below(100));
      break;
    }
    case 7:
      if (below(4) == 0) text.resize(at);
      break;
  }
}

void Mutation::repeat(std::string& text, size_t at, size_t length) {
  const std::string part = text.substr(at, length);
  for (size_t times = below(200); times > 0; --times) text.insert(at, part);
}

}  // namespace assay
