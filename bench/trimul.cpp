// SPDX-License-Identifier: Apache-2.0
// The problems that trimul is timed on.
#include "kernels/trimul/trimul.h"

#include "bench/core/measure.h"

namespace assay::trimul {
namespace {

struct Size {
  int64_t b, n, c, mask;
};

// Few, and each of seconds at most: a CPU computes a thousandth of what a GPU does.
constexpr Size kCpuSizes[] = {
    {1, 256, 128, 0},
    {1, 128, 128, 1},
};

// N of the crops that AlphaFold 3 is trained and run on, both widths of its edges.
constexpr Size kCudaSizes[] = {
    {1, 1024, 128, 0}, {1, 1024, 128, 1}, {1, 768, 128, 0},
    {2, 256, 128, 0},  {1, 1024, 384, 0}, {2, 256, 384, 0},
};

constexpr int64_t kHidden = 128;

}  // namespace

std::vector<Sweep> sweeps() {
  std::vector<Sweep> all;
  const auto add = [&](DeviceKind device, std::span<const Size> sizes) {
    for (const Size& size : sizes) {
      const Dims dims{{kB, size.b}, {kN, size.n}, {kC, size.c}, {kH, kHidden}, {kM, size.mask}};
      all.push_back({.op = "trimul", .device = device, .dtype = DType::kF32, .dims = dims});
    }
  };
  add(DeviceKind::kCpu, kCpuSizes);
  add(DeviceKind::kCuda, kCudaSizes);
  return all;
}

}  // namespace assay::trimul
