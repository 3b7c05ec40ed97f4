// SPDX-License-Identifier: Apache-2.0
#include "reports/render/columns.h"

#include <fmt/format.h>

#include <algorithm>

#include "reports/render/text.h"

namespace assay {
namespace {

constexpr std::string_view kGap = "  ";
constexpr std::string_view kReset = "\x1b[0m";

size_t width_of(const Column& column) {
  size_t widest = columns_of(column.title);
  for (const std::string& cell : column.cells) widest = std::max(widest, columns_of(cell));
  return widest;
}

std::string padded(const std::string& cell, const Column& column, std::string_view colour, size_t width) {
  const std::string space(width - columns_of(cell), ' ');
  const std::string text = colour.empty() ? cell : fmt::format("{}{}{}", colour, cell, kReset);
  return column.right ? space + text : text + space;
}

}  // namespace

size_t width_of(const std::vector<Column>& columns) {
  size_t width = 0;
  for (const Column& column : columns) width += width_of(column) + (width == 0 ? 0 : kGap.size());
  return width;
}

std::string align_columns(std::vector<Column> columns, bool colour, int width) {
  if (columns.front().cells.empty()) return "";
  const auto is_empty = [](const Column& column) {
    return std::ranges::all_of(column.cells, [](const std::string& cell) { return cell == "–"; });
  };
  columns.erase(std::remove_if(columns.begin() + 1, columns.end(), is_empty), columns.end());
  while (columns.size() > 1 && width_of(columns) > static_cast<size_t>(std::max(width, 0))) {
    columns.erase(std::ranges::min_element(columns, {}, &Column::importance));
  }
  std::vector<std::string> lines(columns.front().cells.size() + 1);
  for (const Column& column : columns) {
    const size_t column_width = width_of(column);
    for (size_t i = 0; i < lines.size(); ++i) {
      if (!lines[i].empty()) lines[i] += kGap;
      const std::string& cell = i == 0 ? column.title : column.cells[i - 1];
      const bool coloured = colour && i > 0 && !column.colours.empty();
      lines[i] += padded(cell, column, coloured ? column.colours[i - 1] : "", column_width);
    }
  }
  std::string text;
  for (std::string& line : lines) {
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace assay
