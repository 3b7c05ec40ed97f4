// SPDX-License-Identifier: Apache-2.0
// What a device can do at best, measured in the same run as what is compared with it.
#pragma once

#include <map>
#include <string>

#include "kernels/core/device.h"

namespace assay {

struct Ceilings {
  double copy_bytes_per_s =
      0;                    // [bytes/s] read plus written, by the fastest copy we know, far beyond the caches
  std::string copy_method;  // "copy kernel, 1024 MiB"
  double read_bytes_per_s =
      0;  // [bytes/s] read only. Where it exceeds the copy, as on GPUs, a path that reads more than
          // it writes can beat the copy; nothing can beat the larger of the two
  // [flop/s] of matrix products by what factors are rounded to. A GPU: of 8192 x 8192 by cuBLASLt, on random data; a CPU:
  // multiply-adds in registers. Split factors have no rate: theirs are three products of their parts. A factor is missing
  // where the device has no such product, or no memory for it.
  std::map<Factor, double> product_flops_per_s;
};

Ceilings measure_ceilings(Device& device);

// The time that a path of this precision can hardly beat: that of copying the bytes or of doing the flops, whichever is longer.
// Factors that are multiplied as they are stored, in 16 bits, have the rate of products of that format. [s]
double floor_seconds(const Ceilings& ceilings, const Cost& cost, const Recipe& recipe);

}  // namespace assay
