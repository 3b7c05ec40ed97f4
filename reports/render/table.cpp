// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "reports/render/columns.h"
#include "reports/render/render.h"
#include "reports/render/summary.h"
#include "reports/render/text.h"

namespace assay {
namespace {

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

}  // namespace

std::vector<std::string> render_not_run(const std::vector<NotRun>& paths) {
  std::vector<std::string> lines;
  std::set<std::string> reasons;
  for (const NotRun& path : paths) {
    if (!reasons.insert(path.reason).second) continue;
    const auto count = std::ranges::count(paths, path.reason, &NotRun::reason);
    const std::string which =
        count == 1 ? printable(path.op + "/" + path.path) + " was" : plural(count, "path") + " were";
    lines.push_back(fmt::format("{} not run: {}", which, printable(path.reason)));
  }
  return lines;
}

std::string render_table(const Record& record, bool colour, int width) {
  std::string text = align_columns(fill(summarize(record)), colour, width);
  for (const std::string& line : render_not_run(record.not_run)) text += line + "\n";
  return text + render_headline(record) + "\n";
}

}  // namespace assay
