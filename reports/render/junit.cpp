// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "reports/record/tally.h"
#include "reports/render/failures.h"
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
  std::string text = property("device", item.device) + property("recipe", item.verdict.recipe);
  for (const OutputNumerics& output : item.verdict.outputs) {
    const Comparison& seen = output.comparison;
    const std::string name = escape_markup(output.name);
    text += property(name + ".max_error_over_bound", fmt::format("{}", seen.max_error_over_bound));
    text += property(name + ".max_ulp", fmt::format("{}", seen.max_ulp));
    if (const auto normwise = seen.rel_l2()) text += property(name + ".rel_l2", fmt::format("{}", *normwise));
  }
  if (item.perf) text += perf_properties(*item.perf);
  if (item.perf_warm) text += perf_properties(*item.perf_warm);
  if (!item.capsule.empty()) text += property("capsule", item.capsule);
  return "      <properties>\n" + text + "      </properties>\n";
}

bool is_error(VerdictKind kind) {
  return kind == VerdictKind::kCrashed || kind == VerdictKind::kTimeout;
}

std::string outcome(const Record& record, const CaseRecord& item) {
  const std::string reason = escape_markup(item.verdict.reason);
  const std::string_view verdict = name_of(item.verdict.kind);
  if (is_failure(item.verdict.kind)) {
    std::string more;
    if (item.shrunk_from) more += "\nshrunk from " + escape_markup(item.shrunk_from->to_string());
    if (!item.capsule.empty()) more += "\nits tensors: " + escape_markup(item.capsule);
    const char* const element = is_error(item.verdict.kind) ? "error" : "failure";
    return fmt::format("      <{0} type=\"{1}\" message=\"{2}\">{2}{3}\n{4}</{0}>\n", element, verdict,
                       reason, more, escape_markup(replay_command(record, item)));
  }
  if (item.verdict.kind == VerdictKind::kPass) return "";
  return fmt::format("      <skipped message=\"{}: {}\"/>\n", verdict, reason);
}

// Records of older versions do not know how long a case took.
std::string time_of(const std::optional<double>& seconds) {
  return seconds ? fmt::format(" time=\"{:.6f}\"", *seconds) : "";
}

std::string test_case(const Record& record, const CaseRecord& item) {
  return fmt::format("    <testcase classname=\"{}.{}\" name=\"{}\"{}>\n{}{}    </testcase>\n",
                     escape_markup(item.which.op), record.given ? "given" : escape_markup(item.which.path),
                     escape_markup(item.which.to_string()), time_of(item.seconds), properties(item),
                     outcome(record, item));
}

struct Suite {
  int64_t tests = 0, failures = 0, errors = 0, skipped = 0;
  std::optional<double> seconds = {};
  std::string cases = {};

  void add(const CaseRecord& item, std::string text) {
    const VerdictKind kind = item.verdict.kind;
    ++tests;
    if (is_error(kind)) ++errors;
    if (is_failure(kind) && !is_error(kind)) ++failures;
    if (!is_failure(kind) && kind != VerdictKind::kPass) ++skipped;
    if (item.seconds) seconds = seconds.value_or(0) + *item.seconds;
    cases += std::move(text);
  }
  void add(const Suite& other) {
    tests += other.tests;
    failures += other.failures;
    errors += other.errors;
    skipped += other.skipped;
  }
  std::string counts() const {
    return fmt::format("tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\"", tests, failures, errors,
                       skipped);
  }
};
using Suites = std::map<std::string, Suite>;

Suites suites_of_paths(const Record& record) {
  Suites suites;
  for (const CaseRecord& item : record.cases)
    suites[item.which.op + "/" + item.which.path].add(item, test_case(record, item));
  return suites;
}

Suites suites_of_specimens(const Record& record) {
  Suites suites;
  for (const auto& [specimen, cases, caught, seconds] : summarize_specimens(record)) {
    Suite& suite = suites[specimen->op];
    const bool survived = caught == nullptr && cases > 0;
    ++suite.tests;
    suite.failures += survived ? 1 : 0;
    suite.skipped += cases == 0 ? 1 : 0;
    suite.seconds = suite.seconds.value_or(0) + seconds;
    const std::string name = escape_markup(specimen->path), fault = escape_markup(specimen->fault);
    suite.cases += fmt::format(
        "    <testcase classname=\"{}\" name=\"{}\"{}>\n{}{}    </testcase>\n", escape_markup(specimen->op),
        name, time_of(seconds),
        survived ? fmt::format("      <failure type=\"survived\" message=\"{}: {} found nothing\"/>\n", fault,
                               plural(cases, "case"))
                 : "",
        cases == 0 ? "      <skipped message=\"not judged\"/>\n" : "");
  }
  return suites;
}

// A run that did not complete is an error of its own.
Suite interruption(const Record& record) {
  return {.tests = 1,
          .errors = 1,
          .cases = fmt::format("    <testcase classname=\"assay\" name=\"the run\"{}>\n      <error "
                               "message=\"{}\"/>\n    </testcase>\n",
                               time_of(0), escape_markup(render_interruption(record)))};
}

}  // namespace

std::string render_junit(const Record& record) {
  Suites suites = record.specimens.empty() ? suites_of_paths(record) : suites_of_specimens(record);
  if (!record.complete) suites["the run"] = interruption(record);
  Suite all;
  for (const auto& [name, suite] : suites) all.add(suite);
  std::string text = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"assay\" {} time=\"{:.3f}\">\n",
      all.counts(), record.seconds);
  for (const auto& [name, suite] : suites) {
    text += fmt::format("  <testsuite name=\"{}\" {}{} timestamp=\"{}\">\n{}  </testsuite>\n",
                        escape_markup(name), suite.counts(), time_of(suite.seconds),
                        escape_markup(record.started), suite.cases);
  }
  return text + "</testsuites>\n";
}

}  // namespace assay
