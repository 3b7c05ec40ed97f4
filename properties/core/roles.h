// SPDX-License-Identifier: Apache-2.0
// Whether launches do to their buffers what they declare (kernels/core/tuner.h).
//
// Each launch runs twice; in between, buffers are put into the state that their roles ask for, and no others are
// touched. Then
//   read                       holds the bytes that it held before
//   write, accumulate, update  hold the bytes that the first run left: a launch that adds to what it declares to write,
//                              or reads what it overwrites, leaves others
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
