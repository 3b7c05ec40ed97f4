// SPDX-License-Identifier: Apache-2.0
#include "reports/render/markdown_text.h"

#include <algorithm>

#include "reports/render/text.h"

namespace assay::markdown {
namespace {

constexpr size_t kTextLimit = 600;  // [bytes] of one reason or name

}  // namespace

std::string escape(std::string_view text) {
  std::string escaped;
  for (char c : clipped(printable(text), kTextLimit)) {
    if (c == '<') {
      escaped += "&lt;";
    } else if (c == '&') {
      escaped += "&amp;";
    } else {
      if (std::string_view("\\`*_[]|#~>@").find(c) != std::string_view::npos) escaped += '\\';
      escaped += c;
    }
  }
  return escaped;
}

std::string code(std::string_view text) {
  std::string shown = clipped(printable(text), kTextLimit);
  std::ranges::replace(shown, '`', '\'');
  std::ranges::replace(shown, '|', '/');
  return "`" + shown + "`";
}

std::string rows_within(const std::vector<std::string>& rows, size_t share, std::string_view elsewhere) {
  std::string text;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (text.size() + rows[i].size() > share)
      return text + fmt::format("\n… and {} more in {}\n", rows.size() - i, elsewhere);
    text += rows[i];
  }
  return text;
}

}  // namespace assay::markdown
