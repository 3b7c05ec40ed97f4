// SPDX-License-Identifier: Apache-2.0
#include "kernels/core/host_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace assay {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();

// The number that follows a word of a file, if there is one. An empty word asks for the first
// number.
std::optional<double> number_after(const char* file, std::string_view word) {
  std::ifstream in(file);
  double number = 0;
  if (word.empty()) return in >> number ? std::optional(number) : std::nullopt;
  for (std::string read; in >> read;) {
    if (read == word && in >> number) return number;
  }
  return std::nullopt;
}

double available_on_machine() {
  const std::optional<double> kibibytes = number_after("/proc/meminfo", "MemAvailable:");
  return kibibytes ? *kibibytes * 1024 : kUnknown;
}

// Memory left in the control group (version 2), as a container sees its own. A limit of "max" is no
// number. Memory that caches files can be taken.
double available_in_group() {
  const auto limit = number_after("/sys/fs/cgroup/memory.max", "");
  const auto used = number_after("/sys/fs/cgroup/memory.current", "");
  const auto cached = number_after("/sys/fs/cgroup/memory.stat", "inactive_file");
  return limit && used && cached ? std::max(*limit - *used + *cached, 0.0) : kUnknown;
}

}  // namespace

double available_host_memory() {
  return std::min(available_on_machine(), available_in_group());
}

}  // namespace assay
