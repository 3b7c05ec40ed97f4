// SPDX-License-Identifier: Apache-2.0
// What a device can do at best, measured in the same run as what is compared with it.
#pragma once

#include <string>

#include "kernels/core/device.h"

namespace assay {

struct Ceilings {
  double copy_bytes_per_s = 0;  // [bytes/s] read plus written, by the fastest copy we know, far beyond the caches
  std::string copy_method;      // "cudaMemcpyAsync, 4 GiB" or "streaming stores, 2 threads, 1 GiB"
};

Ceilings measure_ceilings(Device& device);

}  // namespace assay
