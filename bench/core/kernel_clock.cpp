// SPDX-License-Identifier: Apache-2.0
#include "bench/core/kernel_clock.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "kernels/core/error.h"

namespace assay {
namespace {

// 0, or the number of an error with another sign.
long clock_gettime_of_kernel(clockid_t clock, timespec* time) {
#if defined(__x86_64__)
  long result = SYS_clock_gettime;
  asm volatile("syscall" : "+a"(result) : "D"(long{clock}), "S"(time) : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long number asm("x8") = SYS_clock_gettime;
  register long result asm("x0") = clock;
  register timespec* to asm("x1") = time;
  asm volatile("svc 0" : "+r"(result) : "r"(number), "r"(to) : "memory");
  return result;
#else
  return syscall(SYS_clock_gettime, clock, time);
#endif
}

double seconds(clockid_t clock) {
  timespec time{};
  if (clock_gettime_of_kernel(clock, &time) != 0) throw Error("the kernel has no clock {}", clock);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

double kernel_seconds() {
  return seconds(CLOCK_MONOTONIC);
}

double seconds_of_other_threads() {
  const double all = seconds(CLOCK_PROCESS_CPUTIME_ID);
  return all - seconds(CLOCK_THREAD_CPUTIME_ID);
}

}  // namespace assay
