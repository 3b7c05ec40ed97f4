// SPDX-License-Identifier: Apache-2.0
#include "properties/core/limits.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstdio>

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
  if (std::ranges::equal(now, before, std::ranges::greater_equal()))
    return {.kind = VerdictKind::kSkipped, .reason = std::string(reason), .outputs = {}};
  return {.kind = VerdictKind::kCrashed,
          .reason = fmt::format("the path lowered its process's limits: {}", reason),
          .outputs = {}};
}

MemoryLimit::MemoryLimit() {
  static const double available = available_host_memory();
  constexpr double kSets = 4;  // of tensors, with those of states and of the tuner
  limit_data(available + kSets * mapped_data());
}

MemoryLimit::~MemoryLimit() {
  limit_data(HUGE_VAL);
}

}  // namespace assay
