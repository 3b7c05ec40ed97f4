// SPDX-License-Identifier: Apache-2.0
#include "properties/core/limits.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <optional>

#include "kernels/core/device.h"
#include "kernels/core/error.h"
#include "properties/core/host_memory.h"

namespace assay {
namespace {

constexpr std::array kLimits{RLIMIT_AS, RLIMIT_DATA, RLIMIT_FSIZE};

rlimit limit_of(decltype(RLIMIT_AS) resource) {
  rlimit limit{};
  getrlimit(resource, &limit);
  return limit;
}

// What this file has set last.
std::optional<rlim_t> data_limit;

void limit_data(double bytes) {
  static const rlimit at_start = limit_of(RLIMIT_DATA);
  const rlim_t highest = at_start.rlim_cur;
  data_limit = bytes < static_cast<double>(highest) ? static_cast<rlim_t>(bytes) : highest;
  const rlimit limit{.rlim_cur = *data_limit, .rlim_max = at_start.rlim_max};
  setrlimit(RLIMIT_DATA, &limit);
}

// Each limit that a process has now.
std::array<rlim_t, kLimits.size()> limits() {
  std::array<rlim_t, kLimits.size()> found{};
  for (size_t i = 0; i < kLimits.size(); ++i) {
    const rlimit limit = limit_of(kLimits[i]);
    const bool is_ours = kLimits[i] == RLIMIT_DATA && data_limit && limit.rlim_cur >= *data_limit;
    found[i] = is_ours ? limit.rlim_max : limit.rlim_cur;
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

// [bytes] What does not grow with the tensors: what the judge takes besides, and what a device
// keeps of released memory.
constexpr int64_t kOthers = int64_t{64} << 20;
constexpr int64_t kKept = int64_t{64} << 20;

bool may_map(int64_t bytes) {
  void* memory = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  munmap(memory, static_cast<size_t>(bytes));
  return true;
}

bool has(Device& device, int64_t bytes) {
  try {
    const DeviceBuffer buffer(device, bytes);
    return true;
  } catch (const OutOfMemory&) {
    return false;
  }
}

// [bytes] See MemoryLimit.
double limit_for_paths() {
  constexpr double kSets = 4;                      // of tensors, and those of states
  constexpr double kUntouched = int64_t{4} << 30;  // [bytes] such as the stacks of 500 threads
  static const double available = available_host_memory();
  return available + kSets * mapped_data() + kUntouched;
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

FoundMemory::FoundMemory(const Subject& subject, const Case& which)
    : own_(tensor_bytes(*subject.op, which.dims, which.dtype)), largest_(own_) {
  if (which.state.has(StepKind::kOthersInTurn)) largest_ *= 2;  // a dimension is doubled
  for (const Step& step : which.state.steps) {
    if (step.kind == StepKind::kAfter)
      largest_ = std::max(largest_, tensor_bytes(*subject.op, step.dims, step.dtype));
  }
  if (subject.path->device == DeviceKind::kCpu) limit_ = limit_for_paths();
  if (!may_have(4 * largest_ + kOthers + kKept)) throw OutOfMemory("there is no memory to judge it");
}

// Under the limit of that time.
bool FoundMemory::may_have(int64_t bytes) const {
  if (limit_) limit_data(*limit_);
  const bool may = may_map(bytes);
  if (limit_) limit_data(HUGE_VAL);
  return may;
}

Verdict FoundMemory::blame(Verdict skipped, Device* gpu) const {
  malloc_trim(0);
  if (may_have(4 * largest_ + kOthers) && (gpu == nullptr || has(*gpu, own_))) return skipped;
  return {
      .kind = VerdictKind::kCrashed,
      .reason = fmt::format("the path took memory that was there before it was called: {}", skipped.reason),
      .outputs = {}};
}

MemoryLimit::MemoryLimit() {
  limit_data(limit_for_paths());
}

MemoryLimit::~MemoryLimit() {
  limit_data(HUGE_VAL);
}

}  // namespace assay
