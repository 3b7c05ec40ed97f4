// SPDX-License-Identifier: Apache-2.0
#include "kernels/core/cpu_caches.h"

#include <fstream>
#include <map>
#include <string>

namespace assay {
namespace {

namespace fs = std::filesystem;

// The number at the beginning of a file and the unit behind it, "32768K"; 0 if there is none.
int64_t read_size(const fs::path& file) {
  std::ifstream text(file);
  int64_t number = 0;
  char unit = 0;
  text >> number;
  text >> unit;
  return number << (unit == 'K' ? 10 : unit == 'M' ? 20 : unit == 'G' ? 30 : 0);
}

std::string read_line(const fs::path& file) {
  std::ifstream text(file);
  std::string line;
  std::getline(text, line);
  return line;
}

}  // namespace

int64_t last_level_cache_bytes(const fs::path& cpus) {
  std::map<int64_t, std::map<std::string, int64_t>> levels;  // sizes by the CPUs that share a cache
  std::error_code error;
  for (const fs::directory_entry& cpu : fs::directory_iterator(cpus, error)) {
    for (const fs::directory_entry& cache : fs::directory_iterator(cpu.path() / "cache", error)) {
      if (const int64_t level = read_size(cache.path() / "level"); level > 0)
        levels[level][read_line(cache.path() / "shared_cpu_list")] = read_size(cache.path() / "size");
    }
  }
  int64_t bytes = 0;
  if (!levels.empty()) {
    for (const auto& [sharers, size] : levels.rbegin()->second) bytes += size;
  }
  return bytes;
}

}  // namespace assay
