// SPDX-License-Identifier: Apache-2.0
// What a device can do at best, measured in the same run as the times compared with it.
#pragma once

#include <map>
#include <string>

#include "kernels/core/device.h"

namespace assay {

struct Ceilings {
  // [bytes/s] Bytes read plus bytes written by the fastest copy we know, of much more than the
  // caches hold.
  double copy_bytes_per_s = 0;
  std::string copy_method;  // "copy kernel, 1024 MiB"
  // [bytes/s] Bytes read. On GPUs this exceeds the copy, so a path that reads more than it writes
  // can beat the copy. No path can beat the larger of the two.
  double read_bytes_per_s = 0;
  // [flop/s] Matrix products, by the format that factors are rounded to. On a GPU: a product of
  // 8192 x 8192 by cuBLASLt, on random data. On a CPU: multiply-adds in registers. Split factors
  // have no rate of their own: they cost three products of their parts. A factor is absent if the
  // device has no such product or no memory for it.
  std::map<Format, double> product_flops_per_s;
};

// Throws Error (device) if the device or the host has no memory for the copy.
Ceilings measure_ceilings(Device& device);

// The faster of both rates, for each of them.
Ceilings faster_of(const Ceilings& a, const Ceilings& b);

// [s] The time that a path of this precision can hardly beat: the longer of copying the bytes and
// doing the flops. Stored factors of 16 bits have the rate of products in their format.
double floor_seconds(const Ceilings& ceilings, const Cost& cost, const Recipe& recipe);

}  // namespace assay
