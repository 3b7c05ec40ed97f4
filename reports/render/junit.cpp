// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "reports/render/render.h"
#include "reports/render/summary.h"
#include "reports/render/text.h"

namespace assay {
namespace {

std::string property(std::string_view name, const std::string& value) {
  return fmt::format("        <property name=\"{}\" value=\"{}\"/>\n", name, escape_markup(value));
}

std::string perf_properties(const Perf& perf) {
  const std::string_view cache = name_of(perf.cache);
  return property(fmt::format("{}.median_ns", cache), fmt::format("{}", perf.median_ns)) +
         (perf.fraction_of_floor ? property(fmt::format("{}.fraction_of_floor", cache),
                                            fmt::format("{}", *perf.fraction_of_floor))
                                 : "");
}

std::string properties(const CaseRecord& item) {
  std::string text = property("device", item.device) + property("recipe", item.recipe);
  for (const OutputNumerics& output : item.verdict.outputs) {
    const Comparison& seen = output.comparison;
    const std::string name = escape_markup(output.name);
    text += property(name + ".max_error_over_bound", fmt::format("{}", seen.max_error_over_bound));
    text += property(name + ".max_ulp", fmt::format("{}", seen.max_ulp));
    if (const auto normwise = seen.rel_l2()) text += property(name + ".rel_l2", fmt::format("{}", *normwise));
  }
  if (item.perf) text += perf_properties(*item.perf);
  if (item.perf_warm) text += perf_properties(*item.perf_warm);
  return "      <properties>\n" + text + "      </properties>\n";
}

std::string outcome(const CaseRecord& item) {
  const std::string reason = escape_markup(item.verdict.reason);
  const std::string_view verdict = name_of(item.verdict.kind);
  if (is_failure(item.verdict.kind)) {
    const std::string origin =
        item.shrunk_from ? "\nshrunk from " + escape_markup(item.shrunk_from->to_string()) : std::string();
    return fmt::format("      <failure type=\"{}\" message=\"{}\">{}{}\n{}</failure>\n", verdict, reason,
                       reason, origin, escape_markup(replay_command(item.which)));
  }
  if (item.verdict.kind == VerdictKind::kPass) return "";
  return fmt::format("      <skipped message=\"{}: {}\"/>\n", verdict, reason);
}

std::string test_case(const CaseRecord& item) {
  return fmt::format("    <testcase classname=\"{}.{}\" name=\"{}\">\n{}{}    </testcase>\n",
                     escape_markup(item.which.op), escape_markup(item.which.path),
                     escape_markup(item.which.to_string()), properties(item), outcome(item));
}

std::string counts(const Tally& tally, int64_t errors = 0) {
  return fmt::format("tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\"", tally.all() + errors,
                     tally.failures(), errors, tally.unsupported + tally.skipped);
}

// A run that did not complete is an error of its own.
std::string interruption_suite(const Record& record) {
  if (record.complete) return "";
  return fmt::format(
      "  <testsuite name=\"the run\" {}>\n    <testcase classname=\"assay\" name=\"the run\">\n"
      "      <error message=\"{}\"/>\n    </testcase>\n  </testsuite>\n",
      counts({}, 1), escape_markup(render_interruption(record)));
}

}  // namespace

std::string render_junit(const Record& record) {
  struct Suite {
    Tally tally;
    std::string cases;
  };
  std::map<std::string, Suite> suites;
  for (const CaseRecord& item : record.cases) {
    Suite& suite = suites[item.which.op + "/" + item.which.path];
    ++suite.tally[item.verdict.kind];
    suite.cases += test_case(item);
  }
  std::string text = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"assay\" {} time=\"{:.3f}\">\n",
      counts(tally(record.cases), record.complete ? 0 : 1), record.seconds);
  text += interruption_suite(record);
  for (const auto& [name, suite] : suites) {
    text += fmt::format("  <testsuite name=\"{}\" {} timestamp=\"{}\">\n{}  </testsuite>\n",
                        escape_markup(name), counts(suite.tally), escape_markup(record.started), suite.cases);
  }
  return text + "</testsuites>\n";
}

}  // namespace assay
