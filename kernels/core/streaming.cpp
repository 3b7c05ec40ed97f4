// SPDX-License-Identifier: Apache-2.0
#include "kernels/core/streaming.h"

namespace assay {

bool outgrow_caches(std::initializer_list<TensorView> outputs) {
  int64_t bytes = 0;
  for (const TensorView& view : outputs) bytes += view.size() * static_cast<int64_t>(size_of(view.dtype));
  return bytes >= kStreamingThreshold.value();
}

}  // namespace assay
