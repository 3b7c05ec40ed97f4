// SPDX-License-Identifier: Apache-2.0
#include "reports/render/render.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "properties/self/marks.h"
#include "reports/program/terminal.h"
#include "reports/render/changes.h"
#include "reports/render/text.h"
#include "reports/self/fixture.h"

namespace assay {
namespace {

// ---- headline

TEST(Headline, SaysWhatHappened) {
  Record record = example_record(2);
  EXPECT_EQ(
      render_headline(record),
      "5 of 42 judged cases did not pass (2 fail, 1 mistrusted, 1 crashed, 1 timeout), on 1 of 4 paths: "
      "dynamic_conv_grad/cuda.");
  std::erase_if(record.cases, [](const CaseRecord& item) { return item.verdict.kind != VerdictKind::kPass; });
  EXPECT_TRUE(has(render_headline(record), "All 37 judged cases on 4 paths pass; the largest error is 0."));
  record.complete = false;
  EXPECT_TRUE(render_headline(record).starts_with("Interrupted after 37 cases. All 37"));
  EXPECT_TRUE(has(render_headline(interrupted_record()), "of 1,414 cases, in "));
  EXPECT_EQ(render_headline(Record{}), "Not complete. Nothing was judged.");
  record = one_passing_case(0, 0);
  record.cases.front().verdict = {.kind = VerdictKind::kSkipped, .reason = "too large", .outputs = {}};
  EXPECT_EQ(render_headline(record), "Nothing was judged: too large.");
  record.cases.resize(3, record.cases.front());
  record.cases.front().verdict.reason = "empty: there is nothing to compare.";
  EXPECT_EQ(render_headline(record), "Nothing was judged. 2 of 3 cases: too large.");
  record.cases.resize(1);
  EXPECT_EQ(render_headline(record), "Nothing was judged: empty: there is nothing to compare.");
}

TEST(Headline, SpeaksOfOneCaseAndOnePath) {
  Record record = example_record(2);
  std::erase_if(record.cases, [](const CaseRecord& item) { return !is_failure(item.verdict.kind); });
  EXPECT_EQ(render_headline(record),
            "5 of 5 judged cases did not pass (2 fail, 1 mistrusted, 1 crashed, 1 timeout), on "
            "dynamic_conv_grad/cuda.");
  record.cases.resize(1);
  EXPECT_EQ(render_headline(record),
            "The only judged case did not pass (1 fail), on dynamic_conv_grad/cuda.");
  record.cases = one_passing_case(0.5, 0.5).cases;
  EXPECT_EQ(render_headline(record), "The only judged case passes; the largest error is 0.500 of its bound.");
}

TEST(Headline, CountsUninformativeCasesApart) {
  Record record = one_passing_case(0.5, 0.5);
  const std::string passes = "The only judged case passes; the largest error is 0.500 of its bound";
  CaseRecord uninformative = record.cases.front();
  uninformative.verdict.kind = VerdictKind::kUninformative;
  record.cases.push_back(uninformative);
  EXPECT_EQ(render_headline(record), passes + "; 1 more case was uninformative.");
  record.cases.push_back(uninformative);
  EXPECT_EQ(render_headline(record), passes + "; 2 more cases were uninformative.");
}

// ---- numbers

TEST(Numbers, BelowTheirLimitAreNotShownAsTheLimit) {
  Record record = one_passing_case(0.9996, 0.9996);
  record.cases.front().verdict.outputs.front().comparison.worst.reset();
  EXPECT_TRUE(has(render_headline(record), "the largest error is 0.999 of its bound"));
  for (const std::string& text : {render_table(record), render_markdown(record), render_html(record)}) {
    EXPECT_TRUE(has(text, "0.999"));
    EXPECT_FALSE(has(text, "1.00"));
  }
  EXPECT_TRUE(has(render_markdown(record), "| 0.999 | 0.999 |"));
  EXPECT_TRUE(has(render_html(record), "<td>0.999<td>0.999<td>"));
}

TEST(Numbers, TheRmsStandsOverTheAllowedRms) {
  Record record = one_passing_case(0.25, 0.75);
  EXPECT_TRUE(has(render_markdown(record), "| 0.250 | 0.750 |"));
  EXPECT_TRUE(has(render_html(record), "<td>0.250<td>0.750<td>"));
  EXPECT_TRUE(has(render_html(record), "\"0.250\",\"0.750\""));
  OutputNumerics& output = record.cases.front().verdict.outputs.front();
  output.obeys_rms_law = false;
  EXPECT_TRUE(has(render_markdown(record), "| 0.250 | – |"));
  EXPECT_TRUE(has(render_html(record), "<td>0.250<td>–<td>"));
  EXPECT_TRUE(has(render_html(record), "\"0.250\",\"–\""));
  output.obeys_rms_law = true;
  output.conformity = Conformity{.rms = 0, .predicted = 0, .allowed = 0};
  EXPECT_TRUE(has(render_markdown(record), "| 0.250 | 0 |"));
}

TEST(Numbers, TheRmsStandsOverThatOfRightPaths) {
  Record record = one_passing_case(0.25, 0.75);  // of 5.3e-4, where right paths have 2.2e-4
  Comparison& seen = record.cases.front().verdict.outputs.front().comparison;
  seen.count = 8, seen.equal = 3;
  EXPECT_TRUE(has(render_markdown(record), "| 0.250 | 0.750 | 1.81 | 37.5 % |"));
  EXPECT_TRUE(has(render_html(record), "\"0.250\",\"0.750\",\"1.81\",\"37.5 %\""));
  EXPECT_TRUE(has(render_table(record), "error/bound   rms   equal"));
  seen.equal.reset();  // as in records of older versions
  EXPECT_TRUE(has(render_markdown(record), "| 0.250 | 0.750 | 1.81 | – |"));
  EXPECT_FALSE(has(render_table(record), "equal"));
}

// With the longest name of a path that is shipped.
TEST(Table, FitsATerminalWithBothNumbersOfConformity) {
  Record record = one_passing_case(0.25, 0.75);
  record.cases.front().which.op = "cheri_conv_norm_grad";
  record.cases.front().perf.reset();
  const std::string table = render_table(record, false, 80);
  EXPECT_TRUE(has(table, "   rms   equal\n")) << table;
  EXPECT_FALSE(has(table, "not judged"));  // of none
}

// ---- table

TEST(Table, DoesNotDependOnTheOrderOfTheCases) {
  Record record = example_record(2);
  for (CaseRecord& item : record.cases) item.perf.reset();  // "the first of the largest" does
  record.cases.front().which.dtype = DType::kF64;
  const std::string table = render_table(record);
  std::ranges::reverse(record.cases);
  EXPECT_EQ(render_table(record), table);
  size_t last = 0;
  for (std::string_view dtype : {"f64 ", " f32 ", " f16 ", "bf16 "}) {
    EXPECT_LT(last, table.find(dtype)) << dtype;
    last = table.find(dtype);
  }
}

TEST(Table, HasOneAlignedLinePerPath) {
  Record record = example_record(2);
  const std::string with_times = render_table(record);
  for (CaseRecord& item : record.cases) item.perf.reset();
  const std::string table = render_table(record);
  EXPECT_EQ(count(table, "\n"), 1u + 12 + 1);
  EXPECT_GT(count(with_times, "\n"), 1u + 12 + 1);  // a path has several timed problems
  EXPECT_TRUE(has(table, "dynamic_conv/cuda.f64 was not run: left out by --filter\n"));
  EXPECT_FALSE(has(table, "\x1b"));
  EXPECT_TRUE(has(render_table(example_record(2), true), "\x1b[31m3\x1b[0m"));
}

// The table of paths has the largest problem of each.
TEST(Table, HasALineForEachTimedProblemOfAPathWithSeveral) {
  Record record = one_passing_case(0.25, 0.75);
  record.cases.front().perf.emplace().median_ns = 7e3;
  const CaseRecord first = record.cases.front();
  EXPECT_EQ(count(render_table(record, false, 200), "timed problem"), 1u);
  record.cases.push_back(first);
  record.cases.back().which.dims = {{"b", 1}, {"t", 2}, {"d", 3}, {"w", 1}};
  record.cases.back().perf->median_ns = 4e3;
  const std::string table = render_table(record, false, 200);
  EXPECT_EQ(count(table, "timed problem"), 2u);
  EXPECT_TRUE(has(table, "  b=1 t=2 d=3 w=1")) << table;
  EXPECT_TRUE(has(table, "4.00 µs")) << table;
  for (int more = 0; more < 2; ++more) {
    record.cases.push_back(first);
    record.cases.back().device = "cuda:1";
  }
  for (int width : {50, 80}) {
    const std::string narrow = render_table(record, false, width);
    EXPECT_TRUE(has(narrow, "  b=1 t=2 d=3 w=1")) << narrow;
    EXPECT_TRUE(has(narrow, "cuda:1 ")) << narrow;
  }
}

TEST(Table, FitsTheTerminal) {
  for (int width : {60, 80, 100, 120, 200}) {
    std::string table = render_table(example_record(2), false, width);
    table.resize(table.find("dynamic_conv/cuda.f64 was"));
    size_t widest = 0;
    for (size_t begin = 0; begin < table.size();) {
      const size_t end = table.find('\n', begin);
      const std::string line = table.substr(begin, end - begin);
      widest = std::max(widest, static_cast<size_t>(
                                    std::ranges::count_if(line, [](char c) { return (c & 0xC0) != 0x80; })));
      begin = end + 1;
    }
    EXPECT_LE(widest, static_cast<size_t>(width));
    EXPECT_TRUE(has(table, "failed")) << width;
  }
  EXPECT_TRUE(has(render_table(example_record(2), false, 0), "path"));
}

TEST(Table, LeavesOutColumnsWithoutAValue) {
  Record record = example_record(2);
  for (CaseRecord& item : record.cases) item.perf.reset();
  const std::string table = render_table(record, false, 200);
  for (const char* title : {"timed problem", "median", "GB/s", "of floor"})
    EXPECT_FALSE(has(table, title)) << title;
  EXPECT_TRUE(has(table, "not judged"));
  EXPECT_TRUE(has(render_table(example_record(2), false, 200), "median"));
}

TEST(Table, SaysOnceWhyManyPathsWereNotRun) {
  Record record = example_record(0);
  record.not_run.clear();
  for (int i = 0; i < 16; ++i) record.not_run.push_back({"op", fmt::format("cuda.{}", i), "no cuda device"});
  record.not_run.push_back({"op", "cpu", "does not serve f64"});
  const std::string table = render_table(record);
  EXPECT_TRUE(
      has(table, "\n16 paths were not run: no cuda device\nop/cpu was not run: does not serve f64\n"));
  EXPECT_EQ(count(table, "not run"), 2u);
}

TEST(Text, IsWrappedBetweenWords) {
  EXPECT_EQ(wrapped("one two three", 80), "one two three");
  EXPECT_EQ(wrapped("one two three", 8, 2), "one two\n  three");
  EXPECT_EQ(wrapped("one two three", 7, 2), "one two\n  three");
  EXPECT_EQ(wrapped("one two three", 6, 2), "one\n  two\n  three");
  EXPECT_EQ(wrapped("  one  two", 7, 4), "  one\n    two");
  EXPECT_EQ(wrapped("µs µs µs", 5), "µs µs\nµs");
  EXPECT_EQ(wrapped("longer_than_that and", 6, 2), "longer_than_that\n  and");
  EXPECT_EQ(wrapped("", 0, 4), "");
}

TEST(Text, BreaksAfterSemicolonsThenBetweenWords) {
  EXPECT_EQ(in_lines("one two; three four", 23, 4), "one two; three four");
  EXPECT_EQ(in_lines("one two; three four", 22, 4), "one two;\n    three four");
  EXPECT_EQ(in_lines("one two; three four; six", 10, 4), "one\n    two;\n    three\n    four;\n    six");
  EXPECT_EQ(in_lines("ends; ", 1, 2), "ends;");
  EXPECT_EQ(in_lines("", 0, 4), "");
}

TEST(Pace, SaysHowFarItIs) {
  Pace pace;
  pace.planned = 1414;
  EXPECT_EQ(describe(pace), "0 of 1,414");
  for (int i = 0; i < 812; ++i) pace.add(1 / 40.0);
  EXPECT_EQ(describe(pace), "812 of 1,414, 40 a second, 16 s left");
  pace.done += 602;  // a resumed run had judged them
  EXPECT_EQ(describe(pace), "1,414 of 1,414, 40 a second, 0 s left");
  Pace slow;
  slow.planned = 1000;
  slow.add(7);
  EXPECT_EQ(describe(slow), "1 of 1,000, 0.14 a second, 2 h left");
}

TEST(Pace, KnowsOfABudget) {
  Pace pace;
  pace.budget = 9000;
  pace.add(0.25);
  EXPECT_EQ(describe(pace), "1 case, 2 h left");  // too early for a rate
  pace.add(8999);
  EXPECT_EQ(describe(pace), "2 cases, 0.00022 a second, 1 s left");
}

TEST(Table, AnImplausibleTimeIsNoWin) {
  Record record = example_record(0);
  std::swap(record.cases.front(), record.cases[12]);
  record.cases.resize(1);
  ASSERT_TRUE(record.cases.front().perf->implausible);
  EXPECT_TRUE(has(render_table(record, false, 200), "implausible"));
  EXPECT_FALSE(has(render_html(record), "at best"));
  EXPECT_TRUE(has(render_html(record), "1 implausible time"));
  record.cases.front().perf->implausible.reset();
  EXPECT_TRUE(has(render_html(record), "at best"));
}

TEST(Times, SayThatTheyDrift) {
  Record record = example_record(0);
  EXPECT_FALSE(has(render_markdown(record), "drifts: "));
  EXPECT_FALSE(has(render_html(record), "drifts: "));
  for (CaseRecord& item : record.cases) {
    if (item.perf) item.perf->samples_ns = std::vector<double>(100, 2e3);
    if (item.perf) std::fill_n(item.perf->samples_ns.begin(), 10, 1e3);
  }
  constexpr std::string_view kText = "drifts: the first 10 calls took 1.00 µs, the last half 2.00 µs";
  EXPECT_TRUE(has(render_markdown(record), kText));
  EXPECT_TRUE(has(render_html(record), kText));
}

// ---- markdown

TEST(Markdown, HasVerdictFailuresAndTimes) {
  const std::string text = render_markdown(example_record(2));
  EXPECT_LT(text.find("5 of 42 judged cases did not pass"), text.find("## Machine"));
  EXPECT_EQ(count(text, "`assay replay '"), 4u);
  EXPECT_LT(text.find("## How wrong"), text.find("## Failures"));
  EXPECT_TRUE(has(text, "[1 crashed](#failure-3)"));
  EXPECT_EQ(count(text, "\n### Failure 3\n"), 1u);
  EXPECT_TRUE(has(text, "Its tensors: `capsules/093-dynamic_conv_grad-cuda.safetensors`"));
  EXPECT_EQ(count(text, "| cold |"), 13u);
  EXPECT_EQ(count(text, "| warm |"), 13u);
  EXPECT_TRUE(has(text, "implausible: "));
  EXPECT_TRUE(has(text, "left out by --filter"));
}

TEST(Markdown, SaysWhatEachStageAdds) {
  Record record = one_passing_case(0.5, 0.5);
  EXPECT_FALSE(has(render_markdown(record), "stage"));
  record.cases[0].verdict.outputs[0].shares = {{"norm", 1.5e-3, 1e-4}, {"product", 5e-4, 1.75e-5}};
  const std::string text = render_markdown(record);
  EXPECT_TRUE(has(text, "| norm | 0.00150 | 75.0 % | 0.000100 |"));
  EXPECT_TRUE(has(text, "| product | 0.000500 | 25.0 % | 1.75e-05 |"));
}

TEST(Markdown, StaysWithinItsLimit) {
  Record record = hostile_record();
  for (int i = 0; i < 6; ++i) {
    const std::vector<CaseRecord> twice = record.cases;
    record.cases.insert(record.cases.end(), twice.begin(), twice.end());
  }
  for (size_t i = 0; i < record.cases.size(); ++i) record.cases[i].which.path += std::to_string(i);
  const std::string huge(100'000, '*');
  record.machine.host_os = record.tool.git = record.tool.version = record.started = record.command.front() =
      huge;
  for (DeviceRecord& device : record.machine.devices) device.info.model = huge;
  record.not_run.assign(test::kIsSanitized ? 10 : 1000, {huge, huge, huge});
  const std::string text = render_markdown(record);
  EXPECT_LE(text.size(), kMarkdownLimit);
  EXPECT_TRUE(has(text, "more in report.html"));
  EXPECT_FALSE(has(render_markdown(example_record(2)), "more in report.html"));
}

TEST(Markdown, KeepsHostileTextApart) {
  const std::string text = render_markdown(hostile_record());
  EXPECT_FALSE(has(text, "\x01"));
  EXPECT_FALSE(has(text, "\n<"));
  // Outside of code spans a '<' is escaped; within them it is literal.
  bool in_code = false;
  for (char c : text) {
    if (c == '`') in_code = !in_code;
    EXPECT_FALSE(c == '<' && !in_code);
  }
}

// ---- benchmark.json

TEST(BenchmarkJson, HasTheMedianOfEachTime) {
  const Record record = example_record(0);
  const Json json = Json::parse(render_benchmark_json(record));
  EXPECT_EQ(json["context"]["num_cpus"], 16);
  EXPECT_TRUE(json["context"]["caches"].is_array());
  ASSERT_EQ(json["benchmarks"].size(), 13u * 2);
  const CaseRecord& item = record.cases.front();
  const Json& first = json["benchmarks"][0];
  EXPECT_EQ(first["run_name"], item.which.to_string() + "/cache=cold");
  EXPECT_EQ(first["name"], first["run_name"].get<std::string>() + "_median");
  EXPECT_EQ(first["run_type"], "aggregate");
  EXPECT_EQ(first["aggregate_name"], "median");
  EXPECT_EQ(first["iterations"], 60);
  EXPECT_EQ(first["real_time"], item.perf->median_ns);
  EXPECT_EQ(first["time_unit"], "ns");
  EXPECT_DOUBLE_EQ(first["bytes_per_second"].get<double>(),
                   static_cast<double>(item.perf->bytes) / item.perf->median_ns * 1e9);
}

TEST(BenchmarkJson, EachNameStandsOnce) {
  std::set<std::string> names;
  const Json json = Json::parse(render_benchmark_json(example_record(2)));
  for (const Json& row : json["benchmarks"]) EXPECT_TRUE(names.insert(row["name"]).second) << row.dump();
}

TEST(BenchmarkJson, OddRecordsGiveNumbersOnly) {
  for (const Record& record : odd_records()) {
    const Json json = Json::parse(render_benchmark_json(record));
    for (const Json& row : json["benchmarks"]) {
      EXPECT_TRUE(row["real_time"].is_number()) << row.dump();
      EXPECT_TRUE(!row.contains("bytes_per_second") || row["bytes_per_second"].is_number());
    }
  }
}

// ---- changes

TEST(Changes, ShowsAnything) {
  std::vector<Record> records = odd_records();
  records.push_back(example_record());
  for (const Record& before : records) {
    for (const Record& after : records) {
      const Changes changes = changes_between({&before, 1}, {&after, 1});
      const std::string text = render_changes(changes, true);
      EXPECT_TRUE(std::ranges::none_of(
          text, [](char c) { return c != '\n' && static_cast<unsigned char>(c) < 0x20; }));
      EXPECT_TRUE(Json::accept(changes_json(changes)));
    }
  }
}

}  // namespace
}  // namespace assay
