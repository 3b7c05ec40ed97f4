// SPDX-License-Identifier: Apache-2.0
// What a device can do at best, measured in the same run as what is compared with it.
#pragma once

#include <string>

#include "kernels/core/device.h"

namespace assay {

struct Ceilings {
  double copy_bytes_per_s =
      0;                    // [bytes/s] read plus written, by the fastest copy we know, far beyond the caches
  std::string copy_method;  // "copy kernel, 1024 MiB"
  double read_bytes_per_s =
      0;  // [bytes/s] read only: memory turns from reading to writing at a cost, so that a path
          // that reads more than it writes can be faster than a copy, but not than this
};

Ceilings measure_ceilings(Device& device);

}  // namespace assay
