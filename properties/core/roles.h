// SPDX-License-Identifier: Apache-2.0
// Checks that launches do to their buffers what they declare (kernels/core/tuner.h).
//
// Each launch runs twice. In between, buffers are put into the state that their roles ask for, and
// no other buffer is touched. Afterwards
//   read                       holds the bytes that it held before
//   write, accumulate, update  hold the bytes that the first run left
// A launch leaves other bytes if it adds to a buffer that it declares to write, or reads a buffer
// that it declares to overwrite.
#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "kernels/core/tuner.h"

namespace assay {

// Launches whose buffers take more than this are run once and not checked. [bytes]
inline constexpr int64_t kLargestCheckedLaunch = int64_t{64} << 20;

class RoleChecker final : public Tuner::Observer {
 public:
  explicit RoleChecker(Device& device) : device_(&device) {}

  void launch(const Launch& launch, const Config& config) override;

  // The first wrong declaration, as a sentence; or nothing.
  std::optional<std::string> fault() const;

 private:
  Device* device_;  // not owned
  mutable std::mutex mutex_;
  std::optional<std::string> fault_;
};

}  // namespace assay
