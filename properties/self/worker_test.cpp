// SPDX-License-Identifier: Apache-2.0
// How long a worker has for an answer. What becomes of one that dies is in
// scripts/tests/test_workers.py.
#include "properties/core/worker.h"

#include <unistd.h>

#include <thread>

#include "properties/self/support.h"

namespace assay {
namespace {

constexpr Seconds kTimeout{1};

// A worker that answers at once, or never.
Worker worker(bool answers) {
  return Worker([answers](Channel&) -> Message {
    while (!answers) pause();
    return {.fields = {{"it is", "there"}}, .tensors = {}};
  });
}

Seconds since(std::chrono::steady_clock::time_point start) {
  return std::chrono::steady_clock::now() - start;
}

TEST(Worker, HasUntilItsTimeoutAfterItWasAsked) {
  Worker hung = worker(false);
  std::this_thread::sleep_for(kTimeout);
  const auto start = std::chrono::steady_clock::now();
  const Worker::Answer answer = hung.receive(kTimeout);
  EXPECT_LT(since(start), kTimeout);
  ASSERT_TRUE(answer.death);
  EXPECT_EQ(answer.death->kind, VerdictKind::kTimeout);
}

TEST(Worker, HasAllOfItForEachRequest) {
  Worker hung = worker(false);
  std::this_thread::sleep_for(kTimeout);
  const auto start = std::chrono::steady_clock::now();
  hung.send({});
  EXPECT_TRUE(hung.receive(kTimeout).death);
  EXPECT_GE(since(start), kTimeout);
}

TEST(Worker, IsInTimeIfItsAnswerIsThereWhenSomebodyLooks) {
  Worker ready = worker(true);
  std::this_thread::sleep_for(kTimeout);
  EXPECT_TRUE(ready.receive(kTimeout / 2).message);
}

// The number of no process is a group to kill(): 0 its caller's, so that is a new one here.
TEST(Worker, OneThatHasNoProcessEndsNobodyElse) {
  const auto end_nobody = [] {
    setpgid(0, 0);
    try {
      end_group(0);
    } catch (const Error&) {
      _exit(0);
    }
  };
  EXPECT_EXIT(end_nobody(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace assay
