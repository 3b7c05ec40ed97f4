// SPDX-License-Identifier: Apache-2.0
// Foreign text enters only through escape_markup(), or through embedded_details().
#include <algorithm>
#include <map>
#include <set>

#include "reports/record/tally.h"
#include "reports/render/html_assets.h"
#include "reports/render/html_charts.h"
#include "reports/render/html_details.h"
#include "reports/render/html_paths.h"
#include "reports/render/render.h"
#include "reports/render/size_charts.h"
#include "reports/render/summary.h"
#include "reports/render/telemetry.h"
#include "reports/render/text.h"

namespace assay {
namespace {

constexpr std::string_view kDash = "–";

struct Section {
  std::string_view id;
  std::string title;
  std::string content;  // left out if empty
};

// The anchor of each case: an FNV-1a hash of its line, so that a link also works in later reports.
std::vector<std::string> anchors_of(const std::vector<CaseRecord>& cases) {
  std::vector<std::string> anchors;
  std::map<uint32_t, int> uses;
  for (const CaseRecord& item : cases) {
    uint32_t hash = 2166136261u;
    for (char c : item.which.to_string()) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
    const int use = uses[hash]++;
    anchors.push_back(use == 0 ? fmt::format("c{:08x}", hash) : fmt::format("c{:08x}-{}", hash, use + 1));
  }
  return anchors;
}

// ---- head

std::string head_section(const Record& record, const std::string& links) {
  const auto [failed, passed] = outcome_of(record);
  const VerdictKind outcome = failed > 0                      ? VerdictKind::kFail
                              : passed > 0 && record.complete ? VerdictKind::kPass
                                                              : VerdictKind::kMistrusted;
  std::string command;
  for (const std::string& word : record.command) command += (command.empty() ? "" : " ") + word;
  std::string devices;
  for (const DeviceRecord& device : record.machine.devices) {
    devices += fmt::format("{}{}: {}", devices.empty() ? "" : " · ", device.info.name(),
                           escape_markup(device.info.model));
  }
  return fmt::format(
      "<header><div class=\"brand\">Assay</div><h1><span class=\"{}\">{}</span> {}</h1>\n"
      "<div class=\"muted\">{}</div><div class=\"muted\">{} · {} s · seed {} · assay {}, {}{} · {}, "
      "{}</div>\n<div "
      "class=\"muted\"><code>{}</code></div>\n"
      "<nav>{}</nav></header>\n",
      name_of(outcome), sign_of(outcome), escape_markup(render_headline(record)), devices,
      escape_markup(record.started), format_number(record.seconds), record.seed,
      escape_markup(record.tool.version), escape_markup(record.tool.git.substr(0, 12)),
      record.tool.dirty ? " with local changes" : "", escape_markup(record.tool.compiler),
      escape_markup(record.tool.build), escape_markup(command), links);
}

std::string machine_section(const Record& record) {
  const MachineRecord& machine = record.machine;
  std::string rows;
  for (const DeviceRecord& device : machine.devices) {
    const bool is_cpu = device.info.kind == DeviceKind::kCpu;
    rows += fmt::format(
        "<tr><td>{}<td>{}<td>{}<td class=\"number\">{} {}<td class=\"number\">{}<td "
        "class=\"number\">{}<td>{}<td>{}<td>{}\n",
        device.info.name(), escape_markup(device.info.model),
        device.info.driver.empty() ? std::string(kDash) : escape_markup(device.info.driver),
        device.info.units, is_cpu ? "threads" : "SMs", format_bytes(device.info.memory_bytes),
        format_bytes(device.info.cache_bytes),
        device.ceilings ? fmt::format("{} <span class=\"muted\">{}</span>",
                                      format_rate(device.ceilings->copy_bytes_per_s),
                                      escape_markup(device.ceilings->copy_method))
                        : escape_markup(ceilings_missing(device)),
        device.ceilings ? format_rate(device.ceilings->read_bytes_per_s) : "not measured",
        format_products(device.ceilings));
  }
  std::string states;
  for (const std::string& line : states_of_devices(machine))
    states += fmt::format("<p>{}</p>\n", escape_markup(line));
  for (const std::string& line : disturbed_times(record))
    states += fmt::format("<p>{}</p>\n", escape_markup(line));
  return fmt::format(
      "<p>{}, {} memory</p><div class=\"scroll\"><table><thead><tr><th>device<th>model<th>driver"
      "<th class=\"number\">units<th class=\"number\">memory<th class=\"number\">last-level cache<th>copy, "
      "measured<th>read, measured<th>products, measured\n"
      "<tbody>{}</table></div>\n{}",
      escape_markup(machine.host_os), format_bytes(machine.memory_bytes), rows, states);
}

// ---- stages

std::string stages_card(const CaseRecord& item, const OutputNumerics& output, const std::string& anchor) {
  std::string rows;
  const std::vector<double> parts = parts_of_bound(output.shares);
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto& [stage, bound, rms] = output.shares[i];
    rows += fmt::format(
        "<tr><td>{}<td><span class=\"bar\"><i style=\"width:{:.0f}%\"></i></span><td class=\"number\">{}<td "
        "class=\"number\">{}<td class=\"number\">{}\n",
        escape_markup(stage), 100 * parts[i], format_percent(parts[i]), format_number(bound),
        format_number(rms));
  }
  return fmt::format(
      "<div class=\"card\"><h3><a href=\"#{}\">{}/{}</a> {}: {}</h3><div class=\"small muted\">{}</div>"
      "<table><tr class=\"muted\"><td><td><td class=\"number\">of all bounds<td class=\"number\">mean "
      "bound<td class=\"number\">rms\n{}</table></div>\n",
      anchor, escape_markup(item.which.op), escape_markup(item.which.path), name_of(item.which.dtype),
      escape_markup(output.name), escape_markup(format_dims(item.which.dims)), rows);
}

std::string stages_section(const Record& record, const std::vector<std::string>& anchors) {
  std::string cards;
  for (size_t i = 0; i < record.cases.size(); ++i) {
    for (const OutputNumerics& output : record.cases[i].verdict.outputs)
      if (!output.shares.empty()) cards += stages_card(record.cases[i], output, anchors[i]);
  }
  if (cards.empty()) return "";
  return "<p class=\"muted\">What each stage of the op does to the output if it alone is performed and all "
         "others are exact: the mean of the bounds, and the rms of a right path's error.</p>\n<div "
         "class=\"cards\">" +
         cards + "</div>\n";
}

// ---- times

std::string perf_row(const Perf& perf) {
  const std::string cycles = perf.telemetry ? render_cycles(*perf.telemetry) : "";
  const std::string meanwhile = perf.telemetry ? render_telemetry(*perf.telemetry) : "";
  std::string row = fmt::format(
      "<tr><td><span class=\"key {0}\"></span>{0}<td class=\"number\"><b>{1}</b>{6}<td class=\"number "
      "muted\">{2} – {3}"
      "<td class=\"number\">{4}<td class=\"number\">{5}\n",
      name_of(perf.cache), format_time(perf.median_ns), format_time(perf.ci95_ns[0]),
      format_time(perf.ci95_ns[1]), render_rates(perf, "<br>"), format_percent(perf.fraction_of_floor),
      cycles.empty() ? "" : "<br>" + cycles);
  if (!meanwhile.empty())
    row += fmt::format("<tr><td><td colspan=\"4\" class=\"small muted\">{}\n", escape_markup(meanwhile));
  if (perf.implausible) {
    row += fmt::format("<tr><td colspan=\"5\" class=\"implausible\">? implausible: {}\n",
                       escape_markup(*perf.implausible));
  }
  if (const std::string drift = render_drift(perf); !drift.empty()) {
    row += fmt::format("<tr><td colspan=\"5\" class=\"implausible\">? drifts: {}\n", drift);
  }
  return row;
}

std::string time_card(const CaseRecord& item, const std::string& anchor) {
  const Perf& any = item.perf ? *item.perf : *item.perf_warm;
  const std::string parts = any.floor_ns ? render_floor_parts(any) : "";
  return fmt::format(
      "<div class=\"card\"><h3><a href=\"#{}\">{}/{}</a> {}</h3><div class=\"small muted\">{} · {} · {}, "
      "{}</div>"
      "<table><tr class=\"muted\"><td><td class=\"number\">median<td class=\"number\">95 % interval<td "
      "class=\"number\">rate"
      "<td class=\"number\">of floor\n{}{}</table>{}{}</div>\n",
      anchor, escape_markup(item.which.op), escape_markup(item.which.path), name_of(item.which.dtype),
      escape_markup(format_dims(item.which.dims)), format_bytes(any.bytes),
      plural(static_cast<int64_t>(any.samples_ns.size()), "sample"), escape_markup(any.timer),
      item.perf ? perf_row(*item.perf) : "", item.perf_warm ? perf_row(*item.perf_warm) : "",
      parts.empty() ? ""
                    : fmt::format("<div class=\"small muted\">floor {} = {}</div>",
                                  format_time(*any.floor_ns), escape_markup(parts)),
      sample_chart(item));
}

std::string times_section(const Record& record, const std::vector<std::string>& anchors) {
  std::string cards;
  for (size_t i = 0; i < record.cases.size(); ++i) {
    const CaseRecord& item = record.cases[i];
    if (item.perf || item.perf_warm) cards += time_card(item, anchors[i]);
  }
  if (cards.empty()) return "";
  return "<p class=\"muted\">Each problem was judged just before it was timed. A curve shows the share of "
         "calls that took at most this time. A tick is a call, the dotted line is the floor.</p>\n<div "
         "class=\"cards\">" +
         cards + "</div>\n";
}

// ---- all cases

// Optional end tags are left out, since there are thousands of rows.
std::string case_row(const CaseRecord& item, const std::string& anchor) {
  const std::optional<Numbers> numbers = numbers_of(item);
  std::string row = fmt::format("<tr id={0} class={1}><td>{2} {1}<td><a href=#{0}>{3}</a>", anchor,
                                name_of(item.verdict.kind), sign_of(item.verdict.kind),
                                escape_markup(item.which.to_string()));
  if (numbers) {
    row += fmt::format("<td>{}<td>{}<td>{}<td>{}", format_ratio(numbers->max_error_over_bound),
                       format_ratio(numbers->rms_over_allowed), format_number(numbers->largest_error),
                       format_number(numbers->rel_l2));
  } else {
    row += fmt::format("<td>{0}<td>{0}<td>{0}<td>{0}", kDash);
  }
  if (!item.perf) return row + fmt::format("<td>{0}<td>{0}\n", kDash);
  row += fmt::format("<td data-value={:.0f}>{}", item.perf->median_ns, format_time(item.perf->median_ns));
  const std::optional<double>& fraction = item.perf->fraction_of_floor;
  if (!fraction) return row + fmt::format("<td>{}\n", kDash);
  return row + fmt::format("<td data-value={:.4f}>{}\n", *fraction, format_percent(fraction));
}

std::string cases_section(const Record& record, const std::vector<std::string>& anchors) {
  std::string text =
      "<div class=\"tools\" hidden><input type=\"search\" id=\"filter\" placeholder=\"filter: fail bf16 "
      "layout=strided\" "
      "aria-label=\"filter the cases\"><span class=\"muted\" id=\"shown\"></span>"
      "<span class=\"muted\">A case opens its details; a column head sorts.</span></div>\n"
      "<div><table id=\"cases\"><thead><tr><th>verdict<th>case<th>error/bound<th>rms/allowed<th>largest "
      "error<th>normwise<th>median"
      "<th>of floor\n<tbody>";
  for (size_t i = 0; i < record.cases.size(); ++i) text += case_row(record.cases[i], anchors[i]);
  return text + "</table></div>\n";
}

std::string not_run_section(const Record& record) {
  std::string items;
  for (const NotRun& path : record.not_run) {
    items += fmt::format("<dt><code>{}/{}</code></dt><dd>{}</dd>\n", escape_markup(path.op),
                         escape_markup(path.path), escape_markup(path.reason));
  }
  return items.empty() ? "" : "<dl>" + items + "</dl>\n";
}

}  // namespace

std::string render_html(const Record& record) {
  const std::vector<std::string> anchors = anchors_of(record.cases);
  // A specimen fails as it should.
  const bool is_of_paths = record.specimens.empty();
  const std::vector<PathSummary> paths = is_of_paths ? summarize(record) : std::vector<PathSummary>{};
  const std::vector<FailureBlock> blocks = is_of_paths ? failure_blocks(record) : std::vector<FailureBlock>{};
  const std::string charts = histograms(paths);
  std::string page = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>Assay: "
      "{}</title>\n<style>{}</style></head>\n<body>\n",
      escape_markup(render_headline(record)), kStylesheet);
  const std::vector<Section> sections{
      {"specimens", "Specimens", specimens_section(record, anchors)},
      {"paths", "How wrong", matrix_section(paths, blocks) + (blocks.empty() ? charts : "")},
      {"failures", "Failures", failures_section(record, blocks, anchors)},
      {"errors", "How close to the bounds", blocks.empty() ? "" : charts},
      {"stages", "What each stage adds", stages_section(record, anchors)},
      {"sizes", "Time over floor, by size", size_charts(record)},
      {"times", "How fast", times_section(record, anchors)},
      {"not-run", "Not run", not_run_section(record)},
      {"machine", "Machine", machine_section(record)},
      {"all", fmt::format("All {}", plural(static_cast<int64_t>(record.cases.size()), "case")),
       cases_section(record, anchors)},
      {"glossary", "Words", std::string(kGlossary)}};
  std::string links;
  std::string shown;
  for (const auto& [id, title, content] : sections) {
    if (content.empty()) continue;
    links += fmt::format("<a href=\"#{}\">{}</a>", id, title);
    shown += fmt::format("<section id=\"{}\"><h2>{}</h2>\n{}</section>\n", id, title, content);
  }
  page += head_section(record, links) + shown;
  page += embedded_details(record);
  return page + fmt::format("<script>{}</script>\n</body></html>\n", kScript);
}

}  // namespace assay
