// SPDX-License-Identifier: Apache-2.0
// Paths that do not return, in the process of the run itself: each test runs the program in a new
// process, and reads what it left.
#include "reports/program/interrupt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "kernels/core/read_file.h"
#include "reports/program/program.h"
#include "reports/program/run_folder.h"
#include "reports/render/render.h"
#include "reports/store/files.h"

namespace assay {
namespace {

namespace fs = std::filesystem;
using testing::ExitedWithCode;
using testing::HasSubstr;

class Interrupt : public testing::Test {
 protected:
  void SetUp() override {
    testing::GTEST_FLAG(death_test_style) = "threadsafe";
    // The new process runs this, too, and has the same folder.
    const fs::path out = fs::temp_directory_path() / fmt::format("assay_interrupt_{}", getpid());
    setenv("INTERRUPT_TEST_OUT", out.c_str(), 0);
    out_ = std::getenv("INTERRUPT_TEST_OUT");
  }
  void TearDown() override {
    fs::remove_all(out_);
    unsetenv("INTERRUPT_TEST_OUT");
  }

  // Runs a command on a path of dynamic_conv that is wrong in f32. Its call number `last` does
  // `act`.
  static int run(const std::vector<const char*>& arguments, int last, const std::function<void()>& act) {
    Op op = registry().op("dynamic_conv");
    Path path = op.path("cpu");
    path.run = [act, last, right = path.run, calls = 0](const Call& call) mutable {
      right(call);
      if (call.dtype == DType::kF32 && element_count(call.outputs[0].shape) > 0)
        *call.outputs[0].as<float>() += 1;
      if (++calls == last) act();
    };
    op.paths = {path};
    Registry all;
    const std::vector ops{op};
    all.add(ops, {registry().oracle("dynamic_conv")}, {}, {});
    return run_program(static_cast<int>(arguments.size()), arguments.data(), all, {});
  }

  std::vector<const char*> verify_cases(const char* number) const {
    return {"assay", "verify", "--device", "cpu", "--cases", number, "-q", "--out", out_.c_str()};
  }

  // Verifies ten cases, in one of which the path acts.
  void verify(const std::function<void()>& act) const { std::exit(run(verify_cases("10"), 20, act)); }

  void expect_interrupted_record() const {
    const Record record = unfinished_run(out_).record;
    EXPECT_GE(record.cases.size(), 1u);
    EXPECT_LT(record.cases.size(), 10u);
    ASSERT_TRUE(record.running.has_value());
    const Record written = parse_record(read_file(out_ / "run.json"), "run.json");
    EXPECT_FALSE(written.complete);
    EXPECT_EQ(written.planned, 10);
    EXPECT_EQ(written.cases.size(), record.cases.size());
    EXPECT_THAT(read_file(out_ / "report.html"), HasSubstr(render_headline(record)));
    EXPECT_THAT(read_file(out_ / "junit.xml"), HasSubstr(render_interruption(record)));
  }

  fs::path out_;
};

using InterruptDeathTest = Interrupt;

[[noreturn]] void hang() {
  for (;;) pause();
}

constexpr const char* kMessage = "interrupted after [1-9] of 10 cases, in dynamic_conv/cpu/";

class BySignalDeathTest : public Interrupt, public testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(Each, BySignalDeathTest, testing::Values(SIGINT, SIGTERM, SIGHUP));

TEST_P(BySignalDeathTest, ACaseThatHangsIsGivenUpAfterASecond) {
  const auto start = std::chrono::steady_clock::now();
  const auto act = [] {
    raise(GetParam());
    hang();
  };
  EXPECT_EXIT(verify(act), ExitedWithCode(kExitInterrupted), kMessage);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  expect_interrupted_record();
}

TEST_F(InterruptDeathTest, ASecondSignalEndsTheRunAtOnce) {
  const auto act = [] {
    raise(SIGINT);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    raise(SIGTERM);
  };
  EXPECT_EXIT(verify(act), ExitedWithCode(kExitInterrupted), "^assay: interrupted\n$");
  EXPECT_GE(unfinished_run(out_).record.cases.size(), 1u);
  EXPECT_FALSE(fs::exists(out_ / "run.json"));
}

// Both are delivered at once, however busy the machine is.
void raise_twice() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  for (const int signal : {SIGINT, SIGTERM}) raise(signal);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

// Without a folder, what is printed is all that is left.
TEST_F(InterruptDeathTest, ASignalSentTwiceIsOneAndCostsNoTable) {
  const auto verify_without_folder = [] {
    dup2(STDERR_FILENO, STDOUT_FILENO);  // that the test reads
    std::exit(run({"assay", "verify", "--device", "cpu", "--cases", "10", "-q", "--no-isolate"}, 20, [] {
      raise_twice();
      hang();
    }));
  };
  EXPECT_EXIT(
      verify_without_folder(), ExitedWithCode(kExitInterrupted),
      "path +dtype(.|\n)*dynamic_conv/cpu +(.|\n)*Interrupted after [1-9] of 10 cases, in(.|\n)dynamic_");
}

TEST_F(InterruptDeathTest, APathThatCallsExitFailsTheRun) {
  EXPECT_EXIT(verify([] { std::exit(0); }), ExitedWithCode(kExitNumericalFailure), kMessage);
  expect_interrupted_record();
}

TEST_F(InterruptDeathTest, APathThatCallsQuickExitFailsTheRun) {
  EXPECT_EXIT(verify([] { std::quick_exit(0); }), ExitedWithCode(kExitNumericalFailure), kMessage);
  expect_interrupted_record();
}

// Nothing can be written then. The verdicts are in the journal.
TEST_F(InterruptDeathTest, APathThatCrashesIsNamedInTheJournal) {
  const auto act = [] {
    std::signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
  };
  EXPECT_EXIT(verify(act), testing::KilledBySignal(SIGSEGV), "");
  const Record record = unfinished_run(out_).record;
  EXPECT_GE(record.cases.size(), 1u);
  EXPECT_TRUE(record.running.has_value());
}

// The resumed run knows to what the failures shrank that the killed one reported.
TEST_F(InterruptDeathTest, AResumedRunReportsTheSameFailures) {
  std::vector<const char*> arguments = verify_cases("12");
  arguments.insert(arguments.end(), {"--dtype", "f32"});
  const auto killed = [&] { std::exit(run(arguments, 200, [] { raise(SIGKILL); })); };
  EXPECT_EXIT(killed(), testing::KilledBySignal(SIGKILL), "");
  const std::vector<CaseRecord> before = unfinished_run(out_).record.cases;
  EXPECT_TRUE(
      std::ranges::any_of(before, [](const CaseRecord& item) { return item.shrunk_from.has_value(); }));
  EXPECT_LT(before.size(), 11u);
  const std::filesystem::path stale = out_ / "capsules/999-of-another.safetensors";
  write_file_atomically(stale, "");
  EXPECT_EQ(run({"assay", "verify", "--resume", out_.c_str(), "-q"}, 0, {}), kExitNumericalFailure);
  const Record resumed = read_record(out_ / "run.json");
  EXPECT_FALSE(std::filesystem::exists(stale));
  for (const CaseRecord& item : resumed.cases) {
    EXPECT_EQ(is_failure(item.verdict.kind), !item.capsule.empty());
    EXPECT_TRUE(std::filesystem::exists(out_ / item.capsule)) << item.capsule;
  }
  EXPECT_EQ(run(arguments, 0, {}), kExitNumericalFailure);
  const Record whole = read_record(out_ / "run.json");
  ASSERT_EQ(resumed.cases.size(), whole.cases.size());
  const auto without_time = [](CaseRecord item) {
    EXPECT_TRUE(item.seconds.has_value());
    item.seconds.reset();
    return one_line(to_json(item));
  };
  for (size_t i = 0; i < whole.cases.size(); ++i)
    EXPECT_EQ(without_time(resumed.cases[i]), without_time(whole.cases[i]));
}

}  // namespace
}  // namespace assay
