// SPDX-License-Identifier: Apache-2.0
#include "kernels/core/cpu_caches.h"

#include <fstream>
#include <map>
#include <string>
#include <vector>

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

// What the system lists; a CPU may go offline meanwhile.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> all;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    all.push_back(entry->path());
  return all;
}

}  // namespace

int64_t last_level_cache_bytes(const fs::path& cpus) {
  std::map<int64_t, std::map<std::string, int64_t>> levels;  // sizes by the CPUs that share a cache
  for (const fs::path& cpu : entries_of(cpus)) {
    for (const fs::path& cache : entries_of(cpu / "cache")) {
      if (const int64_t level = read_size(cache / "level"); level > 0)
        levels[level][read_line(cache / "shared_cpu_list")] = read_size(cache / "size");
    }
  }
  int64_t bytes = 0;
  if (!levels.empty()) {
    for (const auto& [sharers, size] : levels.rbegin()->second) bytes += size;
  }
  return bytes;
}

}  // namespace assay
