// SPDX-License-Identifier: Apache-2.0
#include "reports/scaffold/templates.h"

#include "kernels/core/error.h"

namespace assay {
namespace {

// The fields of the item come before those of the text.
std::string fill_line(std::string_view line, const Fields& item, const Fields& fields) {
  std::string filled;
  for (size_t begin = line.find('@'); begin != std::string_view::npos; begin = line.find('@')) {
    const size_t end = line.find('@', begin + 1);
    const std::string name(line.substr(begin + 1, end - begin - 1));
    const bool is_of_item = item.contains(name);
    if (!is_of_item && !fields.contains(name)) throw Error("a template has no field '{}'", name);
    filled += line.substr(0, begin);
    filled += is_of_item ? item.at(name) : fields.at(name);
    line.remove_prefix(end + 1);
  }
  return filled += line;
}

}  // namespace

std::string fill(std::string_view text, const Fields& fields, const Lists& lists) {
  constexpr std::string_view kEach = "@each ";
  std::string filled;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end == std::string_view::npos ? end : end + 1);
    text.remove_prefix(line.size());
    if (!line.starts_with(kEach)) {
      filled += fill_line(line, {}, fields);
      continue;
    }
    line.remove_prefix(kEach.size());
    const std::string list(line.substr(0, line.find('@')));
    line.remove_prefix(list.size() + 1);
    if (!lists.contains(list)) throw Error("a template has no list '{}'", list);
    for (const Fields& item : lists.at(list)) filled += fill_line(line, item, fields);
  }
  return filled;
}

}  // namespace assay
