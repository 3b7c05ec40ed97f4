// SPDX-License-Identifier: Apache-2.0
#include "kernels/core/parallel.h"

#include <tbb/blocked_range.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <random>
#include <thread>

#include "kernels/core/error.h"

// libtbb is built without ThreadSanitizer, which therefore cannot see its synchronisation. This
// file holds all of TBB's templates and is not instrumented under ThreadSanitizer either. Two calls
// state what parallel_for guarantees instead: the bodies see what was written before it, and after
// it the caller sees what they wrote. The bodies are instrumented. What libtbb itself calls, memcmp
// or operator delete, is ThreadSanitizer's own code and would be taken for a race: it is left out.
#if ASSAY_TSAN
extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);
const char* __tsan_default_suppressions() {
  return "called_from_lib:libtbb.so\n";
}
}
#else
static void __tsan_acquire(void*) {}
static void __tsan_release(void*) {}
#endif

namespace assay {
namespace {

constexpr int kMostThreads = 8;
constexpr int kNaps = 16;  // in the life of an OtherSchedule

std::atomic<bool> is_other = false;
std::atomic<uint64_t> next_seed;  // of each call another one
std::atomic<int> naps;            // left

// How one call of parallel_for() runs in an OtherSchedule.
struct Shuffle {
  explicit Shuffle(int64_t items) : count(items), random(next_seed++) {
    threads = 1 + static_cast<int>(random() % kMostThreads);
    first = static_cast<int64_t>(random() % static_cast<uint64_t>(count));
    constexpr int64_t kLargestStep = 1 << 16;
    do {
      step = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(std::min(count, kLargestStep)));
    } while (std::gcd(step, count) != 1);
  }

  // The item that comes as number `turn`. The first one to begin waits for another, and some
  // threads sleep. So items run side by side or interrupt each other: they meet in what they share.
  int64_t item(int64_t turn) {
    const bool is_first = begun++ == 0;
    if (threads > 1 && (is_first || turn % 2 == 0) && naps > 0 && --naps >= 0) {
      if (is_first) {
        wait_for_another();
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(turn * 37 % 100));
      }
    }
    return (first + turn * step) % count;
  }

  // Does not yield: the thread is to go on at once.
  void wait_for_another() const {
    using std::chrono::steady_clock;
    const auto end = steady_clock::now() + std::chrono::milliseconds(2);
    while (begun == 1 && count > 1 && steady_clock::now() < end) continue;
  }

  int64_t count, first, step;  // the step has no factor in common with the count
  int threads;
  std::mt19937_64 random;
  std::atomic<int64_t> begun = 0;
};

}  // namespace

void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  if (count <= 0) return;
  std::optional<Shuffle> shuffle;
  if (is_other) shuffle.emplace(count);
  grain = shuffle ? 1 : std::max<int64_t>(grain, 1);
  if (count <= grain) return body(0, count);
  char start = 0;
  char finish = 0;
  __tsan_release(&start);
  const auto run = [&] {
    tbb::parallel_for(int64_t{0}, (count + grain - 1) / grain, [&](int64_t chunk) {
      __tsan_acquire(&start);
      if (shuffle) chunk = shuffle->item(chunk);
      body(chunk * grain, std::min(count, (chunk + 1) * grain));
      __tsan_release(&finish);
    });
  };
  if (shuffle) {
    const tbb::global_control control(tbb::global_control::max_allowed_parallelism, kMostThreads);
    tbb::task_arena(shuffle->threads).execute(run);
  } else {
    tbb::this_task_arena::isolate(run);
  }
  __tsan_acquire(&finish);
}

void serially(const std::function<void()>& work) {
  tbb::task_arena(1).execute(work);
}

void start_threads() {
  static std::atomic<bool> has_started = false;
  if (has_started) return;
  using std::chrono::steady_clock;
  constexpr std::chrono::seconds kLongest(10);
  const auto end = steady_clock::now() + kLongest;
  const int count = std::max(kMostThreads, static_cast<int>(std::thread::hardware_concurrency()));
  std::atomic<int> begun = 0;
  const auto wait_for_all = [&](const tbb::blocked_range<int>&) {
    void* const volatile memory = std::malloc(1);  // a thread's first takes addresses for good
    ++begun;
    while (begun < count && steady_clock::now() < end) std::this_thread::yield();
    std::free(memory);
  };
  try {
    const tbb::global_control control(tbb::global_control::max_allowed_parallelism,
                                      static_cast<size_t>(count));
    tbb::task_arena(count).execute([&] {
      tbb::parallel_for(tbb::blocked_range<int>(0, count, 1), wait_for_all, tbb::simple_partitioner());
    });
  } catch (const std::exception& error) {
    throw device_error("{} threads do not start: {}", count, error.what());
  }
  if (begun < count) throw device_error("{} threads do not start within {} s", count, kLongest.count());
  has_started = true;
}

OtherSchedule::OtherSchedule(uint64_t seed) {
  next_seed = seed;
  naps = kNaps;
  is_other = true;
}
OtherSchedule::~OtherSchedule() {
  is_other = false;
}

}  // namespace assay
