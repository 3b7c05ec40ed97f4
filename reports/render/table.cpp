// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <tuple>

#include "reports/record/tally.h"
#include "reports/render/columns.h"
#include "reports/render/failures.h"
#include "reports/render/render.h"
#include "reports/render/summary.h"
#include "reports/render/text.h"

namespace assay {
namespace {

// The columns of a timed case in each row, or of none.
class Times {
 public:
  explicit Times(int importance_of_problem)
      : problem_{"timed problem", false, importance_of_problem, {}, {}} {}
  void add(const CaseRecord* timed) {
    const Perf* const perf = timed != nullptr ? &*timed->perf : nullptr;
    const std::optional<double> bytes_per_s = perf != nullptr ? bytes_per_second(*perf) : std::nullopt;
    problem_.cells.push_back(perf != nullptr ? printable(format_dims(timed->which.dims)) : "–");
    median_.cells.push_back(perf != nullptr ? format_time(perf->median_ns) : "–");
    rate_.cells.push_back(bytes_per_s ? format_number(*bytes_per_s * 1e-9) : "–");
    floor_.cells.push_back(perf == nullptr     ? "–"
                           : perf->implausible ? "implausible"
                                               : format_percent(perf->fraction_of_floor));
  }
  std::vector<Column> columns() const { return {problem_, median_, rate_, floor_}; }

 private:
  Column problem_, median_{"median", true, 6, {}, {}};
  Column rate_{"GB/s", true, 5, {}, {}}, floor_{"of floor", true, 6, {}, {}};
};

std::vector<Column> columns_of(const std::vector<PathSummary>& paths) {
  Column name{"path", false, 10, {}, {}}, dtype{"dtype", false, 8, {}, {}},
      device{"device", false, 1, {}, {}};
  Column cases{"cases", true, 7, {}, {}}, pass{"pass", true, 7, {}, {}}, failed{"failed", true, 9, {}, {}};
  Column blind{"uninformative", true, 2, {}, {}}, other{"not judged", true, 2, {}, {}};
  Column error{"error/bound", true, 8, {}, {}}, rms{"rms", true, 5, {}, {}}, equal{"equal", true, 4, {}, {}},
      normwise{"normwise", true, 3, {}, {}};
  Times times(4);
  for (const PathSummary& path : paths) {
    name.cells.push_back(printable(path.op + "/" + path.path));
    dtype.cells.emplace_back(name_of(path.dtype));
    device.cells.push_back(printable(path.device));
    cases.cells.push_back(format_count(path.tally.all()));
    pass.cells.push_back(format_count(path.tally.pass));
    pass.colours.push_back(path.tally.pass > 0 ? kGreen : "");
    failed.cells.push_back(format_count(path.tally.failures()));
    failed.colours.push_back(path.tally.failures() > 0 ? kRed : "");
    blind.cells.push_back(path.tally.uninformative == 0 ? "–" : format_count(path.tally.uninformative));
    const int64_t unjudged = path.tally.unsupported + path.tally.skipped;
    other.cells.push_back(unjudged == 0 ? "–" : format_count(unjudged));
    error.cells.push_back(path.worst ? format_ratio(path.worst->max_error_over_bound) : "–");
    rms.cells.push_back(path.worst ? format_ratio(path.worst->rms_over_predicted) : "–");
    equal.cells.push_back(path.worst ? format_percent(path.worst->share_of_equal()) : "–");
    normwise.cells.push_back(path.on_normal_data ? format_number(path.on_normal_data->rel_l2) : "–");
    times.add(path.largest_timed);
  }
  std::vector<Column> columns{name,  dtype, device, cases, pass,  failed,
                              blind, other, error,  rms,   equal, normwise};
  for (const Column& column : times.columns()) columns.push_back(column);
  return columns;
}

// The timed problems of paths that have several: the table of paths shows the largest ones. What
// tells rows apart stays longest where there is little room.
std::vector<Column> columns_of_times(const Record& record) {
  std::map<std::tuple<std::string, std::string, std::string, DType>, std::vector<const CaseRecord*>> timed;
  std::set<std::string> devices;
  for (const CaseRecord& item : record.cases) {
    if (!item.perf) continue;
    timed[{item.which.op, item.which.path, item.device, item.which.dtype}].push_back(&item);
    devices.insert(item.device);
  }
  Column name{"path", false, 10, {}, {}}, dtype{"dtype", false, 8, {}, {}},
      device{"device", false, devices.size() > 1 ? 9 : 1, {}, {}};
  Times times(9);
  for (const auto& [key, problems] : timed) {
    if (problems.size() < 2) continue;
    for (const CaseRecord* problem : problems) {
      name.cells.push_back(printable(problem->which.op + "/" + problem->which.path));
      dtype.cells.emplace_back(name_of(problem->which.dtype));
      device.cells.push_back(printable(problem->device));
      times.add(problem);
    }
  }
  if (name.cells.empty()) return {};
  std::vector<Column> columns{name, dtype, device};
  for (const Column& column : times.columns()) columns.push_back(column);
  return columns;
}

// Of a hostile one, that is right when it is judged, also what it is caught by.
std::string fault_of(const SpecimenSummary& summary) {
  const std::string fault = printable(summary.specimen->fault);
  if (summary.caught == nullptr || !summary.specimen->path.starts_with("hostile.")) return fault;
  const std::string by = caught_by(*summary.caught);
  return fmt::format("{}; caught: {}", fault, printable(by.substr(0, by.find(';'))));
}

std::vector<Column> columns_of(const std::vector<SpecimenSummary>& specimens) {
  Column name{"specimen", false, 4, {}, {}}, cases{"cases", true, 3, {}, {}},
      outcome{"outcome", false, 2, {}, {}}, fault{"fault", false, 1, {}, {}};
  for (const SpecimenSummary& summary : specimens) {
    const auto& [specimen, needed, caught, seconds] = summary;
    name.cells.push_back(printable(specimen->op + "/" + specimen->path));
    fault.cells.push_back(fault_of(summary));
    cases.cells.push_back(format_count(needed));
    outcome.cells.emplace_back(caught != nullptr ? "caught" : needed == 0 ? "not judged" : "SURVIVED");
    outcome.colours.push_back(caught != nullptr ? kGreen : kRed);
  }
  return {name, cases, outcome, fault};
}

// The faults stand in a column, or below their specimens if there is no room.
std::string specimens_table(const Record& record, bool colour, int width) {
  constexpr int kIndent = 4;
  std::vector<Column> columns = columns_of(summarize_specimens(record));
  if (width_of(columns) <= static_cast<size_t>(std::max(width, 0)))
    return align_columns(columns, colour, width);
  const std::vector<std::string> faults = columns.back().cells;
  columns.pop_back();
  std::istringstream lines(align_columns(columns, colour, width));
  std::string text, line;
  for (size_t i = 0; std::getline(lines, line); ++i) {
    text += line + "\n";
    if (i > 0) text += fmt::format("{:{}}{}\n", "", kIndent, in_lines(faults[i - 1], width, kIndent));
  }
  return text;
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

std::string render_failures(const Record& record, const std::string& folder, int width) {
  if (!record.specimens.empty()) return "";
  std::string text;
  for (const FailureBlock& block : failure_blocks(record)) {
    const CaseRecord& item = *block.smallest;
    const std::string indent(name_of(block.kind).size() + 2, ' ');
    text += fmt::format(
        "\n{}: {}/{} on {}: {}\n{}{}\n{}{}\n", name_of(block.kind), printable(block.op),
        printable(block.path), printable(block.device), describe(block), indent,
        in_lines(excerpt(item.verdict.reason, kReasonOnTerminal), width, static_cast<int>(indent.size())),
        indent, printable(replay_command(record, item)));
    if (!item.capsule.empty() && !folder.empty())
      text += fmt::format("{}its tensors: {}\n", indent, printable(folder + "/" + item.capsule));
  }
  return text.empty() ? "" : text + "\n";
}

std::string render_table(const Record& record, bool colour, int width) {
  std::string text = record.specimens.empty() ? align_columns(columns_of(summarize(record)), colour, width)
                                              : specimens_table(record, colour, width);
  if (const std::vector<Column> times = columns_of_times(record); !times.empty())
    text += "\n" + align_columns(times, colour, width);
  for (const std::string& line : render_not_run(record.not_run)) text += line + "\n";
  return text;
}

}  // namespace assay
