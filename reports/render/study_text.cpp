// SPDX-License-Identifier: Apache-2.0
// A study on a terminal and as Markdown.
#include <fmt/ranges.h>

#include "reports/render/columns.h"
#include "reports/render/study.h"
#include "reports/render/text.h"

namespace assay {
namespace {

// Plain text in a cell or a line of Markdown.
std::string escaped(std::string_view text) {
  std::string safe;
  for (char c : escape_markup(text)) {
    if (std::string_view("\\`*_[]|~").find(c) != std::string_view::npos) safe += '\\';
    safe += c;
  }
  return safe;
}

std::string row_in_markdown(const std::vector<std::string>& cells) {
  std::string text = "|";
  for (const std::string& cell : cells) text += fmt::format(" {} |", escaped(cell));
  return text + "\n";
}

}  // namespace

std::string render_study_text(const StudyRecord& record, int width) {
  const study::Study& study = record.study;
  const std::vector<StudyTable> tables = tables_of(study);
  std::string text = fmt::format("{} of {}, seed {}\n\n", study.op, fixed_dims(study), study.seed);
  for (const StudyTable& table : tables) {
    const bool is_shown = table.title.starts_with("How ") || table.title.starts_with("Where ") ||
                          table.title.starts_with("Not ");
    if (!is_shown) continue;
    std::vector<Column> columns;
    for (size_t i = 0; i < table.heads.size(); ++i) {
      Column column{.title = table.heads[i],
                    .right = i >= table.words,
                    .importance = 98 - static_cast<int>(i),
                    .cells = {},
                    .colours = {}};
      for (const auto& row : table.rows) column.cells.push_back(printable(clipped(row[i], 60)));
      columns.push_back(std::move(column));
    }
    text += fmt::format("{}\n{}\n", table.title, align_columns(std::move(columns), false, width));
  }
  const study::Answer answer = answer_of(study, summarize(study));
  text += wrapped(answer.sentence, width) + "\n";
  for (const std::string& ground : answer.grounds) text += wrapped("  " + printable(ground), width, 4) + "\n";
  for (const std::string& line : disturbed_times(record))
    text += wrapped("  " + printable(line), width, 4) + "\n";
  return text;
}

std::string render_study_markdown(const StudyRecord& record) {
  const study::Study& study = record.study;
  const study::Answer answer = answer_of(study, summarize(study));
  std::string text =
      fmt::format("# Assay: a study of {}\n\n**{}**\n\n", escaped(study.op), escaped(answer.sentence));
  for (const std::string& ground : answer.grounds) text += fmt::format("- {}\n", escaped(ground));
  for (const std::string& line : disturbed_times(record)) text += fmt::format("- {}\n", escaped(line));
  text += fmt::format("\n{} · {} s · seed {} · {} · {} · assay {} ({}{})\n\n`{}`\n",
                      escaped(record.origin.started), format_number(record.origin.seconds), study.seed,
                      plural(study.draws, "draw"), escaped(fixed_dims(study)),
                      escaped(record.origin.tool.version), escaped(record.origin.tool.git),
                      record.origin.tool.dirty ? ", with local changes" : "",
                      printable(fmt::format("{}", fmt::join(record.origin.command, " "))));
  for (const StudyTable& table : tables_of(study)) {
    text +=
        fmt::format("\n## {}\n\n{}\n\n{}|", table.title, escaped(table.note), row_in_markdown(table.heads));
    for (size_t i = 0; i < table.heads.size(); ++i) text += i < table.words ? "---|" : "--:|";
    text += "\n";
    for (const auto& row : table.rows) text += row_in_markdown(row);
  }
  return text;
}

}  // namespace assay
