// SPDX-License-Identifier: Apache-2.0
// How the calling thread rounds, treats subnormal numbers and traps: the control bits of MXCSR and
// of the x87 unit.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace assay {

// While it lives, the thread has the environment that C programs start with. Then it has its own
// again. Threads that a path starts are not seen.
class FloatEnvironment {
 public:
  FloatEnvironment() noexcept;
  ~FloatEnvironment();
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

  // What somebody has changed since: "the rounding mode"; or nothing.
  std::optional<std::string_view> change() const noexcept;

 private:
  uint32_t mxcsr_;
  uint16_t x87_;
};

}  // namespace assay
