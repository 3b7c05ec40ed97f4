// SPDX-License-Identifier: Apache-2.0
// Marks: threads
// What threads and clocks of the process do when a call is timed. Each fault is shown red.
#include "bench/core/process_watch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "bench/core/kernel_clock.h"
#include "bench/core/median.h"
#include "kernels/core/parallel.h"
#include "properties/self/marks.h"

namespace assay {
namespace {

using namespace std::chrono_literals;

constexpr double kCall = 1e-3;  // [s]

void work_for(double seconds) {
  const double end = kernel_seconds() + seconds;
  while (kernel_seconds() < end) continue;
}

// Threads of parallel_for() look for work after a call, which is not working ahead.
TEST(ProcessWatch, SeesNothingInParallelLoops) {
  NOT_UNDER_THREAD_SANITIZER("its own thread works");
  ProcessWatch watch;
  for (int i = 0; i < 5; ++i) {
    const auto loop = [] { parallel_for(64, 1, [](int64_t, int64_t) { work_for(20e-6); }); };
    watch.prepare(loop);
    watch.call([&] {
      const double start = kernel_seconds();
      loop();
      return kernel_seconds() - start;
    });
  }
  EXPECT_EQ(watch.fault(20e-6), "");
}

TEST(ProcessWatch, SeesAThreadThatWorksWhileACallIsPrepared) {
  ProcessWatch watch;
  watch.prepare([] { std::jthread([] { work_for(kCall / 2); }).join(); });
  EXPECT_NE(watch.fault(kCall).find("when the inputs have changed"), std::string::npos) << watch.fault(kCall);
  EXPECT_EQ(watch.fault(100 * kCall), "") << "it saves nothing";
  watch.clear();
  EXPECT_EQ(watch.fault(kCall), "");
}

// Threads that look for work seldom have a processor there, and so take long until they sleep.
TEST(ProcessWatch, DoesNotBlameThreadsForABusyMachine) {
  EXPECT_FALSE(never_rest(1.5, 0.1));
  EXPECT_FALSE(never_rest(0.2, 12)) << "128 threads of a library that looks for work for so long";
  EXPECT_TRUE(never_rest(0.6, 0.6)) << "one thread that spins";
}

TEST(ProcessWatch, SeesAThreadThatSpinsBetweenCalls) {
  std::atomic<bool> begins = false, ends = false;
  std::jthread thread([&] {
    while (!ends) begins = true;
  });
  while (!begins) continue;
  ProcessWatch watch;
  watch.prepare([] { work_for(50e-3); });  // a busy machine may stop the thread for a while
  ends = true;
  EXPECT_NE(watch.fault(kCall), "");
}

TEST(ProcessWatch, SeesAClockThatHidesAPartOfACall) {
  for (const double shown : {1.0, 0.9, 0.5}) {
    ProcessWatch watch;
    std::vector<double> seconds;  // more than kCall where a busy machine interrupts the call
    for (int i = 0; i < 5; ++i) {
      seconds.push_back(watch.call([&] {
        const double start = kernel_seconds();
        work_for(kCall);
        return shown * (kernel_seconds() - start);
      }));
    }
    const std::string fault = watch.fault(median_interval(seconds).median);
    EXPECT_EQ(fault.find("by the kernel's") != std::string::npos, shown < 0.8) << shown << ": " << fault;
  }
}

}  // namespace
}  // namespace assay
