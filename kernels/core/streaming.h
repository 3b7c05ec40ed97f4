// SPDX-License-Identifier: Apache-2.0
// When CPU paths write past the caches, which saves reading the lines that they overwrite.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "kernels/core/tensor.h"

namespace assay {

// [bytes] The outputs of a call that together take at least so many are written past the caches: more than a core has
// for itself.
inline constexpr int64_t kStreamingThreshold = int64_t{8} << 20;

// Whether these outputs of a call reach the threshold.
bool outgrow_caches(std::initializer_list<TensorView> outputs);

// Another threshold for all calls while it lives, so that tests reach streaming stores with few elements. One at a time.
class StreamingThreshold {
 public:
  explicit StreamingThreshold(int64_t bytes);
  ~StreamingThreshold();
  StreamingThreshold(const StreamingThreshold&) = delete;
  StreamingThreshold& operator=(const StreamingThreshold&) = delete;
};

}  // namespace assay
