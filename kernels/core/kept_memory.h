// SPDX-License-Identifier: Apache-2.0
// Memory that Device::unreserve() gave back, for the next one who reserves the same. Mapping takes
// longer than a small case.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "kernels/core/device.h"

namespace assay {

class KeptMemory {
 public:
  using Release = std::function<void(void* memory, int64_t bytes, const Parts& parts)>;

  // Keeps at most so many bytes.
  KeptMemory(Release release, int64_t most) : release_(std::move(release)), most_(most) {}
  ~KeptMemory() {
    for (auto& [key, blocks] : kept_) {
      for (void* memory : blocks) release_(memory, key.first, key.second);
    }
  }
  KeptMemory(const KeptMemory&) = delete;
  KeptMemory& operator=(const KeptMemory&) = delete;

  // Null if nothing of these sizes is kept.
  void* take(int64_t bytes, const Parts& parts) {
    const std::lock_guard lock(mutex_);
    const auto found = kept_.find({bytes, parts});
    if (found == kept_.end() || found->second.empty()) return nullptr;
    void* memory = found->second.back();
    found->second.pop_back();
    kept_bytes_ -= sum(parts);
    --blocks_;
    return memory;
  }

  // Returns false, and keeps nothing, if it keeps too much already. Memory with large gaps takes
  // addresses, which are not without end.
  bool keep(void* memory, int64_t bytes, const Parts& parts) noexcept {
    constexpr int64_t kMostAddresses = int64_t{1} << 30;  // [bytes]
    constexpr int64_t kMostBlocks = 1024;
    try {
      const std::lock_guard lock(mutex_);
      if (bytes > kMostAddresses || blocks_ >= kMostBlocks || kept_bytes_ + sum(parts) > most_) return false;
      kept_[{bytes, parts}].push_back(memory);
      kept_bytes_ += sum(parts);
      ++blocks_;
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }

 private:
  static int64_t sum(const Parts& parts) {
    int64_t bytes = 0;
    for (const Part& part : parts) bytes += part.length;
    return bytes;
  }

  Release release_;
  int64_t most_;  // [bytes]
  std::mutex mutex_;
  std::map<std::pair<int64_t, Parts>, std::vector<void*>> kept_;
  int64_t kept_bytes_ = 0, blocks_ = 0;
};

}  // namespace assay
