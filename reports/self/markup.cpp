// SPDX-License-Identifier: Apache-2.0
#include "reports/self/markup.h"

#include <fmt/format.h>

#include <regex>
#include <vector>

namespace assay {
namespace {

// Text without markup: no control characters, and an ampersand only where an entity begins.
bool is_plain(const std::string& text) {
  static const std::regex kEntity("&(amp|lt|gt|quot|apos|#[0-9]+);");
  const std::string rest = std::regex_replace(text, kEntity, "");
  for (char c : rest) {
    const bool control = static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' && c != '\r';
    if (control || c == '&' || c == '<') return false;
  }
  return rest.find("]]>") == std::string::npos;
}

}  // namespace

std::string markup_fault(std::string_view document) {
  static const std::regex kTag("(/?)([a-zA-Z]+)((\\s+[a-z]+=\"[^\"<]*\")*)\\s*(/?)");
  if (document.starts_with("<?xml ")) document.remove_prefix(document.find("?>") + 2);
  std::vector<std::string> open;
  int roots = 0;
  for (size_t at = 0; at < document.size();) {
    const size_t begin = std::min(document.find('<', at), document.size());
    const std::string text(document.substr(at, begin - at));
    if (!is_plain(text)) return fmt::format("at {}: text '{}'", at, text);
    if (begin == document.size()) break;
    const size_t end = document.find('>', begin);
    const std::string tag(document.substr(begin + 1, end - begin - 1));
    std::smatch match;
    if (end == std::string_view::npos || !std::regex_match(tag, match, kTag) || !is_plain(match[3])) {
      return fmt::format("at {}: tag '{}'", begin, tag);
    }
    if (match[1] == "/") {
      if (open.empty() || open.back() != match[2]) return fmt::format("at {}: '{}' ends nothing", begin, tag);
      open.pop_back();
    } else {
      if (open.empty()) ++roots;
      if (match[5] != "/") open.push_back(match[2]);
    }
    at = end + 1;
  }
  if (!open.empty()) return fmt::format("'{}' has no end", open.back());
  return roots == 1 ? "" : fmt::format("{} root elements", roots);
}

}  // namespace assay
