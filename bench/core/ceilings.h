// SPDX-License-Identifier: Apache-2.0
// What a device can do at best, measured in the same run as the times compared with it.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

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
  // [s] A call that copies 4 KiB which no cache holds, and what each further such launch adds to
  // it. No call that reads and writes memory is shorter. On a CPU there are no further launches.
  // Both are 0 if they were not measured.
  double launch_s = 0, next_launch_s = 0;
};

// Throws Error (device) if the device or the host has no memory for the copy.
Ceilings measure_ceilings(Device& device);

// The faster of both rates, for each of them.
Ceilings faster_of(const Ceilings& a, const Ceilings& b);

// [s] The flops at the rate of products with the factors of the recipe; 0 if that was not measured.
// Stored factors of 16 bits have the rate of products in their format.
double products_seconds(const Ceilings& ceilings, int64_t flops, const Recipe& recipe);

// The time that a call of a path can hardly beat is the sum of its parts: the launches, and of each
// launch the longer of two times, copying its bytes and doing its flops.
//
// What launches pass to each other may stay in the cache. When a launch begins, the cache holds at
// most its own size of what earlier ones left, and when it ends, of what it leaves. So of `reads`
// and of `writes` (kernels/core/op.h) at least the rest goes through memory:
//   bytes = stage.bytes + max(0, reads - cache) + max(0, writes - cache)
// A wait of blocks for each other within a launch counts nothing.
struct FloorPart {
  enum class Limit : uint8_t { kLaunch, kBytes, kFlops };
  std::string name;  // of the stage; "call" if there is one, "launch" or "3 launches"
  Limit limit = Limit::kLaunch;
  double ns = 0;      // [ns]
  int64_t bytes = 0;  // [bytes] through memory
  int64_t flops = 0;  // [flop]

  bool operator==(const FloorPart&) const = default;
};
std::string_view name_of(FloorPart::Limit limit);  // "bytes"

// Without stages there is one launch, which does all of the cost.
std::vector<FloorPart> floor_parts(const Ceilings& ceilings, const Cost& cost, std::span<const Stage> stages,
                                   const Recipe& recipe, int64_t cache_bytes);

}  // namespace assay
