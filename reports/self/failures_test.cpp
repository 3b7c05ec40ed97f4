// SPDX-License-Identifier: Apache-2.0
#include "reports/render/failures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "reports/record/tally.h"
#include "reports/render/render.h"
#include "reports/self/fixture.h"

namespace assay {
namespace {

CaseRecord failing(std::string_view line, std::optional<bool> alone = {}) {
  CaseRecord item;
  item.which = parse_case(line);
  item.device = "cpu";
  item.verdict = {.kind = VerdictKind::kFail, .reason = "so it is", .outputs = {}, .fails_alone = alone};
  return item;
}

std::string smallest(const std::vector<CaseRecord>& cases) {
  Record record;
  record.cases = cases;
  const std::vector<FailureBlock> blocks = failure_blocks(record);
  EXPECT_EQ(blocks.size(), 1u);
  EXPECT_EQ(blocks.front().cases, std::ssize(cases));
  return blocks.front().smallest->which.to_string().substr(0, 12);
}

TEST(Failures, HaveABlockForEachPathAndKind) {
  Record record = example_record(2);
  const std::vector<FailureBlock> blocks = failure_blocks(record);
  std::vector<VerdictKind> kinds;
  for (const FailureBlock& block : blocks) kinds.push_back(block.kind);
  using enum VerdictKind;
  EXPECT_EQ(kinds, (std::vector{kFail, kMistrusted, kCrashed, kTimeout}));
  EXPECT_EQ(describe(blocks[0]), "2 of 14 judged cases");
  EXPECT_EQ(describe(blocks[2]), "1 of 14 judged cases");
  EXPECT_EQ(anchor_of(blocks, "dynamic_conv_grad", "cuda", "cuda:0", kCrashed), "failure-3");
  EXPECT_EQ(anchor_of(blocks, "dynamic_conv_grad", "cuda", "cuda:1", kCrashed), "");
  record.cases.back() = record.cases[record.cases.size() - 3];
  record.cases.back().device = "cuda:1";
  EXPECT_EQ(failure_blocks(record).size(), 5u);
}

TEST(Failures, ShowTheSmallestThatFailsAlone) {
  const CaseRecord large = failing("op/p/f32/n=3/m=2"), small = failing("op/p/f32/n=5/m=1");
  EXPECT_EQ(smallest({large, small}), "op/p/f32/n=5");
  EXPECT_EQ(smallest({small, large}), "op/p/f32/n=5");
  const CaseRecord alone = failing("op/p/f32/n=9/m=9", true), needy = failing("op/p/f32/n=2/m=2", false);
  EXPECT_EQ(smallest({small, needy, alone}), "op/p/f32/n=9");
  EXPECT_EQ(smallest({small, needy}), "op/p/f32/n=2");
}

TEST(Failures, AreReplayedByTheNameOfTheProgram) {
  Record record;
  record.cases = {failing("op/p/f32/n=1")};
  CaseRecord& item = record.cases.front();
  const std::string replay = " replay 'op/p/f32/n=1/data=normal/state=first_call/seed=0'";
  EXPECT_EQ(replay_command(record, item), "assay" + replay);
  record.command = {"build/gemm_assay", "verify"};
  EXPECT_EQ(replay_command(record, item), "build/gemm_assay" + replay);
  item.device = "cuda:1";
  EXPECT_EQ(replay_command(record, item), "build/gemm_assay" + replay + " --device cuda:1");
  record.timeout = "500ms";  // the case might end in a minute
  const std::string in_time = replay + " --device cuda:1 --timeout 500ms";
  EXPECT_EQ(replay_command(record, item), "build/gemm_assay" + in_time);
}

// No path made these outputs, so no replay judges them again.
TEST(Failures, OfGivenOutputsAreJudgedAgain) {
  Record record;
  record.command = {"assay", "judge"};
  record.cases = {failing("op/p/f32/n=1")};
  record.given = GivenFiles{.in = "in 1.safetensors", .got = "out.safetensors"};
  const std::string judge = "assay judge 'op/p/f32/n=1/data=normal/state=first_call/seed=0'";
  EXPECT_EQ(replay_command(record, record.cases.front()),
            judge + " --in 'in 1.safetensors' --got out.safetensors");
  record.given->in.clear();
  EXPECT_EQ(replay_command(record, record.cases.front()), judge + " --got out.safetensors");
  for (const std::string& text :
       {render_failures(record, ""), render_markdown(record), render_html(record), render_junit(record)}) {
    EXPECT_TRUE(has(text, "--got out.safetensors"));
    EXPECT_FALSE(has(text, "assay replay"));
  }
}

TEST(Failures, OnATerminalNameTheirCapsuleBelowTheFolder) {
  const std::string text = render_failures(example_record(2), "my/out");
  EXPECT_EQ(count(text, "\n\n"), 4u);
  EXPECT_TRUE(text.ends_with("\n\n"));  // one sentence follows
  EXPECT_TRUE(has(text,
                  "\ncrashed: dynamic_conv_grad/cuda on cuda:0: 1 of 14 judged cases\n"
                  "         an illegal memory access was encountered\n         assay replay '"));
  EXPECT_TRUE(has(text, "         its tensors: my/out/capsules/095-dynamic_conv_grad-cuda.safetensors\n"));
  EXPECT_FALSE(has(render_failures(example_record(2), ""), "its tensors"));
  Record green = example_record(2);
  std::erase_if(green.cases, [](const CaseRecord& item) { return is_failure(item.verdict.kind); });
  EXPECT_EQ(render_failures(green, "out"), "");
  for (const Record& record : odd_records()) {
    EXPECT_TRUE(std::ranges::none_of(render_failures(record, "out"), [](char c) {
      return c != '\n' && static_cast<unsigned char>(c) < 0x20;
    }));
  }
}

TEST(Specimens, NeedTheCasesUpToTheFirstFailure) {
  const Record record = specimens_record();
  const std::vector<SpecimenSummary> specimens = summarize_specimens(record);
  ASSERT_EQ(specimens.size(), 3u);
  EXPECT_EQ(specimens[0].cases, 9);
  EXPECT_EQ(specimens[0].caught, nullptr);
  EXPECT_EQ(specimens[1].cases, 10);
  EXPECT_DOUBLE_EQ(specimens[1].seconds, 2.5);
  ASSERT_NE(specimens[1].caught, nullptr);
  EXPECT_EQ(specimens[1].caught->verdict.kind, VerdictKind::kFail);
  EXPECT_EQ(specimens[2].cases, 0);
  EXPECT_EQ(to_json(record)["specimens"][1]["cases"], 10);
  EXPECT_EQ(to_json(record)["specimens"][1]["caught"], true);
}

// Such a time may be that of a wrong ceiling, so what a case says comes first.
TEST(Specimens, AreCaughtByAnImpossibleTimeIfNoCaseFails) {
  Record record = specimens_record();
  for (CaseRecord& item : record.cases) {
    item.perf.emplace();
    item.perf->implausible = "faster than memory";
  }
  const std::vector<SpecimenSummary> specimens = summarize_specimens(record);
  ASSERT_NE(specimens[0].caught, nullptr);
  EXPECT_EQ(specimens[0].cases, 9);
  EXPECT_EQ(caught_by(*specimens[0].caught), "its time is implausible: faster than memory");
  ASSERT_NE(specimens[1].caught, nullptr);
  EXPECT_EQ(specimens[1].caught->verdict.kind, VerdictKind::kFail);
  EXPECT_EQ(caught_by(*specimens[1].caught), specimens[1].caught->verdict.reason);
}

TEST(Specimens, ArePassedIfAllAreCaught) {
  Record record = specimens_record();
  EXPECT_EQ(outcome_of(record).failed, 2);
  EXPECT_EQ(render_headline(record),
            "1 of 3 specimens caught, after 10 cases; dynamic_conv_grad/cpu survived.");
  record.complete = false;
  EXPECT_EQ(outcome_of(record).failed, 0);  // nobody knows yet
  Record interrupted = record;
  std::erase_if(interrupted.cases, [](const CaseRecord& item) { return item.which.path == "cuda"; });
  EXPECT_EQ(summarize_specimens(interrupted)[0].cases, 0);
  record.complete = true;
  record.specimens.erase(record.specimens.begin());
  record.specimens.pop_back();
  EXPECT_EQ(outcome_of(record).failed, 0);
  EXPECT_EQ(outcome_of(record).passed, 1);
  EXPECT_EQ(render_headline(record), "The only specimen is caught, after 10 cases.");
}

TEST(Specimens, HaveALineEach) {
  const std::string table = render_table(specimens_record());
  const auto line = [](std::string_view name, std::string_view cases, std::string_view outcome,
                       std::string_view fault) {
    return fmt::format("{:24}  {:>5}  {:10}  {}\n", name, cases, outcome, fault);
  };
  EXPECT_EQ(table, line("specimen", "cases", "outcome", "fault") +
                       line("dynamic_conv_grad/cpu", "9", "SURVIVED", "nothing is wrong") +
                       line("dynamic_conv_grad/cuda", "10", "caught", "much is wrong") +
                       line("dynamic_conv_grad/absent", "0", "not judged", "nobody knows"));
  const std::string narrow = render_table(specimens_record(), false, 56);
  EXPECT_TRUE(has(narrow, "\ndynamic_conv_grad/cuda       10  caught\n    much is wrong\n")) << narrow;
  EXPECT_TRUE(has(render_table(specimens_record(), false, 12), "\n    nothing\n    is wrong\n"));
  EXPECT_EQ(render_failures(specimens_record(), "out"), "");
  EXPECT_TRUE(has(render_markdown(specimens_record()), "| nothing is wrong | 9 | **survived** |"));
}

TEST(Specimens, ThatAreHostileSayByWhichRuleTheyAreCaught) {
  Record record = specimens_record();
  const auto caught = std::ranges::find(record.specimens, "cuda", &SpecimenRecord::path);
  ASSERT_NE(caught, record.specimens.end());
  caught->path = "hostile.cuda";
  for (CaseRecord& item : record.cases) {
    if (item.which.path == "cuda") item.which.path = "hostile.cuda";
    if (is_failure(item.verdict.kind)) item.verdict.reason = "a call changed its inputs; the first is x";
  }
  const std::string table = render_table(record);
  EXPECT_TRUE(has(table, "  much is wrong; caught: a call changed its inputs\n")) << table;
  EXPECT_TRUE(has(table, "  nothing is wrong\n")) << table;
}

}  // namespace
}  // namespace assay
