// SPDX-License-Identifier: Apache-2.0
#include "kernels/core/streaming.h"

#include <atomic>

namespace assay {
namespace {

std::atomic<int64_t> threshold{kStreamingThreshold};

}  // namespace

bool outgrow_caches(std::initializer_list<TensorView> outputs) {
  int64_t bytes = 0;
  for (const TensorView& view : outputs) bytes += view.size() * static_cast<int64_t>(size_of(view.dtype));
  return bytes >= threshold.load(std::memory_order_relaxed);
}

StreamingThreshold::StreamingThreshold(int64_t bytes) {
  threshold = bytes;
}
StreamingThreshold::~StreamingThreshold() {
  threshold = kStreamingThreshold;
}

}  // namespace assay
