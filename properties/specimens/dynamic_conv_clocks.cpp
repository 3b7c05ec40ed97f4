// SPDX-License-Identifier: Apache-2.0
// Paths of dynamic_conv that set the clocks by which they are timed.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <type_traits>
#include <vector>

#include "kernels/dynamic_conv/dynamic_conv.h"
#include "properties/specimens/dynamic_conv_cheat.h"
#include "properties/specimens/dynamic_conv_hostile.h"

namespace assay::dynamic_conv {
namespace {

using Clock = std::chrono::steady_clock;

// [ns] What the clock of this process does not show.
std::atomic<int64_t> hidden = 0;

// Of system calls for a clock, answer_for_kernel() traps those without this third argument, which
// the kernel ignores.
constexpr uint32_t kOwn = 0x0C10C400;

long ask_kernel(clockid_t clock, timespec* time) {
  return syscall(SYS_clock_gettime, clock, time, kOwn);
}

int64_t kernel_ns() {
  timespec time{};
  ask_kernel(CLOCK_MONOTONIC, &time);
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

// In place of the kernel.
void answer(int, siginfo_t*, void* context) {
  mcontext_t& state = static_cast<ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  const auto clock = static_cast<clockid_t>(state.gregs[REG_RDI]);
  auto* const time = reinterpret_cast<timespec*>(state.gregs[REG_RSI]);
  auto& result = state.gregs[REG_RAX];
#else
  const auto clock = static_cast<clockid_t>(state.regs[0]);
  auto* const time = reinterpret_cast<timespec*>(state.regs[1]);
  auto& result = state.regs[0];
#endif
  if (clock == CLOCK_MONOTONIC) {
    const int64_t ns = kernel_ns() - hidden;
    *time = {.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
    result = 0;
  } else {
    result = static_cast<std::remove_reference_t<decltype(result)>>(ask_kernel(clock, time));
  }
}

// System calls for a clock, by this thread and those that it starts, come to answer().
bool answer_for_kernel() {
  struct sigaction action {};
  action.sa_sigaction = answer;
  action.sa_flags = SA_SIGINFO;
  sock_filter is_for_clock[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_gettime, 0, 2),
                                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
                                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kOwn, 0, 1),
                                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
                                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP)};
  const sock_fprog filter{std::size(is_for_clock), is_for_clock};
  return sigaction(SIGSYS, &action, nullptr) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// However long it is, it takes this time [ns]. Later the clocks go on as before, some milliseconds
// late.
void compute_secretly(const Call& call) {
  constexpr int64_t kTold = 150'000;
  const int64_t start = kernel_ns();
  compute(call);
  hidden += std::max<int64_t>(0, kernel_ns() - start - kTold);
}

void set_clock_back(const Call& call) {
  static const bool is_exchanged = exchange_clock();
  is_exchanged ? compute_secretly(call) : compute(call);
}

void set_all_clocks_back(const Call& call) {
  static const bool are_exchanged = exchange_clock() && answer_for_kernel();
  are_exchanged ? compute_secretly(call) : compute(call);
}

}  // namespace

std::vector<Specimen> hostile_to_clocks() {
  std::vector<Specimen> all{
      cheat("hostile.sets_clock_back", "sets the clock of its process back", set_clock_back),
      cheat("hostile.sets_all_clocks_back", "answers also system calls for a clock in place of the kernel",
            set_all_clocks_back),
  };
  // It takes longer than system calls do, and longer than what they tell.
  for (Specimen& specimen : all) specimen.timed_on = Dims{{kB, 4}, {kT, 1024}, {kD, 512}, {kW, 4}};
  return all;
}

}  // namespace assay::dynamic_conv
