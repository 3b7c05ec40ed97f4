// SPDX-License-Identifier: Apache-2.0
// Caches of CPUs, on made-up folders of /sys/devices/system/cpu.
#include "kernels/core/cpu_caches.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "kernels/core/error.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

class CpuCaches : public testing::Test {
 protected:
  void SetUp() override {
    cpus_ = fs::temp_directory_path() / fmt::format("assay_cpu_caches_{}", getpid());
    fs::remove_all(cpus_);
  }
  void TearDown() override { fs::remove_all(cpus_); }

  void put(int cpu, int level, const std::string& size, const std::string& sharers) const {
    const fs::path cache = cpus_ / fmt::format("cpu{}/cache/index{}", cpu, level);
    fs::create_directories(cache);
    std::ofstream(cache / "level") << level << "\n";
    std::ofstream(cache / "size") << size << "\n";
    std::ofstream(cache / "shared_cpu_list") << sharers << "\n";
  }

  fs::path cpus_;
};

TEST_F(CpuCaches, CountsEachOfTheLastLevelOnce) {
  for (int cpu = 0; cpu < 4; ++cpu) {
    put(cpu, 2, "1024K", fmt::format("{}", cpu));
    put(cpu, 3, "32768K", cpu < 2 ? "0-1" : "2-3");
  }
  EXPECT_EQ(last_level_cache_bytes(cpus_), int64_t{64} << 20);
}

TEST_F(CpuCaches, AreThoseOfTheSecondLevelWithoutAThird) {
  put(0, 1, "32K", "0");
  put(0, 2, "2M", "0");
  EXPECT_EQ(last_level_cache_bytes(cpus_), int64_t{2} << 20);
}

TEST_F(CpuCaches, AreUnknownWhereLinuxTellsNothing) {
  EXPECT_EQ(last_level_cache_bytes(cpus_), 0);
  fs::create_directories(cpus_ / "cpu0/cache/index0");
  EXPECT_EQ(last_level_cache_bytes(cpus_), 0);
}

}  // namespace
}  // namespace assay
