// SPDX-License-Identifier: Apache-2.0
// Changes for a pull request: a comment, and marks on a run of GitHub's.
#include <algorithm>
#include <cmath>

#include "reports/render/changed_rows.h"
#include "reports/render/changes.h"
#include "reports/render/markdown_text.h"
#include "reports/render/render.h"
#include "reports/render/text.h"

namespace assay {
namespace {

using markdown::code, markdown::escape;

constexpr size_t kShare = 14'000;  // [bytes] of a section, four of which fit into a comment

std::string section(std::string_view head, const std::vector<std::string>& rows) {
  if (rows.empty()) return "";
  return std::string(head) + markdown::rows_within(rows, kShare, "the output of `gate --all`") + "\n";
}

std::string path_of(const auto& item) {
  return code(item.op + "/" + item.path);
}

std::string failures_of(const Changes& changes) {
  std::vector<std::string> rows;
  for (const FailureChange& failure : changes.failures) {
    if (!failure.is_new()) continue;
    rows.push_back(
        fmt::format("- **{}** {} ({}): {}\n", name_of(failure.after), code(failure.which.to_string()),
                    failure.before ? fmt::format("{} before", name_of(*failure.before)) : "not judged before",
                    escape(failure.reason)));
  }
  return section("### New failures\n\n", rows);
}

std::string errors_of(const Changes& changes) {
  std::vector<std::string> rows;
  for (const ErrorChange& error : changes.errors) {
    if (error.change == Change::kSame) continue;
    rows.push_back(fmt::format("| {} | {} | {} | {} | {} | {} | {} → {} |\n", word_for(error), path_of(error),
                               name_of(error.dtype), escape(error.device), format_change(error.ratio),
                               format_number(error.accuracy), format_ratio(error.worst_before),
                               format_ratio(error.worst_after)));
  }
  return section(
      "### Errors\n\n| errors | path | dtype | device | rms, ratio | accuracy | error/bound |\n"
      "|---|---|---|---|--:|--:|--:|\n",
      rows);
}

std::string times_of(const Changes& changes) {
  std::vector<std::string> rows;
  for (const TimeChange& time : changes.times) {
    if (!is_shown(time)) continue;
    rows.push_back(fmt::format(
        "| {} | {} | {} | {} | {} | {} | {} → {} | {} | {} |\n", word_for(time), path_of(time.which),
        name_of(time.which.dtype), escape(time.device), escape(format_dims(time.which.dims)),
        name_of(time.cache), format_time(time.before_ns), format_time(time.after_ns),
        format_change(time.ratio),
        std::isfinite(time.high) ? fmt::format("{} – {}", format_change(time.low), format_change(time.high))
                                 : "–"));
  }
  return section(
      "### Times\n\n| time | path | dtype | device | problem | cache | median | ratio | between |\n"
      "|---|---|---|---|---|---|--:|--:|--:|\n",
      rows);
}

// Text of a command to GitHub; of a property also without what ends one.
std::string command_text(std::string_view text, bool is_property = false) {
  std::string safe;
  for (const char c : clipped(printable(text), 600)) {
    if (c == '%' || (is_property && (c == ':' || c == ','))) {
      safe += fmt::format("%{:02X}", static_cast<unsigned>(c));
    } else {
      safe += c;
    }
  }
  return safe;
}

class Annotations {
 public:
  void add(std::string_view level, std::string_view title, std::string_view text) {
    constexpr int kMost = 10;
    int& number = level == "error" ? errors_ : warnings_;
    if (++number > kMost) return;
    lines_ += fmt::format("::{} title={}::{}\n", level, command_text(title, true), command_text(text));
  }
  const std::string& lines() const { return lines_; }

 private:
  std::string lines_;
  int errors_ = 0, warnings_ = 0;
};

}  // namespace

std::string render_changes_markdown(const Changes& changes) {
  std::string text = fmt::format("## Assay\n\n**{}**\n\n", escape(render_headline(changes)));
  std::vector<std::string> differences, unclear, gone;
  for (const std::string& difference : changes.differences)
    differences.push_back("- " + escape(difference) + "\n");
  for (const auto& [reason, number] : unclear_reasons(changes))
    unclear.push_back(fmt::format("- {} {}\n", plural(number, "time"), escape(reason)));
  for (const Gone& one : changes.gone)
    gone.push_back(fmt::format("- {}: {}\n", escape(one.what), escape(one.reason)));
  text += failures_of(changes) + errors_of(changes) + times_of(changes);
  text += section("### Unclear\n\n", unclear) + section("### Gone\n\n", gone);
  text += section("### Between the two\n\n", differences);
  return clipped(std::move(text), kMarkdownLimit);
}

std::string github_annotations(const Changes& changes, bool fails) {
  Annotations all;
  const std::string_view level = fails ? "error" : "warning";
  for (const FailureChange& failure : changes.failures) {
    if (failure.is_new())
      all.add("error", fmt::format("{}: {}/{}", name_of(failure.after), failure.which.op, failure.which.path),
              fmt::format("{}: {}", failure.which.to_string(), failure.reason));
  }
  for (const ErrorChange& error : changes.errors) {
    if (error.change != Change::kWorse && error.change != Change::kTraded) continue;
    all.add(level, fmt::format("errors {}: {}/{}", word_for(error), error.op, error.path),
            fmt::format("{} on {}: the rms is {} times that of before", name_of(error.dtype), error.device,
                        format_change(error.ratio)));
  }
  for (const TimeChange& time : changes.times) {
    if (time.change != Change::kWorse && time.change != Change::kTraded) continue;
    all.add(level, fmt::format("{}: {}/{}", word_for(time), time.which.op, time.which.path),
            fmt::format("{} {} on {}, {}: {} -> {}, {} times", name_of(time.which.dtype),
                        format_dims(time.which.dims), time.device, name_of(time.cache),
                        format_time(time.before_ns), format_time(time.after_ns), format_change(time.ratio)));
  }
  for (const Gone& one : changes.gone) all.add(level, "gone", fmt::format("{}: {}", one.what, one.reason));
  for (const auto& [reason, number] : unclear_reasons(changes))
    all.add("warning", "unclear", fmt::format("{} {}", plural(number, "time"), reason));
  return all.lines();
}

}  // namespace assay
