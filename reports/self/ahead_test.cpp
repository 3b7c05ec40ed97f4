// SPDX-License-Identifier: Apache-2.0
// A worker runs the next case while one is judged (Isolation::expect). What is told of the case is
// held against runs that do without, and against one process. The workers are this program: main().
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "kernels/cheri/cheri.h"
#include "kernels/core/tuner.h"
#include "properties/core/fuzz.h"
#include "properties/core/registry.h"
#include "properties/self/marks.h"
#include "reports/program/judging.h"

namespace assay {
namespace {

constexpr std::string_view kOp = "cheri_conv_norm";  // its CPU path has configurations to force
constexpr const char* kNote = "AHEAD_TEST_NOTE";     // names a file

bool is_odd(const Dims& dims) {
  return dims[cheri::kC] % 2 != 0;
}

void write_note() {
  std::ofstream(std::getenv(kNote)) << "called";
}

// Paths that do something if c is odd. Each has a twin that can say what it refuses, so that it is
// asked in between.
const Registry& registry_of_paths() {
  static const std::vector<Op> ops = [] {
    Op op = registry().op(kOp);
    const Path right = op.path("cpu");
    op.paths = {right};
    const auto add = [&](std::string_view name, std::string_view twin, void (*act)()) {
      Path path = right;
      path.name = name;
      path.run = [run = right.run, act](const Call& call) {
        if (is_odd(call.dims)) act();
        run(call);
      };
      op.paths.push_back(path);
      path.name = twin;
      path.unsupported = [](const Dims& dims, DType) {
        return dims[cheri::kC] % 4 <= 1 ? std::nullopt : std::optional<std::string>("c % 4 > 1");
      };
      op.paths.push_back(path);
    };
    add("throws", "throws.twin", [] { throw unsupported_error("c is odd"); });
    add("unfit", "unfit.twin", [] { throw ForcedIsUnfit("c is odd"); });
    add("dies", "dies.twin", [] { std::abort(); });
    add("hangs", "hangs.twin", [] {
      for (;;) pause();
    });
    add("notes", "notes.twin", write_note);
    add("dies_once", "dies_once.twin", [] {
      if (std::filesystem::exists(std::getenv(kNote))) return;
      write_note();
      std::abort();
    });
    return std::vector{op};
  }();
  static const Registry all = [] {
    Registry made;
    made.add(ops, {registry().oracle(kOp)}, {}, {});
    return made;
  }();
  return all;
}

enum class Way { kAhead, kInTurn, kHere };

Options options_of(Way way, Seconds timeout) {
  Options options;
  options.command_line = {"assay"};
  options.isolate = way != Way::kHere;
  options.timeout = timeout;
  return options;
}

std::vector<Judged> judged(std::string_view path, Way way, FuzzOptions fuzzing) {
  const Subject subject = registry_of_paths().subject(kOp, path);
  const auto device = open_cpu();
  PathJudge judge(subject, *device, options_of(way, Seconds(0.3)));
  fuzzing.max_elements = 64;
  if (way != Way::kHere) {
    fuzzing.refuses = [&](const Case& which) { return judge.refuses(which); };
    fuzzing.alone = [&](const Case& which) { return judge.judge_alone(which); };
  }
  if (way == Way::kAhead) fuzzing.expects = [&](const Case& following) { judge.expect(following); };
  std::vector<Judged> all;
  fuzz(
      subject, [&](const Case& which) { return judge.judge(which); }, fuzzing,
      [&](const Judged& one) {
        all.push_back(one);
        return true;
      });
  return all;
}

const Case& drawn(const Judged& one) {
  return one.shrunk_from ? *one.shrunk_from : one.which;
}

// One line for each case; its reason is left out where nobody tells whether the case fails alone.
std::vector<std::string> told(const std::vector<Judged>& all, bool has_reasons = true) {
  std::vector<std::string> lines;
  for (const Judged& one : all) {
    lines.push_back(fmt::format("{} of {}: {} {}", one.which.to_string(), drawn(one).to_string(),
                                name_of(one.verdict.kind), has_reasons ? one.verdict.reason : ""));
  }
  return lines;
}

int64_t number_of(const std::vector<Judged>& all, VerdictKind kind) {
  return std::ranges::count_if(all, [&](const Judged& one) { return one.verdict.kind == kind; });
}

TEST(Ahead, ARefusalIsToldAsInOneProcess) {
  NOT_SANITIZED("its workers limit their memory");
  FuzzOptions fuzzing;
  fuzzing.cases = 40;
  fuzzing.max_shrinks = 10;
  for (std::string_view path : {"throws", "throws.twin"}) {
    SCOPED_TRACE(path);
    const std::vector<Judged> ahead = judged(path, Way::kAhead, fuzzing);
    EXPECT_EQ(told(ahead), told(judged(path, Way::kInTurn, fuzzing)));
    EXPECT_EQ(told(ahead, false), told(judged(path, Way::kHere, fuzzing), false));
    EXPECT_GT(number_of(ahead, VerdictKind::kPass), 0);
    EXPECT_GT(number_of(ahead, VerdictKind::kFail), 1);
    EXPECT_EQ(number_of(ahead, VerdictKind::kUnsupported) > 0, path == "throws.twin");
  }
}

// What an odd c costs: the verdict on each such case, and on no other.
void expect_for_odd(std::string_view path, VerdictKind kind, const FuzzOptions& fuzzing) {
  SCOPED_TRACE(path);
  const std::vector<Judged> ahead = judged(path, Way::kAhead, fuzzing);
  EXPECT_EQ(told(ahead), told(judged(path, Way::kInTurn, fuzzing)));
  EXPECT_EQ(std::ssize(ahead), fuzzing.cases);
  const auto passes_first = [&](const Judged& one, const Judged& next) {
    return one.verdict.kind == VerdictKind::kPass && next.verdict.kind == kind;
  };
  // A worker that lives on runs the next case ahead.
  EXPECT_NE(std::ranges::adjacent_find(ahead, passes_first), ahead.end());
  for (const Judged& one : ahead) {
    const bool is_judged =
        one.verdict.kind != VerdictKind::kUnsupported && one.verdict.kind != VerdictKind::kSkipped;
    EXPECT_EQ(one.verdict.kind == kind, is_judged && is_odd(drawn(one).dims)) << drawn(one).to_string();
    EXPECT_EQ(one.verdict.fails_alone == true, one.verdict.kind == kind) << one.verdict.reason;
  }
}

TEST(Ahead, ACrashIsToldAsInTurn) {
  NOT_SANITIZED("its workers limit their memory");
  FuzzOptions fuzzing;
  fuzzing.cases = 24;
  fuzzing.max_shrinks = 0;
  for (std::string_view path : {"dies", "dies.twin"}) expect_for_odd(path, VerdictKind::kCrashed, fuzzing);
}

TEST(Ahead, AHangIsToldAsInTurn) {
  NOT_SANITIZED("its workers limit their memory");
  FuzzOptions fuzzing;
  fuzzing.cases = 8;
  fuzzing.max_shrinks = 0;
  fuzzing.max_timeouts = 9;
  fuzzing.seed = 1;
  for (std::string_view path : {"hangs", "hangs.twin"}) expect_for_odd(path, VerdictKind::kTimeout, fuzzing);
}

class AheadOfTheJudge : public testing::Test {
 protected:
  void SetUp() override { setenv(kNote, note_.c_str(), 1); }
  void TearDown() override {
    std::filesystem::remove(note_);
    unsetenv(kNote);
  }

  bool is_called_soon() const {
    const auto start = std::chrono::steady_clock::now();
    while (!std::filesystem::exists(note_) && std::chrono::steady_clock::now() - start < Seconds(20))
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return std::filesystem::exists(note_);
  }

  // On a case with an even c, and what comes after it.
  static Case first_of(std::string_view path) {
    return parse_case(fmt::format("{}/{}/f32/n=2/l=5/c=4/dilation=1", kOp, path));
  }
  static Case second_of(std::string_view path) {
    return parse_case(fmt::format("{}/{}/f32/n=2/l=5/c=5/dilation=1", kOp, path));
  }

  std::filesystem::path note_ =
      std::filesystem::temp_directory_path() / fmt::format("assay-ahead-{}", getpid());
  std::unique_ptr<Device> device_ = open_cpu();
};

TEST_F(AheadOfTheJudge, ACaseRunsBeforeItIsJudged) {
  NOT_SANITIZED("its workers limit their memory");
  PathJudge judge(registry_of_paths().subject(kOp, "notes"), *device_, options_of(Way::kAhead, Seconds(60)));
  judge.expect(second_of("notes"));
  EXPECT_EQ(judge.judge(first_of("notes")).value().kind, VerdictKind::kPass);
  EXPECT_TRUE(is_called_soon());
  EXPECT_EQ(judge.judge(second_of("notes")).value().kind, VerdictKind::kPass);
}

TEST_F(AheadOfTheJudge, AConfigurationThatDoesNotFitIsUnsupported) {
  NOT_SANITIZED("its workers limit their memory");
  for (std::string_view path : {"unfit", "unfit.twin"}) {
    Case forced = second_of(path);
    forced.state = parse_state("forced:cheri_conv_norm_cpu:whole=0,stream=0");
    PathJudge judge(registry_of_paths().subject(kOp, path), *device_, options_of(Way::kAhead, Seconds(60)));
    EXPECT_FALSE(judge.refuses(forced));  // which else would not run ahead
    judge.expect(forced);
    EXPECT_EQ(judge.judge(first_of(path)).value().kind, VerdictKind::kPass);
    const Verdict ahead = judge.judge(forced).value(), alone = judge.judge_alone(forced).value();
    EXPECT_EQ(ahead.kind, VerdictKind::kUnsupported);
    EXPECT_EQ(ahead.reason, "c is odd");
    EXPECT_EQ(alone.kind, ahead.kind);
    EXPECT_EQ(alone.reason, ahead.reason);
  }
}

// The new worker, in which the case is judged again, tells that it does not fail alone.
TEST_F(AheadOfTheJudge, ACrashThatDoesNotComeAgainIsToldAsThat) {
  NOT_SANITIZED("its workers limit their memory");
  PathJudge judge(registry_of_paths().subject(kOp, "dies_once"), *device_,
                  options_of(Way::kAhead, Seconds(60)));
  judge.expect(second_of("dies_once"));
  EXPECT_EQ(judge.judge(first_of("dies_once")).value().kind, VerdictKind::kPass);
  const Verdict verdict = judge.judge(second_of("dies_once")).value();
  EXPECT_EQ(verdict.kind, VerdictKind::kCrashed);
  EXPECT_THAT(verdict.reason, testing::EndsWith("; it needs what ran before"));
}

TEST_F(AheadOfTheJudge, WhatAWorkerWasToRunIsForgottenWithIt) {
  NOT_SANITIZED("its workers limit their memory");
  PathJudge judge(registry_of_paths().subject(kOp, "cpu"), *device_, options_of(Way::kAhead, Seconds(2)));
  judge.expect(second_of("cpu"));
  EXPECT_EQ(judge.judge(first_of("cpu")).value().kind, VerdictKind::kPass);
  EXPECT_EQ(judge.judge_alone(first_of("cpu")).value().kind, VerdictKind::kPass);
  const Verdict verdict = judge.judge(second_of("cpu")).value();
  EXPECT_EQ(verdict.kind, VerdictKind::kPass) << verdict.reason;
}

}  // namespace
}  // namespace assay

// It replaces that of GoogleTest, and starts the workers of these tests.
int main(int argc, char** argv) {
  if (assay::is_worker(argc, argv)) return assay::run_worker(assay::registry_of_paths(), argv);
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
