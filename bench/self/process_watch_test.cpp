// SPDX-License-Identifier: Apache-2.0
// Marks: threads
// What threads and clocks of the process do when a call is timed. Each fault is shown red.
#include "bench/core/process_watch.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
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

// What is seen of parallel loops, as calls of 20 us. Before each come another loop and a pause [s].
std::string fault_of_parallel_loops(int calls, double pause = 0) {
  ProcessWatch watch;
  for (int i = 0; i < calls; ++i) {
    const auto loop = [] { parallel_for(64, 1, [](int64_t, int64_t) { work_for(20e-6); }); };
    watch.prepare([&] {
      loop();
      work_for(pause);
    });
    watch.call([&] {
      const double start = kernel_seconds();
      loop();
      return kernel_seconds() - start;
    });
  }
  return watch.fault(20e-6);
}

// Threads of parallel_for() look for work after a call, which is not working ahead.
TEST(ProcessWatch, SeesNothingInParallelLoops) {
  NOT_UNDER_THREAD_SANITIZER("its own thread works");
  EXPECT_EQ(fault_of_parallel_loops(5), "");
}

// Other programs keep threads of parallel_for() from looking for work, and so from giving it up.
TEST(ProcessWatch, SeesNothingInParallelLoopsOfABusyMachine) {
  NOT_UNDER_THREAD_SANITIZER("its own thread works");
  std::vector<pid_t> programs;
  for (unsigned i = 0; i < std::thread::hardware_concurrency(); ++i) {
    programs.push_back(fork());
    if (programs.back() == 0) {
      while (true) work_for(1);
    }
  }
  EXPECT_EQ(fault_of_parallel_loops(15, 20e-3), "");
  for (const pid_t program : programs) {
    kill(program, SIGKILL);
    waitpid(program, nullptr, 0);
  }
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
