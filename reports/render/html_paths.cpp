// SPDX-License-Identifier: Apache-2.0
// Foreign text enters only through escape_markup().
#include "reports/render/html_paths.h"

#include <algorithm>
#include <map>
#include <set>

#include "reports/record/tally.h"
#include "reports/render/html_charts.h"
#include "reports/render/text.h"

namespace assay {
namespace {

constexpr std::string_view kEmptyCell = "–";

const std::string& anchor_in(const std::vector<std::string>& anchors, const Record& record,
                             const CaseRecord& item) {
  return anchors[static_cast<size_t>(&item - record.cases.data())];
}

// "✗ fail", coloured by the class of that name.
std::string badge(VerdictKind kind) {
  return fmt::format("<span class=\"{0}\">{1}&nbsp;{0}</span>", name_of(kind), sign_of(kind));
}

// ---- the matrix of paths and dtypes

std::string verdict_counts(const PathSummary& path, const std::vector<FailureBlock>& blocks) {
  std::string text;
  Tally counts = path.tally;
  using enum VerdictKind;
  for (VerdictKind kind :
       {kFail, kCrashed, kTimeout, kMistrusted, kPass, kUninformative, kUnsupported, kSkipped}) {
    if (counts[kind] == 0) continue;
    const std::string anchor = anchor_of(blocks, path.op, path.path, path.device, kind);
    text += fmt::format("<span class=\"{0}\">{1}{2}&nbsp;{3}&nbsp;{0}{4}</span> ", name_of(kind),
                        anchor.empty() ? "" : fmt::format("<a href=\"#{}\">", anchor), sign_of(kind),
                        format_count(counts[kind]), anchor.empty() ? "" : "</a>");
  }
  return text;
}

std::string matrix_cell(const PathSummary& path, const std::vector<FailureBlock>& blocks) {
  std::string text = fmt::format("<td><div class=\"verdicts\">{}</div>", verdict_counts(path, blocks));
  if (path.worst) {
    const double ratio = path.worst->max_error_over_bound;
    const bool within = ratio <= 1;
    const std::optional<double> error = path.on_normal_data ? path.on_normal_data->rel_l2 : std::nullopt;
    text += fmt::format(
        "<div><span class=\"bar{}\"><i style=\"width:{:.0f}%\"></i></span>{} of bound "
        "<span class=\"muted\" title=\"largest normwise error of normal data\">· error {}</span></div>",
        within ? "" : " over", within ? 100 * ratio : 100.0, format_ratio(ratio),
        error ? fmt::format("{:.2g}", *error) : "–");
  }
  if (path.best_fraction) {
    text += fmt::format("<div>{} of floor <span class=\"muted\">at best</span></div>",
                        format_percent(*path.best_fraction));
  }
  if (path.implausible > 0) {
    text +=
        fmt::format("<div class=\"implausible\">? {}</div>", plural(path.implausible, "implausible time"));
  }
  if (path.largest_timed == nullptr) text += "<div class=\"muted\">not timed</div>";
  return text;
}

// ---- failures

// The worst element of an output that is wrong somewhere.
std::string worst_line(const OutputNumerics& output) {
  const std::optional<WorstElement>& worst = output.comparison.worst;
  if (!worst || output.comparison.wrong == 0) return "";
  return fmt::format(
      "<p class=\"small muted\">{}: {} wrong of {}; worst is element {}: got {:.9g}, want {:.9g}, bound "
      "{:.3g}, error/bound "
      "{}</p>",
      escape_markup(output.name), format_count(output.comparison.wrong),
      format_count(output.comparison.count), format_count(worst->element), worst->got, worst->want,
      worst->bound, format_ratio(output.comparison.max_error_over_bound));
}

std::string failure_block(const Record& record, const FailureBlock& block, const std::string& anchor,
                          const std::string& row) {
  const CaseRecord& item = *block.smallest;
  std::string text = fmt::format(
      "<div class=\"failure {}\" id=\"{}\"><p><b>{}</b> <b>{}/{}</b> <span class=\"muted\">{} · {} · "
      "<a href=\"#{}\">{}</a></span></p><p>{}</p><p><code class=\"command\">{}</code></p>",
      name_of(block.kind), anchor, badge(block.kind), escape_markup(block.op), escape_markup(block.path),
      escape_markup(block.device), describe(block), row,
      block.cases == 1 ? "all numbers" : "all numbers of the smallest", escape_markup(item.verdict.reason),
      escape_markup(replay_command(record, item)));
  if (!item.capsule.empty())
    text += fmt::format("<p class=\"small\"><span class=\"muted\">its tensors:</span> <code>{}</code></p>",
                        escape_markup(item.capsule));
  for (const OutputNumerics& output : item.verdict.outputs) text += worst_line(output);
  return text + "</div>\n";
}

// ---- specimens

std::string specimen_row(const SpecimenSummary& summary, const std::string& row) {
  const auto& [specimen, cases, caught, seconds] = summary;
  return fmt::format(
      "<tr><td><b>{}</b><br>{}<td>{}<td class=\"number\">{}<td>{}\n", escape_markup(specimen->op),
      escape_markup(specimen->path), escape_markup(specimen->fault), format_count(cases),
      caught == nullptr
          ? fmt::format("<span class=\"fail\">✗&nbsp;{}</span>", cases == 0 ? "not judged" : "survived")
          : fmt::format("<a href=\"#{}\">{}</a>", row, escape_markup(caught_by(*caught))));
}

}  // namespace

std::string_view sign_of(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::kPass:
      return "✓";
    case VerdictKind::kFail:
      return "✗";
    case VerdictKind::kMistrusted:
      return "?";
    case VerdictKind::kCrashed:
    case VerdictKind::kTimeout:
      return "!";
    case VerdictKind::kUninformative:
    case VerdictKind::kUnsupported:
    case VerdictKind::kSkipped:
      return kEmptyCell;
  }
  throw Error("VerdictKind({}) is not a verdict", static_cast<int>(kind));
}

std::string matrix_section(const std::vector<PathSummary>& paths, const std::vector<FailureBlock>& blocks) {
  if (paths.empty()) return "";
  std::set<DType> dtypes;
  std::vector<std::string> lines;  // one per op, path and device, in order of appearance
  std::map<std::pair<std::string, DType>, const PathSummary*> cells;
  for (const PathSummary& path : paths) {
    const std::string line =
        fmt::format("<tr><td><b>{}</b><br>{}<br><span class=\"muted\">{}</span>", escape_markup(path.op),
                    escape_markup(path.path), escape_markup(path.device));
    dtypes.insert(path.dtype);
    if (std::ranges::count(lines, line) == 0) lines.push_back(line);
    cells[{line, path.dtype}] = &path;
  }
  std::string text = "<div class=\"scroll\"><table class=\"matrix\"><thead><tr><th>op, path, device";
  for (DType dtype : dtypes) text += fmt::format("<th>{}", name_of(dtype));
  text += "\n<tbody>";
  for (const std::string& line : lines) {
    text += line;
    for (DType dtype : dtypes) {
      const auto cell = cells.find({line, dtype});
      text += cell != cells.end() ? matrix_cell(*cell->second, blocks)
                                  : fmt::format("<td class=\"muted\">{}", kEmptyCell);
    }
    text += "\n";
  }
  return text + "</table></div>\n";
}

std::string failures_section(const Record& record, const std::vector<FailureBlock>& blocks,
                             const std::vector<std::string>& anchors) {
  constexpr size_t kShown = 200;
  std::string text;
  for (size_t i = 0; i < std::min(blocks.size(), kShown); ++i)
    text += failure_block(record, blocks[i], anchor_of(i), anchor_in(anchors, record, *blocks[i].smallest));
  if (blocks.size() > kShown) {
    text +=
        fmt::format("<p class=\"muted\">and {} more, in the table of all cases</p>", blocks.size() - kShown);
  }
  return text;
}

std::string histograms(const std::vector<PathSummary>& paths) {
  std::string cards;
  for (const PathSummary& path : paths) {
    std::vector<double> ratios;
    for (const CaseRecord* item : path.cases) {
      if (const std::optional<Numbers> numbers = numbers_of(*item))
        ratios.push_back(numbers->max_error_over_bound);
    }
    if (ratios.empty()) continue;
    cards += fmt::format("<div class=\"card\"><h3>{}/{} <span class=\"muted\">{} · {}</span></h3>{}</div>\n",
                         escape_markup(path.op), escape_markup(path.path), name_of(path.dtype),
                         plural(static_cast<int64_t>(ratios.size()), "case"), ratio_histogram(ratios));
  }
  if (cards.empty()) return "";
  return "<p class=\"muted\">Cases by how close their worst element came to its bound.</p><div class=\"cards "
         "narrow\">" +
         cards + "</div>\n";
}

std::string specimens_section(const Record& record, const std::vector<std::string>& anchors) {
  if (record.specimens.empty()) return "";
  std::string rows;
  for (const SpecimenSummary& specimen : summarize_specimens(record)) {
    rows += specimen_row(specimen,
                         specimen.caught == nullptr ? "" : anchor_in(anchors, record, *specimen.caught));
  }
  return "<p class=\"muted\">Known-bad implementations. Each has one fault, and is caught by its first case "
         "that "
         "fails.</p>\n<div class=\"scroll\"><table><thead><tr><th>op, specimen<th>fault<th "
         "class=\"number\">cases "
         "needed<th>caught, because\n<tbody>" +
         rows + "</table></div>\n";
}

}  // namespace assay
