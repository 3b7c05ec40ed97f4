// SPDX-License-Identifier: Apache-2.0
#include "kernels/core/threshold.h"

#include <atomic>

namespace assay {
namespace {

std::atomic<int> lowered{0};  // by so many

}  // namespace

int64_t Threshold::value() const {
  return lowered.load(std::memory_order_relaxed) > 0 ? low_ : usual_;
}

LowThresholds::LowThresholds() {
  ++lowered;
}
LowThresholds::~LowThresholds() {
  --lowered;
}

}  // namespace assay
