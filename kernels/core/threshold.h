// SPDX-License-Identifier: Apache-2.0
// Sizes from which a path does more than once, or in another way, what it does for small problems.
#pragma once

#include <cstdint>

namespace assay {

// A path reads such a size by value() in each call: the elements of a chunk, the bytes of a group
// of batches. The judge can lower all of them, so that small problems reach what large ones do. A
// result may depend on them as it depends on sizes, within its bounds.
class Threshold {
 public:
  constexpr Threshold(int64_t usual, int64_t low) : usual_(usual), low_(low) {}
  int64_t value() const;
  constexpr int64_t usual() const { return usual_; }

 private:
  int64_t usual_, low_;
};

// Lowers all thresholds of the process while it lives.
class LowThresholds {
 public:
  LowThresholds();
  ~LowThresholds();
  LowThresholds(const LowThresholds&) = delete;
  LowThresholds& operator=(const LowThresholds&) = delete;
};

}  // namespace assay
