// SPDX-License-Identifier: Apache-2.0
// Memory that is left, on made-up trees of /proc and /sys.
#include "properties/core/host_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "kernels/core/error.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

class HostMemory : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / fmt::format("assay_host_memory_{}", getpid());
    fs::remove_all(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  void put(const std::string& path, const std::string& content) const {
    const fs::path file = root_ / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << content;
  }
  void put_machine() const { put("proc/meminfo", "MemTotal: 99 kB\nMemAvailable:   8000 kB\n"); }
  void put_version_1(const std::string& group, const std::string& limit) const {
    const std::string folder = "sys/fs/cgroup/memory/" + group;
    put(folder + "memory.limit_in_bytes", limit + "\n");
    put(folder + "memory.usage_in_bytes", "3000\n");
    put(folder + "memory.stat", "inactive_file 7\ntotal_inactive_file 1000\n");
  }
  void put_version_2(const std::string& group, const std::string& limit) const {
    const std::string folder = "sys/fs/cgroup/" + group;
    put(folder + "memory.max", limit + "\n");
    put(folder + "memory.current", "3000\n");
    put(folder + "memory.stat", "anon 7\ninactive_file 1000\n");
  }
  double available() const { return available_host_memory(root_.string()); }

  fs::path root_;
};

TEST_F(HostMemory, IsThatOfTheMachineOrUnknown) {
  EXPECT_EQ(available(), HUGE_VAL);
  put_machine();
  EXPECT_EQ(available(), 8000 * 1024.0);
}

TEST_F(HostMemory, FollowsGroupsOfVersion2) {
  put_machine();
  put("proc/self/cgroup", "0::/job/task\n");
  put_version_2("", "max");
  EXPECT_EQ(available(), 8000 * 1024.0);
  put_version_2("job/task/", "60000");
  EXPECT_EQ(available(), 58000.0);
  put_version_2("job/", "50000");
  EXPECT_EQ(available(), 48000.0);
  put_version_2("job/", "2000");  // less than is used
  EXPECT_EQ(available(), 0.0);
}

TEST_F(HostMemory, FollowsGroupsOfVersion1) {
  put_machine();
  put("proc/self/cgroup", "5:devices:/x\n4:memory:/job/task\n0::/\n");
  put_version_1("", "9223372036854771712");  // no limit
  EXPECT_EQ(available(), 8000 * 1024.0);
  put_version_1("job/", "50000");
  EXPECT_EQ(available(), 48000.0);
  put_version_1("job/task/", "40000");
  EXPECT_EQ(available(), 38000.0);
}

// A container sees its own group as the root, under the name that it has outside.
TEST_F(HostMemory, FollowsTheGroupOfAContainer) {
  put_machine();
  put("proc/self/cgroup", "4:memory:/docker/0123\n0::/docker/0123\n");
  put_version_1("", "50000");
  EXPECT_EQ(available(), 48000.0);
  put_version_2("", "40000");
  EXPECT_EQ(available(), 38000.0);
}

}  // namespace
}  // namespace assay
