// SPDX-License-Identifier: Apache-2.0
// Foreign text enters only through escape_markup().
#include <fmt/ranges.h>

#include "reports/render/html_assets.h"
#include "reports/render/study.h"
#include "reports/render/study_charts.h"
#include "reports/render/text.h"

namespace assay {
namespace {

std::string table_in_html(const StudyTable& table) {
  std::string text = "<div class=\"scroll\"><table><thead><tr>";
  const auto kind = [&](size_t i) { return i < table.words ? "" : " class=\"number\""; };
  for (size_t i = 0; i < table.heads.size(); ++i)
    text += fmt::format("<th{}>{}", kind(i), escape_markup(table.heads[i]));
  text += "<tbody>\n";
  for (const auto& row : table.rows) {
    text += "<tr>";
    for (size_t i = 0; i < row.size(); ++i) text += fmt::format("<td{}>{}", kind(i), escape_markup(row[i]));
    text += "\n";
  }
  return text + "</table></div>\n";
}

std::string section(std::string_view id, std::string_view title, std::string_view note,
                    const std::string& content) {
  return fmt::format("<section id=\"{}\"><h2>{}</h2>\n<p class=\"muted\">{}</p>\n{}</section>\n", id,
                     escape_markup(title), escape_markup(note), content);
}

}  // namespace

std::string render_study_html(const StudyRecord& record) {
  const study::Study& study = record.study;
  const auto summaries = summarize(study);
  const study::Answer answer = answer_of(study, summaries);
  std::string devices;
  for (const DeviceRecord& device : record.origin.machine.devices)
    devices += fmt::format("{}{}: {}", devices.empty() ? "" : " · ", device.info.name(),
                           escape_markup(device.info.model));
  std::string page = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\">\n<title>Assay: a study of "
      "{}</title>\n<style>{}</style></head>\n"
      "<body>\n<header><div class=\"brand\">Assay · a study of {}</div><h1>{}</h1>\n",
      escape_markup(study.op), kStylesheet, escape_markup(study.op), escape_markup(answer.sentence));
  page += fmt::format(
      "<div class=\"muted\">{}</div><div class=\"muted\">{} · {} s · seed {} · {} · {} · assay {}, "
      "{}{}</div>\n"
      "<div class=\"muted\"><code>{}</code></div></header>\n<ul>",
      devices, escape_markup(record.origin.started), format_number(record.origin.seconds), study.seed,
      plural(study.draws, "draw"), escape_markup(fixed_dims(study)),
      escape_markup(record.origin.tool.version), escape_markup(record.origin.tool.git.substr(0, 12)),
      record.origin.tool.dirty ? " with local changes" : "",
      escape_markup(fmt::format("{}", fmt::join(record.origin.command, " "))));
  for (const std::string& ground : answer.grounds) page += fmt::format("<li>{}\n", escape_markup(ground));
  for (const std::string& line : disturbed_times(record))
    page += fmt::format("<li>{}\n", escape_markup(line));
  page += "</ul>\n";
  // The first table is the summary.
  size_t number = 0;
  const std::vector<StudyTable> tables = tables_of(study);
  for (const StudyTable& table : tables) {
    if (number == 1) {
      for (const StudyChart& chart : charts_of(study, summaries))
        page += section(chart.id, chart.title, chart.note, chart.content);
    }
    page += section(fmt::format("table{}", number++), table.title, table.note, table_in_html(table));
  }
  return page + "</body></html>\n";
}

}  // namespace assay
