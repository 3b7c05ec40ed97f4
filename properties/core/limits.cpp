// SPDX-License-Identifier: Apache-2.0
#include "properties/core/limits.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstdio>

#include "kernels/core/error.h"
#include "properties/core/host_memory.h"

namespace assay {
namespace {

constexpr std::array kLimits{RLIMIT_AS, RLIMIT_DATA, RLIMIT_FSIZE};

std::array<rlim_t, kLimits.size()> limits() {
  std::array<rlim_t, kLimits.size()> found{};
  for (size_t i = 0; i < kLimits.size(); ++i) {
    rlimit limit{};
    if (getrlimit(kLimits[i], &limit) == 0) found[i] = limit.rlim_max;
    // See MemoryLimit.
    if (kLimits[i] != RLIMIT_DATA) found[i] = std::min(found[i], limit.rlim_cur);
  }
  return found;
}

const std::array<rlim_t, kLimits.size()>& limits_at_start() {
  static const std::array<rlim_t, kLimits.size()> found = limits();
  return found;
}

// [bytes] Memory that RLIMIT_DATA counts. Tensors with large strides map more than they use. A
// stream would take 20 us longer, and this is asked for each case.
double mapped_data() {
  char text[128] = {};
  const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t length = read(file, text, sizeof(text) - 1);
  close(file);
  long pages = 0;
  if (length <= 0 || std::sscanf(text, "%*d %*d %*d %*d %*d %ld", &pages) != 1) return 0;
  return static_cast<double>(pages) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

constexpr size_t kOthers = size_t{64} << 20;  // [bytes] that do not grow with the tensors
bool has_found_memory = false;

void limit_data(double bytes) {
  static const rlim_t most = [] {
    rlimit limit{};
    getrlimit(RLIMIT_DATA, &limit);
    return limit.rlim_max;
  }();
  const rlimit limit{.rlim_cur = bytes < static_cast<double>(most) ? static_cast<rlim_t>(bytes) : most,
                     .rlim_max = most};
  setrlimit(RLIMIT_DATA, &limit);
}

}  // namespace

void set_limits() {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  const rlimit no_core{.rlim_cur = 0, .rlim_max = 0};
  setrlimit(RLIMIT_CORE, &no_core);
  limits_at_start();
}

Verdict no_memory(std::string_view reason) {
  const auto &before = limits_at_start(), now = limits();
  if (!std::ranges::equal(now, before, std::ranges::greater_equal())) {
    return {.kind = VerdictKind::kCrashed,
            .reason = fmt::format("the path lowered its process's limits: {}", reason),
            .outputs = {}};
  }
  return {.kind = VerdictKind::kSkipped, .reason = std::string(reason), .outputs = {}};
}

Verdict no_memory_left(std::string_view reason) {
  Verdict verdict = no_memory(reason);
  if (has_found_memory && verdict.kind == VerdictKind::kSkipped) {
    verdict.kind = VerdictKind::kCrashed;
    verdict.reason = fmt::format("the path took memory that was there before it was called: {}", reason);
  }
  return verdict;
}

FoundMemory::FoundMemory(int64_t tensors) : bytes_(4 * static_cast<size_t>(tensors) + kOthers) {
  if (!is_there()) throw device_error("there is no memory to judge it");
  has_found_memory = true;
}

bool FoundMemory::is_there() const {
  void* memory =
      mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  munmap(memory, bytes_);
  return true;
}

FoundMemory::~FoundMemory() {
  has_found_memory = false;
}

MemoryLimit::MemoryLimit() {
  constexpr double kSets = 4;                      // of tensors, and those of states
  constexpr double kUntouched = int64_t{4} << 30;  // [bytes] such as the stacks of 500 threads
  static const double available = available_host_memory();
  limit_data(available + kSets * mapped_data() + kUntouched);
}

MemoryLimit::~MemoryLimit() {
  limit_data(HUGE_VAL);
}

}  // namespace assay
