// SPDX-License-Identifier: Apache-2.0
#include "properties/core/roles.h"

#include <numeric>
#include <vector>

namespace assay {
namespace {

using Bytes = std::vector<std::byte>;

class Run {
 public:
  Run(const Launch& launch, const Config& config, Device& device)
      : launch_(launch), config_(config), device_(device) {
    for (const Buffer& buffer : launch.buffers) data_.push_back(buffer.data);
  }

  void operator()() {
    launch_.run(config_, data_);
    device_.synchronize(launch_.stream);
  }

  // The contents of buffers whose contents are defined. Before the first run, buffers that are only
  // written have none.
  std::vector<Bytes> contents(bool has_run) const {
    std::vector<Bytes> all;
    for (const Buffer& buffer : launch_.buffers) {
      const bool has_contents = has_run ? buffer.role != Role::kScratch
                                        : buffer.role == Role::kRead || buffer.role == Role::kUpdate;
      Bytes& bytes = all.emplace_back(has_contents ? static_cast<size_t>(buffer.bytes) : 0);
      if (!bytes.empty()) device_.copy_to_host(bytes.data(), buffer.data, buffer.bytes);
    }
    return all;
  }

  // Does what the tuner does before every run.
  void prepare(const std::vector<Bytes>& before) {
    for (size_t i = 0; i < data_.size(); ++i) {
      const Buffer& buffer = launch_.buffers[i];
      if (buffer.bytes == 0) continue;
      if (buffer.role == Role::kAccumulate) device_.fill(buffer.data, 0, buffer.bytes, launch_.stream);
      if (buffer.role == Role::kUpdate) device_.copy_to_device(buffer.data, before[i].data(), buffer.bytes);
    }
    device_.synchronize(launch_.stream);
  }

 private:
  const Launch& launch_;
  const Config& config_;
  Device& device_;
  std::vector<void*> data_;
};

}  // namespace

void RoleChecker::launch(const Launch& launch, const Config& config) {
  Run run(launch, config, *device_);
  const int64_t bytes = std::accumulate(launch.buffers.begin(), launch.buffers.end(), int64_t{0},
                                        [](int64_t sum, const Buffer& buffer) { return sum + buffer.bytes; });
  if (bytes > kLargestCheckedLaunch || fault()) return run();
  device_->synchronize(launch.stream);
  const std::vector<Bytes> before = run.contents(false);
  run();
  const std::vector<Bytes> first = run.contents(true);
  run.prepare(before);
  run();
  const std::vector<Bytes> second = run.contents(true);
  for (size_t i = 0; i < before.size(); ++i) {
    const Buffer& buffer = launch.buffers[i];
    const bool is_read = buffer.role == Role::kRead;
    const bool is_kept = is_read ? before[i] == second[i] : first[i] == second[i];
    if (is_kept) continue;
    const std::lock_guard lock(mutex_);
    if (fault_) return;
    fault_ = fmt::format("the launch {} ({}) declares {} {}, but {}", launch.tunable->name,
                         config.to_string(), buffer.name, name_of(buffer.role),
                         is_read ? "writes it" : "a second run leaves other values in it");
    return;
  }
}

std::optional<std::string> RoleChecker::fault() const {
  const std::lock_guard lock(mutex_);
  return fault_;
}

}  // namespace assay
