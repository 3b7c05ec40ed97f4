// SPDX-License-Identifier: Apache-2.0
// The XML and HTML that is rendered.
#include "reports/self/markup.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "reports/render/render.h"
#include "reports/render/text.h"
#include "reports/self/fixture.h"

namespace assay {
namespace {

TEST(Markup, TheCheckSeesFaults) {
  EXPECT_EQ(markup_fault("<a><b c=\"1\"/>text &amp; &#39;</a>"), "");
  EXPECT_NE(markup_fault("<a><b></a></b>"), "");
  EXPECT_NE(markup_fault("<a>"), "");
  EXPECT_NE(markup_fault("<a b=\"<\"/>"), "");
  EXPECT_NE(markup_fault("<a b=1/>"), "");
  EXPECT_NE(markup_fault("<a> & </a>"), "");
  EXPECT_NE(markup_fault("<a>\x01</a>"), "");
  EXPECT_NE(markup_fault("<a>]]></a>"), "");
  EXPECT_NE(markup_fault("<a/><b/>"), "");
}

TEST(JUnit, IsWellFormed) {
  EXPECT_EQ(markup_fault(render_junit(example_record())), "");
  for (const Record& record : odd_records()) EXPECT_EQ(markup_fault(render_junit(record)), "");
}

TEST(JUnit, MapsVerdicts) {
  const std::string text = render_junit(example_record(2));
  EXPECT_TRUE(has(text, "<testsuites name=\"assay\" tests=\"44\" failures=\"3\" errors=\"2\" skipped=\"2\""));
  EXPECT_EQ(count(text, "<testsuite "), 4u);
  EXPECT_EQ(count(text, "<testcase "), 44u);
  EXPECT_EQ(count(text, "<failure "), 3u);
  EXPECT_EQ(count(text, "<error "), 2u);
  EXPECT_EQ(count(text, "<skipped "), 2u);
  EXPECT_EQ(count(text, "assay replay &#39;"), 5u);
  EXPECT_TRUE(has(text, "<failure type=\"mistrusted\""));
  EXPECT_TRUE(has(text, "<error type=\"crashed\""));
  EXPECT_TRUE(has(text, "<error type=\"timeout\""));
  EXPECT_EQ(count(text, "\nits tensors: capsules/0"), 5u);
}

TEST(JUnit, SaysHowLongEachCaseTook) {
  Record record = example_record(2);
  EXPECT_EQ(count(render_junit(record), " time=\"0.250000\""), 44u);
  EXPECT_TRUE(has(render_junit(record),
                  "<testsuite name=\"dynamic_conv/cpu\" tests=\"9\" failures=\"0\" "
                  "errors=\"0\" skipped=\"0\" time=\"2.250000\""));
  for (CaseRecord& item : record.cases) item.seconds.reset();  // a record of an older version
  EXPECT_EQ(count(render_junit(record), " time="), 1u);
}

TEST(JUnit, FailsOnlyForSpecimensThatSurvive) {
  const std::string text = render_junit(specimens_record());
  EXPECT_TRUE(has(text, "<testsuites name=\"assay\" tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\""));
  EXPECT_TRUE(has(text, "message=\"nothing is wrong: 9 cases found nothing\""));
  EXPECT_TRUE(has(text, "name=\"cuda\" time="));
}

TEST(JUnit, AnInterruptionIsAnErrorOfItsOwn) {
  EXPECT_TRUE(has(render_junit(Record{}), "tests=\"1\" failures=\"0\" errors=\"1\""));
}

TEST(Html, IsOneFileWithoutNetwork) {
  const std::string page = render_html(example_record());
  for (const char* foreign : {"http:", "https:", "src=", "@import", "url(", "<link"})
    EXPECT_FALSE(has(page, foreign)) << foreign;
  EXPECT_EQ(count(page, "<script"), 2u);
  EXPECT_EQ(count(page, "class=\"command\""), 4u);
  EXPECT_TRUE(has(page, "prefers-color-scheme"));
  EXPECT_TRUE(has(page, "@media print"));
}

TEST(Html, LinksToTheSectionsThatAreThere) {
  std::vector<Record> records = odd_records();
  records.push_back(one_passing_case(0.5, 0.5));
  for (const Record& record : records) {
    const std::string page = render_html(record);
    EXPECT_EQ(count(page.substr(0, page.find("</nav>")), "<a href=\"#"), count(page, "<section id="));
    for (std::string_view id : {"specimens", "failures", "paths", "errors", "stages", "times", "not-run",
                                "machine", "all", "glossary"})
      EXPECT_EQ(has(page, fmt::format("<a href=\"#{}\"", id)),
                has(page, fmt::format("<section id=\"{}\"", id)));
  }
  const std::string green = render_html(records.back());
  EXPECT_FALSE(has(green, "#failures"));
  EXPECT_FALSE(has(green, "#times"));
  EXPECT_TRUE(has(green, "<a href=\"#paths\">How wrong</a>"));
}

TEST(Html, TheMatrixLinksToTheFailuresBelowIt) {
  const std::string page = render_html(example_record(2));
  EXPECT_LT(page.find("<section id=\"paths\""), page.find("<section id=\"failures\""));
  EXPECT_LT(page.find("<section id=\"failures\""), page.find("<section id=\"errors\""));
  // In bf16 the path fails, crashes and times out.
  for (int block : {1, 2, 3, 4}) EXPECT_EQ(count(page, fmt::format("id=\"failure-{}\"", block)), 1u) << block;
  EXPECT_TRUE(has(page, "<span class=\"crashed\"><a href=\"#failure-3\">!&nbsp;1&nbsp;crashed</a></span>"));
  EXPECT_EQ(count(page, "<a href=\"#failure-1\">"), 2u);  // of f32 and of bf16
  EXPECT_TRUE(has(page, "<code>capsules/093-dynamic_conv_grad-cuda.safetensors</code>"));
  EXPECT_FALSE(has(page, "#failure-5"));
}

TEST(Html, ShowsSpecimensInsteadOfFailures) {
  const std::string page = render_html(specimens_record());
  EXPECT_TRUE(has(page, "<span class=\"fail\">✗</span> 1 of 3 specimens caught, after "));
  EXPECT_TRUE(
      has(page, "<td>nothing is wrong<td class=\"number\">9<td><span class=\"fail\">✗&nbsp;survived"));
  EXPECT_TRUE(has(page, "<td>nobody knows<td class=\"number\">0<td><span class=\"fail\">✗&nbsp;not judged"));
  EXPECT_FALSE(has(page, "<section id=\"failures\""));
  EXPECT_FALSE(has(page, "<section id=\"paths\""));
}

TEST(Html, ExplainsWhatAVerdictAndTheFloorMean) {
  const std::string page = render_html(Record{});
  EXPECT_TRUE(has(page, "Every check held, and for this very case each of them could have failed."));
  EXPECT_TRUE(has(page, "nothing to judge, as in an empty problem"));
  for (const std::string& text : {page, render_markdown(example_record(0))}) {
    EXPECT_TRUE(has(text, "read faster than copied"));
    EXPECT_TRUE(has(text, "need more than the measured read bandwidth"));
  }
}

TEST(Html, KeepsHostileTextApart) {
  for (const Record& record : odd_records()) {
    const std::string page = render_html(record);
    EXPECT_EQ(count(page, "<script"), 2u);
    EXPECT_EQ(count(page, "</script"), 2u);
    EXPECT_FALSE(has(page, "<!--"));
    EXPECT_FALSE(has(page, "\x01"));
    EXPECT_FALSE(has(page, "<b>&"));
  }
}

TEST(Html, EmbedsItsDataAsJson) {
  for (const Record& record : odd_records()) {
    const std::string page = render_html(record);
    const std::string_view open = "<script type=\"application/json\" id=\"data\">";
    const size_t begin = page.find(open) + open.size();
    const Json data = Json::parse(page.substr(begin, page.find("</script>", begin) - begin));
    EXPECT_EQ(data["cases"].size(), record.cases.size());
  }
}

TEST(Html, LinksLeadToOneRowEach) {
  Record record = example_record(2);
  record.cases.push_back(record.cases.front());
  const std::string page = render_html(record);
  std::vector<std::string> ids;
  for (size_t at = page.find("<tr id="); at != std::string::npos; at = page.find("<tr id=", at + 1)) {
    ids.push_back(page.substr(at + 7, page.find(' ', at + 7) - at - 7));
  }
  EXPECT_EQ(ids.size(), record.cases.size());
  std::ranges::sort(ids);
  EXPECT_TRUE(std::ranges::adjacent_find(ids) == ids.end());
}

TEST(Html, StaysSmallForThousandsOfCases) {
  const Record record = example_record(250);
  ASSERT_GT(record.cases.size(), 3000u);
  EXPECT_LT(render_html(record).size(), 3'000'000u);
}

TEST(Html, ChartsHaveNoNonfiniteCoordinates) {
  for (const Record& record : odd_records()) {
    const std::string page = render_html(record);
    for (size_t at = page.find(" d=\"M"); at != std::string::npos; at = page.find(" d=\"M", at + 1)) {
      const std::string path = page.substr(at + 4, page.find('"', at + 4) - at - 4);
      EXPECT_FALSE(has(path, "n")) << path;
    }
  }
}

}  // namespace
}  // namespace assay
