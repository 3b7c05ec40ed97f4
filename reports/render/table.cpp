// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "reports/render/render.h"
#include "reports/render/summary.h"
#include "reports/render/text.h"

namespace assay {
namespace {

constexpr std::string_view kGap = "  ";
constexpr std::string_view kGreen = "\x1b[32m";
constexpr std::string_view kRed = "\x1b[31m";
constexpr std::string_view kReset = "\x1b[0m";

struct Column {
  std::string title;
  bool right;      // numbers are aligned to the right
  int importance;  // the least important column goes first when the terminal is narrow
  std::vector<std::string> cells;
  std::vector<std::string_view> colours;  // one per cell, or none at all

  size_t width() const;
};

// Columns that a text takes; every character of ours is one column wide.
size_t columns_of(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

size_t Column::width() const {
  size_t widest = columns_of(title);
  for (const std::string& cell : cells) widest = std::max(widest, columns_of(cell));
  return widest;
}

size_t width_of(const std::vector<Column>& columns) {
  size_t width = 0;
  for (const Column& column : columns) width += column.width() + (width == 0 ? 0 : kGap.size());
  return width;
}

std::vector<Column> fill(const std::vector<PathSummary>& paths) {
  Column name{"path", false, 10, {}, {}}, dtype{"dtype", false, 8, {}, {}},
      device{"device", false, 1, {}, {}};
  Column cases{"cases", true, 7, {}, {}}, pass{"pass", true, 7, {}, {}}, failed{"failed", true, 9, {}, {}};
  Column other{"not judged", true, 2, {}, {}}, error{"error/bound", true, 8, {}, {}},
      ulp{"max ulp", true, 3, {}, {}};
  Column problem{"timed problem", false, 4, {}, {}}, median{"median", true, 6, {}, {}};
  Column rate{"GB/s", true, 5, {}, {}}, floor{"of floor", true, 6, {}, {}};
  for (const PathSummary& path : paths) {
    name.cells.push_back(printable(path.op + "/" + path.path));
    dtype.cells.emplace_back(name_of(path.dtype));
    device.cells.push_back(printable(path.device));
    cases.cells.push_back(format_count(path.tally.all()));
    pass.cells.push_back(format_count(path.tally.pass));
    pass.colours.push_back(path.tally.pass > 0 ? kGreen : "");
    failed.cells.push_back(format_count(path.tally.failures()));
    failed.colours.push_back(path.tally.failures() > 0 ? kRed : "");
    other.cells.push_back(format_count(path.tally.unsupported + path.tally.skipped));
    error.cells.push_back(path.worst ? format_ratio(path.worst->max_error_over_bound) : "–");
    ulp.cells.push_back(path.worst ? format_number(path.worst->max_ulp) : "–");
    const Perf* perf = path.largest_timed != nullptr ? &*path.largest_timed->perf : nullptr;
    const std::optional<double> bytes_per_s = perf != nullptr ? bytes_per_second(*perf) : std::nullopt;
    problem.cells.push_back(perf != nullptr ? printable(format_dims(path.largest_timed->which.dims)) : "–");
    median.cells.push_back(perf != nullptr ? format_time(perf->median_ns) : "–");
    rate.cells.push_back(bytes_per_s ? format_number(*bytes_per_s * 1e-9) : "–");
    floor.cells.push_back(perf == nullptr     ? "–"
                          : perf->implausible ? "implausible"
                                              : format_percent(perf->fraction_of_floor));
  }
  return {name, dtype, device, cases, pass, failed, other, error, ulp, problem, median, rate, floor};
}

std::string padded(const std::string& cell, const Column& column, std::string_view colour, size_t width) {
  const std::string space(width - columns_of(cell), ' ');
  const std::string text = colour.empty() ? cell : fmt::format("{}{}{}", colour, cell, kReset);
  return column.right ? space + text : text + space;
}

}  // namespace

std::string render_table(const Record& record, bool colour, int width) {
  std::vector<Column> columns = fill(summarize(record));
  while (columns.size() > 1 && width_of(columns) > static_cast<size_t>(std::max(width, 0))) {
    columns.erase(std::ranges::min_element(columns, {}, &Column::importance));
  }
  const size_t rows = columns.front().cells.size();
  std::vector<std::string> lines(rows == 0 ? 0 : rows + 1);
  for (const Column& column : columns) {
    const size_t column_width = column.width();
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
  for (const NotRun& path : record.not_run) {
    text += fmt::format("{}/{} was not run: {}\n", printable(path.op), printable(path.path),
                        printable(path.reason));
  }
  return text;
}

}  // namespace assay
