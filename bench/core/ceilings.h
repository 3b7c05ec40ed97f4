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
      0;  // [bytes/s] read only. Where it exceeds the copy, as on GPUs, a path that reads more than
          // it writes can beat the copy; nothing can beat the larger of the two
};

Ceilings measure_ceilings(Device& device);

}  // namespace assay
