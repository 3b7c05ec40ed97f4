// SPDX-License-Identifier: Apache-2.0
#include "reports/record/journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "kernels/core/error.h"
#include "reports/self/fixture.h"

namespace assay {
namespace {

// The lines of a run that left this record.
std::vector<std::string> lines_of(const Record& record) {
  Record begun = record;
  begun.complete = false;
  begun.cases.clear();
  begun.seconds = 0;
  for (DeviceRecord& device : begun.machine.devices) device.ceilings.reset();
  begun.not_run.clear();
  std::vector<std::string> lines{
      head_line(begun, {{"command", "run"}, {"--seed", "7"}}, {.pid = 41, .started = "then"})};
  double at = 0;
  for (const DeviceRecord& device : record.machine.devices) lines.push_back(device_line(at, device));
  for (const NotRun& path : record.not_run) lines.push_back(not_run_line(at, path));
  for (const CaseRecord& item : record.cases) {
    lines.push_back(running_line(at, item.shrunk_from.value_or(item.which), item.device));
    lines.push_back(case_line(at += 0.5, item));
  }
  return lines;
}

std::string text_of(const std::vector<std::string>& lines, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += lines[i];
  return text;
}

std::string text_of(const std::vector<std::string>& lines) {
  return text_of(lines, lines.size());
}

std::string error_of_journal(const std::string& text) {
  try {
    read_journal(text, "j");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::kUsage);
    return error.what();
  }
  return "no error";
}

TEST(Journal, FoldsToTheRecordOfItsRun) {
  Record record = example_record();
  record.complete = false;
  record.planned = 99;
  const std::string text = text_of(lines_of(record));
  const Journal journal = read_journal(text, "j");
  record.seconds = 0.5 * static_cast<double>(record.cases.size());
  EXPECT_EQ(record_text(journal.record), record_text(record));
  EXPECT_EQ(journal.bytes, text.size());
  EXPECT_EQ(journal.options, (std::map<std::string, std::string>{{"command", "run"}, {"--seed", "7"}}));
  EXPECT_EQ(journal.writer.pid, 41);
  EXPECT_TRUE(journal.begun["cases"].empty());
}

// A process that is killed while it writes leaves part of a line.
TEST(Journal, TakesEveryCutOfItsLastLine) {
  const std::vector<std::string> lines = lines_of(example_record(1));
  const std::string whole = text_of(lines, lines.size() - 1);
  const size_t cases = read_journal(whole, "j").record.cases.size();
  for (size_t length = 0; length < lines.back().size(); ++length) {
    const Journal journal = read_journal(whole + lines.back().substr(0, length), "j");
    EXPECT_EQ(journal.record.cases.size(), cases);
    EXPECT_EQ(journal.bytes, whole.size());
    EXPECT_TRUE(journal.record.running.has_value());
  }
  EXPECT_EQ(read_journal(whole + "{\"at\": 1, \"ca\n", "j").bytes, whole.size());
  EXPECT_EQ(read_journal(whole + lines.back(), "j").record.cases.size(), cases + 1);
  EXPECT_FALSE(read_journal(whole + lines.back(), "j").record.running.has_value());
}

TEST(Journal, NamesTheProcessThatWentOn) {
  const std::string text =
      text_of(lines_of(example_record(1))) + resumed_line(100, {.pid = 42, .started = "now"});
  const Journal journal = read_journal(text, "j");
  EXPECT_EQ(journal.writer.pid, 42);
  EXPECT_EQ(journal.writer.started, "now");
  EXPECT_EQ(journal.record.seconds, 100);
}

TEST(Journal, KnowsHowLongEachPathTook) {
  Record begun;
  std::string text = head_line(begun, {}, {.pid = 1, .started = ""});
  const Case a = parse_case("op/a/f32/n=1"), b = parse_case("op/b/f32/n=1");
  const auto judged = [](const Case& which, double at) {
    CaseRecord item;
    item.which = which;
    item.device = "cpu";
    return case_line(at, item);
  };
  text += running_line(1, a, "cpu") + judged(a, 3) + running_line(3.5, a, "cpu") + judged(a, 4);
  text += running_line(10, b, "cpu") + judged(b, 11) + running_line(20, b, "cuda:0");
  EXPECT_EQ(read_journal(text, "j").spent,
            (std::map<std::string, double>{{"op/a cpu", 3}, {"op/b cpu", 1}, {"op/b cuda:0", 0}}));
}

TEST(Journal, CountsTheTimeoutsOfEachPath) {
  std::string text = head_line(Record{}, {}, {.pid = 1, .started = ""});
  const auto judged = [](const char* which, int timeouts) {
    CaseRecord item;
    item.which = parse_case(which);
    item.device = "cpu";
    return case_line(1, item, timeouts);
  };
  text += judged("op/a/f32/n=1", 1) + judged("op/a/f32/n=2", 0) + judged("op/a/f32/n=3", 2);
  EXPECT_TRUE(read_journal(text + judged("op/b/f32/n=1", 0), "j").timeouts ==
              (std::map<std::string, int>{{"op/a cpu", 3}}));
  EXPECT_EQ(judged("op/b/f32/n=1", 0).find("timeouts"), std::string::npos);
}

TEST(Journal, RefusesWhatIsNone) {
  const std::string head = lines_of(example_record(1)).front();
  EXPECT_EQ(error_of_journal(""), "j: the run ended before it began");
  EXPECT_EQ(error_of_journal(head.substr(0, 40)), "j: the run ended before it began");
  EXPECT_EQ(error_of_journal("[]\n"),
            "j: not a journal of assay: its first line has no schema assay.journal/1");
  EXPECT_EQ(error_of_journal("{\"schema\": \"assay.run/1\"}\n"),
            "j: not a journal of assay: its first line has no schema assay.journal/1");
  EXPECT_THAT(error_of_journal(head + "x\n{}\n"), testing::StartsWith("j: line 2: not JSON"));
  EXPECT_EQ(error_of_journal(head + "7\n"), "j: a line is a number, expected an object");
  EXPECT_EQ(error_of_journal(head + "{}\n"), "j: at is missing");
  EXPECT_EQ(error_of_journal(head + "{\"at\": 1}\n"),
            "j: a line has none of the fields that this program knows");
  EXPECT_EQ(error_of_journal(head + "{\"at\": 1, \"case\": {}}\n"),
            "j: case.id is not a case: j: case.id is missing");
}

}  // namespace
}  // namespace assay
