// SPDX-License-Identifier: Apache-2.0
#include "properties/core/random.h"

namespace assay {

double CounterRandom::normal(uint64_t counter) const {
  // Twelve 16-bit uniforms give the shape. A 53-bit uniform below their resolution fills the
  // significand.
  uint64_t sum = 0;
  for (uint64_t lane = 0; lane < 3; ++lane) {
    const uint64_t four = bits(counter, lane);
    sum += (four & 0xFFFF) + ((four >> 16) & 0xFFFF) + ((four >> 32) & 0xFFFF) + (four >> 48);
  }
  return (static_cast<double>(sum) + 12 * uniform(counter, 3)) * 0x1p-16 - 6;
}

void CounterRandom::normals(uint64_t first, std::span<double> values) const {
  for (size_t i = 0; i < values.size(); ++i) values[i] = normal(first + i);
}

}  // namespace assay
