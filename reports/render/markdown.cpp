// SPDX-License-Identifier: Apache-2.0
#include "reports/record/tally.h"
#include "reports/render/failures.h"
#include "reports/render/markdown_text.h"
#include "reports/render/render.h"
#include "reports/render/summary.h"
#include "reports/render/telemetry.h"
#include "reports/render/text.h"

namespace assay {
namespace {

using markdown::code, markdown::escape, markdown::rows_within;

// [bytes] The sections' shares of kMarkdownLimit. The rest is for what comes before them.
constexpr size_t kPathsShare = 14'000;
constexpr size_t kFailuresShare = 18'000;
constexpr size_t kStagesShare = 4'000;
constexpr size_t kTimesShare = 14'000;
constexpr size_t kNotRunShare = 4'000;
constexpr size_t kStatesShare = 1'500;

std::string run_lines(const Record& record) {
  std::string command;
  for (const std::string& word : record.command) command += (command.empty() ? "" : " ") + word;
  return fmt::format("{} · {} s · seed {} · assay {} ({}{}), {}, {}\n\n{}\n\n", escape(record.started),
                     format_number(record.seconds), record.seed, escape(record.tool.version),
                     escape(record.tool.git), record.tool.dirty ? ", with local changes" : "",
                     escape(record.tool.compiler), escape(record.tool.build),
                     command.empty() ? "" : code(command));
}

std::string machine_in_markdown(const Record& record) {
  const MachineRecord& machine = record.machine;
  std::string text = fmt::format("## Machine\n\n{}, {} memory\n\n", escape(machine.host_os),
                                 format_bytes(machine.memory_bytes));
  text +=
      "| device | model | driver | memory | last-level cache | copy, measured | read, measured "
      "| products, measured |\n|---|---|---|---|---|---|---|---|\n";
  std::vector<std::string> rows;
  for (const DeviceRecord& device : machine.devices) {
    rows.push_back(
        fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} |\n", device.info.name(),
                    escape(device.info.model), device.info.driver.empty() ? "–" : escape(device.info.driver),
                    format_bytes(device.info.memory_bytes), format_bytes(device.info.cache_bytes),
                    device.ceilings ? fmt::format("{} ({})", format_rate(device.ceilings->copy_bytes_per_s),
                                                  escape(device.ceilings->copy_method))
                                    : escape(ceilings_missing(device)),
                    device.ceilings ? format_rate(device.ceilings->read_bytes_per_s) : "not measured",
                    format_products(device.ceilings)));
  }
  std::vector<std::string> states;
  for (const std::string& line : states_of_devices(machine)) states.push_back("\n" + escape(line) + "\n");
  text += rows_within(rows, kNotRunShare) + rows_within(states, kStatesShare) + "\n";
  for (const std::string& line : disturbed_times(record)) text += escape(line) + ".\n\n";
  return text;
}

// "198 pass, 2 fail", where the failures link to their blocks.
std::string verdicts_of(const PathSummary& path, const std::vector<FailureBlock>& blocks) {
  std::string text;
  Tally counts = path.tally;
  using enum VerdictKind;
  for (VerdictKind kind :
       {kPass, kFail, kMistrusted, kCrashed, kTimeout, kUninformative, kUnsupported, kSkipped}) {
    if (counts[kind] == 0) continue;
    const std::string count = fmt::format("{} {}", format_count(counts[kind]), name_of(kind));
    const std::string anchor = anchor_of(blocks, path.op, path.path, path.device, kind);
    text += text.empty() ? "" : ", ";
    text += anchor.empty() ? count : fmt::format("[{}](#{})", count, anchor);
  }
  return text;
}

std::string paths_section(const Record& record, const std::vector<FailureBlock>& blocks) {
  std::vector<std::string> rows;
  for (const PathSummary& path : summarize(record)) {
    const std::optional<Numbers>&worst = path.worst, &normal = path.on_normal_data;
    rows.push_back(fmt::format(
        "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", code(path.op + "/" + path.path),
        name_of(path.dtype), escape(path.device), verdicts_of(path, blocks),
        worst ? format_ratio(worst->max_error_over_bound) : "–",
        worst ? format_ratio(worst->rms_over_allowed) : "–",
        worst ? format_ratio(worst->rms_over_predicted) : "–",
        worst ? format_percent(worst->share_of_equal()) : "–",
        normal ? format_number(normal->largest_error) : "–", normal ? format_number(normal->rel_l2) : "–"));
  }
  if (rows.empty()) return "";
  return "## How wrong\n\n"
         "| path | dtype | device | verdicts | worst error/bound | worst rms/allowed | worst rms/predicted | "
         "equal | largest error, "
         "normal data | normwise error, normal data |\n"
         "|---|---|---|---|--:|--:|--:|--:|--:|--:|\n" +
         rows_within(rows, kPathsShare) + "\n";
}

// The headings are what anchor_of() links to.
std::string failures_section(const Record& record, const std::vector<FailureBlock>& blocks) {
  std::vector<std::string> rows;
  for (const FailureBlock& block : blocks) {
    const CaseRecord& item = *block.smallest;
    rows.push_back(
        fmt::format("### Failure {}\n\n**{}** {} on {}: {}. {}\n\n{}\n\n{}", rows.size() + 1,
                    name_of(block.kind), code(block.op + "/" + block.path), escape(block.device),
                    describe(block), escape(item.verdict.reason), code(replay_command(record, item)),
                    item.capsule.empty() ? "" : fmt::format("Its tensors: {}\n\n", code(item.capsule))));
  }
  return rows.empty() ? "" : "## Failures\n\n" + rows_within(rows, kFailuresShare) + "\n";
}

std::string specimens_section(const Record& record) {
  std::vector<std::string> rows;
  for (const auto& [specimen, cases, caught, seconds] : summarize_specimens(record)) {
    rows.push_back(fmt::format("| {} | {} | {} | {} |\n", code(specimen->op + "/" + specimen->path),
                               escape(specimen->fault), format_count(cases),
                               caught != nullptr ? escape(caught_by(*caught))
                               : cases == 0      ? "not judged"
                                                 : "**survived**"));
  }
  if (rows.empty()) return "";
  return "## Specimens\n\n| specimen | fault | cases needed | caught by |\n|---|---|--:|---|\n" +
         rows_within(rows, kPathsShare) + "\n";
}

std::string stages_section(const Record& record) {
  std::vector<std::string> rows;
  for (const CaseRecord& item : record.cases) {
    for (const OutputNumerics& output : item.verdict.outputs) {
      const std::vector<double> parts = parts_of_bound(output.shares);
      for (size_t i = 0; i < parts.size(); ++i) {
        const auto& [stage, bound, rms] = output.shares[i];
        rows.push_back(fmt::format("| {} | {} | {} | {} | {} | {} |\n", code(item.which.to_string()),
                                   escape(output.name), escape(stage), format_number(bound),
                                   format_percent(parts[i]), format_number(rms)));
      }
    }
  }
  if (rows.empty()) return "";
  return "## What each stage adds\n\n"
         "| case | output | stage | mean bound, alone | of all bounds | rms, alone |\n"
         "|---|---|---|--:|--:|--:|\n" +
         rows_within(rows, kStagesShare) + "\n";
}

// What the device was like meanwhile has a column of its own if that is known of some time.
std::string time_row(const Case& which, const Perf& perf, bool has_telemetry) {
  const std::string drift = render_drift(perf);
  const std::string cycles = perf.telemetry ? render_cycles(*perf.telemetry) : "";
  const std::string meanwhile = perf.telemetry ? escape(render_telemetry(*perf.telemetry)) : "";
  return fmt::format("| {} | {} | {}{} | {} – {} | {} | {} | {}{}{} |{}\n", code(which.to_string()),
                     name_of(perf.cache), format_time(perf.median_ns), cycles.empty() ? "" : ", " + cycles,
                     format_time(perf.ci95_ns[0]), format_time(perf.ci95_ns[1]), perf.samples_ns.size(),
                     render_rates(perf, ", "), format_percent(perf.fraction_of_floor),
                     perf.implausible ? ", implausible: " + escape(*perf.implausible) : "",
                     drift.empty() ? "" : ", drifts: " + drift,
                     has_telemetry ? fmt::format(" {} |", meanwhile.empty() ? "–" : meanwhile) : "");
}

std::string times_section(const Record& record) {
  const std::vector<const CaseRecord*> timed = timed_cases(record);
  const auto is_told = [](const std::optional<Perf>& perf) {
    return perf && perf->telemetry && !render_telemetry(*perf->telemetry).empty();
  };
  const bool has_telemetry = std::ranges::any_of(
      timed, [&](const CaseRecord* item) { return is_told(item->perf) || is_told(item->perf_warm); });
  std::vector<std::string> rows;
  for (const CaseRecord* item : timed) {
    if (item->perf) rows.push_back(time_row(item->which, *item->perf, has_telemetry));
    if (item->perf_warm) rows.push_back(time_row(item->which, *item->perf_warm, has_telemetry));
  }
  if (rows.empty()) return "";
  return fmt::format(
             "## How fast\n\n| case | cache | median | 95 % interval | samples | rate | of floor |{}\n"
             "|---|---|--:|--:|--:|--:|--:|{}\n",
             has_telemetry ? " meanwhile |" : "", has_telemetry ? "---|" : "") +
         rows_within(rows, kTimesShare) +
         "\nThe floor is the time of the launches and, of each launch, the longer of two times: copying its "
         "bytes (inputs read once, outputs written once, and of what launches pass to each other as much "
         "as the cache cannot hold) at the measured bandwidth, and doing its flops at the measured rate of "
         "products. 100 % is that speed. A little more is possible: memory can be read faster than copied, "
         "which favours a path that reads more than it writes. A time that would need more than the "
         "measured read bandwidth, or 1.25 times the measured rate of products, is called implausible. "
         "Times drift if they change while they are taken, as on a GPU that meets its power limit.\n\n";
}

std::string not_run_in_markdown(const Record& record) {
  std::vector<std::string> rows;
  for (const NotRun& path : record.not_run) {
    rows.push_back(fmt::format("- {}: {}\n", code(path.op + "/" + path.path), escape(path.reason)));
  }
  return rows.empty() ? "" : "## Not run\n\n" + rows_within(rows, kNotRunShare) + "\n";
}

}  // namespace

std::string render_markdown(const Record& record) {
  const std::vector<FailureBlock> blocks = failure_blocks(record);
  const std::string judged = record.specimens.empty()
                                 ? paths_section(record, blocks) + failures_section(record, blocks)
                                 : specimens_section(record);
  return "# Assay\n\n**" + escape(render_headline(record)) + "**\n\n" + run_lines(record) +
         machine_in_markdown(record) + judged + stages_section(record) + times_section(record) +
         not_run_in_markdown(record);
}

}  // namespace assay
