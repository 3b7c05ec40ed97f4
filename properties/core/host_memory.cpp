// SPDX-License-Identifier: Apache-2.0
#include "properties/core/host_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string_view>

namespace assay {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();

// The number that follows a word of a file, if there is one. An empty word asks for the first
// number.
std::optional<double> number_after(const std::string& file, std::string_view word) {
  std::ifstream in(file);
  double number = 0;
  if (word.empty()) return in >> number ? std::optional(number) : std::nullopt;
  for (std::string read; in >> read;) {
    if (read == word && in >> number) return number;
  }
  return std::nullopt;
}

double available_on_machine(const std::string& root) {
  const std::optional<double> kibibytes = number_after(root + "/proc/meminfo", "MemAvailable:");
  return kibibytes ? *kibibytes * 1024 : kUnknown;
}

// How a version of control groups shows the memory of a group.
struct GroupFiles {
  std::string_view line;  // what precedes the group's name in /proc/self/cgroup
  std::string_view mount;
  std::string_view limit, used, cached;  // the last is a word of memory.stat
};
constexpr GroupFiles kVersions[] = {
    {":memory:", "/sys/fs/cgroup/memory", "/memory.limit_in_bytes", "/memory.usage_in_bytes",
     "total_inactive_file"},
    {"0::", "/sys/fs/cgroup", "/memory.max", "/memory.current", "inactive_file"}};

// The name of the control group that this process is in: "/user.slice/a.scope". A container that
// sees only its own groups has "/", or a name that is not below the mount.
std::string group_name(const std::string& root, const GroupFiles& files) {
  std::ifstream in(root + "/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const size_t at = line.find(files.line);
    if (at != std::string::npos) return line.substr(at + files.line.size());
  }
  return "";
}

// Memory left in one control group. A limit of "max" is no number; that of version 1 is near 2^63.
// Memory that caches files can be taken.
double available_in_group(const std::string& folder, const GroupFiles& files) {
  const auto limit = number_after(folder + std::string(files.limit), "");
  if (!limit || *limit >= 0x1p60) return kUnknown;
  const auto used = number_after(folder + std::string(files.used), "");
  const auto cached = number_after(folder + "/memory.stat", files.cached);
  return used && cached ? std::max(*limit - *used + *cached, 0.0) : kUnknown;
}

// The least of the group of this process and of those around it.
double available_in_groups(const std::string& root, const GroupFiles& files) {
  double available = kUnknown;
  std::string name = group_name(root, files);
  for (;;) {
    available = std::min(available, available_in_group(root + std::string(files.mount) + name, files));
    if (name.empty()) return available;
    name.resize(name.rfind('/') == std::string::npos ? 0 : name.rfind('/'));
  }
}

}  // namespace

double available_host_memory(const std::string& root) {
  double available = available_on_machine(root);
  for (const GroupFiles& files : kVersions) available = std::min(available, available_in_groups(root, files));
  return available;
}

}  // namespace assay
