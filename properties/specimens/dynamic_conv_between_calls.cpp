// SPDX-License-Identifier: Apache-2.0
// Paths of dynamic_conv whose results are right whenever inputs change as a whole. Their times are
// not: they keep results, work between calls, or set the clock.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/dynamic_conv/dynamic_conv.h"
#include "properties/specimens/dynamic_conv_cheat.h"
#include "properties/specimens/dynamic_conv_hostile.h"

namespace assay::dynamic_conv {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Values = std::vector<float>;

const Dims kTimed{{kB, 4}, {kT, 64}, {kD, 64}, {kW, 8}};

// Stands for an operation that costs more than it takes to compare its inputs.
void compute_at_length(const Call& call) {
  for (int i = 0; i < 16; ++i) compute(call);
}

bool is_timed(const Call& call) {
  return call.outputs[kOut].is_dense() && call.outputs[kOut].size() == kTimed[kB] * kTimed[kT] * kTimed[kD] &&
         std::ranges::all_of(call.inputs, [](const ConstTensorView& view) { return view.is_dense(); });
}

Values values_of(const ConstTensorView& view) {
  const auto* const data = static_cast<const float*>(view.data);
  return {data, data + view.size()};
}

bool holds(const ConstTensorView& view, const Values& values) {
  return std::ssize(values) == view.size() &&
         std::memcmp(view.data, values.data(), values.size() * sizeof(float)) == 0;
}

// A question and its answer.
struct Known {
  std::vector<Values> inputs;
  Values output;

  bool answers(const Call& call) const {
    return !inputs.empty() && holds(call.inputs[kX], inputs[kX]) && holds(call.inputs[kK], inputs[kK]);
  }
  void give(const Call& call) const {
    std::memcpy(call.outputs[kOut].data, output.data(), output.size() * sizeof(float));
  }
  void keep(const Call& call) {
    inputs = {values_of(call.inputs[kX]), values_of(call.inputs[kK])};
    output = values_of(call.outputs[kOut]);
  }
};

void keep_last_result(const Call& call) {
  static Known last;
  if (!is_timed(call)) return compute(call);
  if (last.answers(call)) return last.give(call);
  compute_at_length(call);
  last.keep(call);
}

// Any two draws differ in these values, so it is wrong only where a few others change.
void keep_last_result_by_few_values(const Call& call) {
  static Known last;
  if (!is_timed(call)) return compute(call);
  const Values k = values_of(call.inputs[kK]);
  if (!last.inputs.empty() && k.front() == last.inputs[kK].front() && k.back() == last.inputs[kK].back())
    return last.give(call);
  compute_at_length(call);
  last.keep(call);
}

void keep_all_results(const Call& call) {
  static std::map<uint64_t, Known> known;
  if (!is_timed(call)) return compute(call);
  uint64_t hash = 0;
  for (const ConstTensorView& view : call.inputs) {
    for (const float value : values_of(view))
      hash = hash * 0x9E3779B97F4A7C15u + std::bit_cast<uint32_t>(value);
  }
  Known& one = known[hash];
  if (one.answers(call)) return one.give(call);
  compute_at_length(call);
  one.keep(call);
}

// Looks at the inputs of the last call from a thread, and computes when they have changed.
class Ahead {
 public:
  void run(const Call& call) {
    const std::lock_guard lock(mutex_);
    last_call_ = Clock::now();
    if (known_.answers(call)) return known_.give(call);
    compute_at_length(call);
    known_.keep(call);
    call_ = call;
    if (is_watching_) return;
    is_watching_ = true;
    thread_ = std::jthread([this] { watch(); });
  }

 private:
  // By system calls: the memory may be gone.
  static bool read(const void* from, void* to, size_t bytes) {
    const iovec there{const_cast<void*>(from), bytes}, here{to, bytes};
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == static_cast<ssize_t>(bytes);
  }
  // A value that is other in other draws.
  bool read_sign(const Call& call, std::pair<float, float>& sign) const {
    const auto* const k = static_cast<const float*>(call.inputs[kK].data);
    return read(k, &sign.first, sizeof(float)) &&
           read(k + call.inputs[kK].size() - 1, &sign.second, sizeof(float));
  }

  void watch() {
    std::pair<float, float> seen{}, now{};
    while (true) {
      std::this_thread::sleep_for(200us);
      const std::lock_guard lock(mutex_);
      if (Clock::now() - last_call_ > 200ms || !read_sign(call_, now)) {
        is_watching_ = false;
        thread_.detach();
        return;
      }
      if (std::exchange(seen, now) != now) compute_ahead();
    }
  }

  void compute_ahead() {
    Known next = known_;
    Call call = call_;
    for (size_t i = 0; i < next.inputs.size(); ++i) {
      if (!read(call.inputs[i].data, next.inputs[i].data(), next.inputs[i].size() * sizeof(float))) return;
      call.inputs[i].data = next.inputs[i].data();
    }
    call.outputs[kOut].data = next.output.data();
    call.versions.clear();
    compute_at_length(call);
    known_ = std::move(next);
  }

  std::mutex mutex_;
  Known known_;
  Call call_;
  Clock::time_point last_call_;
  bool is_watching_ = false;
  std::jthread thread_;
};

void work_ahead(const Call& call) {
  static Ahead ahead;
  is_timed(call) ? ahead.run(call) : compute(call);
}

// [ns] What the clock of this process does not show.
std::atomic<int64_t> hidden = 0;

int64_t kernel_ns() {
  timespec time{};
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

Clock::time_point late() noexcept {
  return Clock::time_point(std::chrono::nanoseconds(kernel_ns() - hidden));
}

// Puts a jump to late() where the code of Clock::now() begins.
bool exchange_clock() {
  Clock::time_point (*const now)() noexcept = &Clock::now;
  Clock::time_point (*const other)() noexcept = &late;
#if defined(__x86_64__)
  // mov rax, address; jmp rax
  unsigned char code[12] = {0x48, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xE0};
  std::memcpy(code + 2, &other, sizeof(other));
#else
  // ldr x16, address; br x16
  unsigned char code[16] = {0x50, 0, 0, 0x58, 0, 0x02, 0x1F, 0xD6};
  std::memcpy(code + 8, &other, sizeof(other));
#endif
  auto* const begin = reinterpret_cast<unsigned char*>(now);
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t first = reinterpret_cast<uintptr_t>(begin) / page * page;
  if (mprotect(reinterpret_cast<void*>(first), 2 * page, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
    return false;
  std::memcpy(begin, code, sizeof(code));
  __builtin___clear_cache(reinterpret_cast<char*>(begin), reinterpret_cast<char*>(begin) + sizeof(code));
  return true;
}

// Later the clock goes on as before, some milliseconds late.
void set_clock_back(const Call& call) {
  static const bool is_exchanged = exchange_clock();
  const int64_t start = kernel_ns();
  compute(call);
  if (is_exchanged) hidden += (kernel_ns() - start) * 9 / 10;
}

}  // namespace

std::vector<Specimen> hostile_between_calls() {
  std::vector<Specimen> all{
      cheat("hostile.keeps_last_result", "keeps its last result, and knows all its inputs again",
            keep_last_result),
      cheat("hostile.keeps_last_result_by_few_values",
            "keeps its last result, and knows its inputs again by two of their values",
            keep_last_result_by_few_values),
      cheat("hostile.keeps_all_results", "keeps all results, and knows all their inputs again",
            keep_all_results),
      cheat("hostile.works_ahead", "computes in a thread when the inputs change, before it is called",
            work_ahead),
  };
  for (Specimen& specimen : all) specimen.timed_on = kTimed;
  all.push_back(cheat("hostile.sets_clock_back", "sets the clock of its process back", set_clock_back));
  return all;
}

}  // namespace assay::dynamic_conv
