// SPDX-License-Identifier: Apache-2.0
// Launches and devices for tests of the tuner and of contexts.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/core/tuner.h"
#include "properties/self/support.h"

namespace assay::test {

inline const Tunable& speeds() {
  static const Tunable tunable{
      .name = "test_speeds", .version = 3, .configs = {{{"wait", 3}}, {{"wait", 0}}, {{"wait", 2}}}};
  return tunable;
}

// [ms] What the launches of this thread took, as they say themselves. A busy machine changes
// nothing.
inline thread_local int64_t simulated_time = 0;

// A launch that takes `wait` milliseconds and adds `source` to each of its buffers, by role.
struct Adder {
  float source = 1;
  float written = -1;
  float sum = -1;
  float updated = 10;
  float scratch = 0;
  std::vector<std::string> ran;         // the configurations, in order
  std::vector<const void*> written_to;  // the address of `written` in each run
  std::vector<float> updated_from;      // what `updated` held before each run

  Launch launch(std::string key = "k") {
    const auto buffer = [](std::string_view name, Role role, float& value) {
      return Buffer{name, role, &value, sizeof(float)};
    };
    return {.tunable = &speeds(),
            .key = std::move(key),
            .unfit = {},
            .buffers = {buffer("source", Role::kRead, source), buffer("written", Role::kWrite, written),
                        buffer("sum", Role::kAccumulate, sum), buffer("updated", Role::kUpdate, updated),
                        buffer("scratch", Role::kScratch, scratch)},
            .run =
                [this](const Config& config, std::span<void* const> data) {
                  simulated_time += config["wait"];
                  const auto at = [&](size_t i) -> float& { return *static_cast<float*>(data[i]); };
                  at(1) = at(0);
                  at(2) += at(0);
                  updated_from.push_back(at(3));
                  at(3) += at(0);
                  at(4) = at(0);
                  ran.push_back(config.to_string());
                  written_to.push_back(data[1]);
                },
            .stream = nullptr};
  }
};

inline std::filesystem::path temporary(std::string_view name) {
  return std::filesystem::temp_directory_path() / fmt::format("assay-test-{}-{}", getpid(), name);
}

inline const Tunable* const kKnown[] = {&speeds()};

// The CPU, timed by simulated_time. It may have all streams being captured, or no memory left.
class SimulatedDevice final : public Device {
 public:
  explicit SimulatedDevice(bool captures = false, bool is_full = false)
      : captures_(captures), is_full_(is_full) {}
  const DeviceInfo& info() const override { return cpu().info(); }
  void* allocate(int64_t bytes) override {
    if (is_full_) throw device_error("no room for {} bytes", bytes);
    return cpu().allocate(bytes);
  }
  void release(void* memory, int64_t bytes) noexcept override { cpu().release(memory, bytes); }
  bool host_can_access() const override { return true; }
  void copy_to_device(void* to, const void* from, int64_t bytes) override {
    cpu().copy_to_device(to, from, bytes);
  }
  void copy_to_host(void* to, const void* from, int64_t bytes) override {
    cpu().copy_to_host(to, from, bytes);
  }
  void* stream() const override { return nullptr; }
  void* other_stream() override { return nullptr; }
  void synchronize(void*) override {}
  void copy(void* to, const void* from, int64_t bytes, void*) override {
    cpu().copy(to, from, bytes, nullptr);
  }
  void fill(void* to, unsigned char byte, int64_t bytes, void*) override {
    cpu().fill(to, byte, bytes, nullptr);
  }
  double time(const std::function<void()>& work, void*) override {
    const int64_t start = simulated_time;
    work();
    return 1e-3 * static_cast<double>(simulated_time - start);
  }
  std::function<void()> capture(const std::function<void()>&) override { return {}; }
  bool is_capturing(void*) const override { return captures_; }
  void run_on_other_schedule(const std::function<void()>& work, uint64_t) override { work(); }
  void flush_cache() override {}
  uint64_t stream_id(void*) const override { return stream_id_; }
  void start_capture() { captures_ = true; }
  void end_capture() { captures_ = false; }
  void replace_streams() { ++stream_id_; }  // makes new streams with the old handles

 private:
  bool captures_;
  bool is_full_;
  uint64_t stream_id_ = 1;
};

inline Device& simulated() {
  static SimulatedDevice device;
  return device;
}

}  // namespace assay::test
