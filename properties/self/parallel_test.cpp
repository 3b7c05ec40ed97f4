// SPDX-License-Identifier: Apache-2.0
// Marks: threads
#include "kernels/core/parallel.h"

#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

#include "properties/self/support.h"

namespace assay {
namespace {

TEST(ParallelFor, CoversEveryItemOnceInAlignedChunks) {
  test::expect_property([] {
    const int64_t count = *rc::gen::inRange<int64_t>(0, 3000);
    const int64_t grain = *rc::gen::inRange<int64_t>(1, 200);
    std::vector<std::atomic<int>> visits(static_cast<size_t>(count));
    std::atomic<bool> legal = true;
    parallel_for(count, grain, [&](int64_t begin, int64_t end) {
      if (begin >= end || end - begin > grain || begin % grain != 0) legal = false;
      for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
    });
    RC_ASSERT(legal);
    for (const auto& visit : visits) RC_ASSERT(visit == 1);
  });
}

TEST(ParallelFor, DoesNothingForNothing) {
  bool called = false;
  parallel_for(0, 4, [&](int64_t, int64_t) { called = true; });
  EXPECT_FALSE(called);
}

TEST(ParallelFor, RethrowsTheExceptionOfABody) {
  EXPECT_THAT(test::error_of([] {
                parallel_for(1000, 1, [](int64_t begin, int64_t) {
                  if (begin == 777) throw usage_error("item {}", begin);
                });
              }),
              testing::HasSubstr("item 777"));
}

TEST(ParallelFor, SeesWhatWasWrittenBeforeAndHandsBackWhatWasWrittenInside) {
  std::vector<int64_t> values(10000);
  std::iota(values.begin(), values.end(), 0);
  parallel_for(10000, 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) values[static_cast<size_t>(i)] *= 2;
  });
  EXPECT_EQ(std::accumulate(values.begin(), values.end(), int64_t{0}), int64_t{10000} * 9999);
}

TEST(ParallelFor, MayBeNested) {
  std::atomic<int64_t> sum = 0;
  parallel_for(20, 1, [&](int64_t outer, int64_t) {
    parallel_for(20, 1, [&](int64_t inner, int64_t) { sum += outer * inner; });
  });
  EXPECT_EQ(sum, 190 * 190);
}

TEST(ParallelFor, TakesNoRangesOfOuterCallsWhileItWaits) {
  // More threads than this machine may have, so that other threads take ranges over and are waited
  // for.
  constexpr int kThreads = 8;
  const tbb::global_control control(tbb::global_control::max_allowed_parallelism, kThreads);
  static thread_local bool is_waiting = false;
  std::atomic<int> taken = 0;
  tbb::task_arena(kThreads).execute([&] {
    parallel_for(300, 1, [&](int64_t, int64_t) {
      if (is_waiting) {
        ++taken;
        return;
      }
      is_waiting = true;
      parallel_for(16, 1,
                   [](int64_t, int64_t) { std::this_thread::sleep_for(std::chrono::microseconds(50)); });
      is_waiting = false;
    });
  });
  EXPECT_EQ(taken, 0);
}

}  // namespace
}  // namespace assay
