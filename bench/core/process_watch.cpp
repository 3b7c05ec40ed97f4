// SPDX-License-Identifier: Apache-2.0
#include "bench/core/process_watch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "bench/core/kernel_clock.h"
#include "bench/core/median.h"
#include "kernels/core/parallel.h"

namespace assay {
namespace {

// Threads of TBB look for work for a while after a call. Those of some libraries do for 0.2 s. On a
// busy machine that takes longer, while they use little of the processor.
constexpr double kLongestWork = 0.5;                     // [s]
constexpr double kLongestWait = 2;                       // [s]
constexpr auto kPause = std::chrono::microseconds(100);  // between two looks
constexpr double kQuiet = 10e-6;                         // [s] the most that idle threads use in it

// Whether another thread of this process works, or would if it had a processor.
bool others_are_runnable() {
  const std::string own = std::to_string(gettid());
  std::error_code none;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", none)) {
    if (thread.path().filename() == own) continue;
    std::string stat;
    std::getline(std::ifstream(thread.path() / "stat"), stat);
    // "number (name) state ...", or nothing if the thread has ended.
    const size_t name_end = stat.rfind(')');
    if (name_end != std::string::npos && stat.compare(name_end, 3, ") R") == 0) return true;
  }
  return false;
}

// [s] How long it takes to read the clock. That is less than a microsecond, or a few where another
// program stands in for the kernel.
double cost_of_clock() {
  std::vector<double> empty;
  for (int i = 0; i < 9; ++i) {
    const double start = kernel_seconds();
    empty.push_back(kernel_seconds() - start);
  }
  return median_interval(empty).median;
}

}  // namespace

bool never_rest(double waited, double used) {
  return waited >= kLongestWork && used >= kLongestWork;
}

void ProcessWatch::clear() {
  *this = {};
}

void ProcessWatch::prepare(const std::function<void()>& prepare) {
  const double start = kernel_seconds(), used = seconds_of_other_threads();
  double before = used, waited = 0;
  bool is_idle = false;
  do {
    std::this_thread::sleep_for(kPause);
    const double now = seconds_of_other_threads();
    const double busy = now - std::exchange(before, now);
    is_idle = busy <= kQuiet && !others_are_runnable();
    waited = kernel_seconds() - start;
    is_quiet_ &= is_idle || !never_rest(waited, now - used);
  } while (is_quiet_ && !is_idle && waited < kLongestWait);
  before = seconds_of_other_threads();
  serially(prepare);
  ahead_.push_back(seconds_of_other_threads() - before);
}

double ProcessWatch::call(const std::function<double()>& time) {
  const double start = kernel_seconds();
  const double seconds = time();
  hidden_.push_back(kernel_seconds() - start - seconds);
  return seconds;
}

std::string ProcessWatch::fault(double median) const {
  const auto is_much = [&](double seconds) {
    return seconds > (kSlower - 1) * median && seconds > kLeastSlower;
  };
  if (!is_quiet_) return fmt::format("threads still work {} s after a call", kLongestWork);
  const double ahead = ahead_.empty() ? 0 : median_interval(ahead_).median;
  if (is_much(ahead)) {
    return fmt::format("threads work for {:.4g} µs when the inputs have changed, before the path is called",
                       1e6 * ahead);
  }
  const double hidden = hidden_.empty() ? 0 : median_interval(hidden_).median - cost_of_clock();
  if (is_much(hidden)) {
    return fmt::format(
        "a call takes {:.4g} µs by the clock of its process, and {:.4g} µs more by the kernel's",
        1e6 * median, 1e6 * hidden);
  }
  return "";
}

}  // namespace assay
