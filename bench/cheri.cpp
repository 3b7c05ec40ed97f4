// SPDX-License-Identifier: Apache-2.0
// The problems that the Cheri ops are timed on.
#include "kernels/cheri/cheri.h"

#include "bench/core/measure.h"

namespace assay::cheri {
namespace {

struct Size {
  DType dtype;
  int64_t n, l, c, dilation;
};

using enum DType;

// Few, and each below a second: a CPU moves a hundredth of what a GPU does.
constexpr Size kCpuSizes[] = {
    {kF32, 64, 2114, 128, 4},
    {kBF16, 64, 2114, 128, 4},
};
constexpr Size kCpuBlockSizes[] = {
    {kF32, 8, 2114, 128, 4},
    {kBF16, 8, 2114, 128, 4},
};

// L 2114 is what Cherimoya trains on; the dilation doubles from block to block.
constexpr Size kCudaSizes[] = {
    {kF32, 64, 2114, 128, 4}, {kF32, 64, 2114, 128, 256}, {kBF16, 64, 2114, 128, 4}, {kF32, 64, 2114, 64, 4},
    {kF32, 64, 2114, 256, 4}, {kF32, 512, 1024, 128, 4},  {kF32, 2, 2114, 128, 4},
};
constexpr Size kCudaBlockSizes[] = {
    {kF32, 64, 2114, 128, 4},
    {kBF16, 64, 2114, 128, 4},
    {kF16, 64, 2114, 128, 4},
    {kF32, 64, 2114, 64, 4},
};

constexpr int64_t kExpansion = 2;

}  // namespace

std::vector<Sweep> sweeps() {
  std::vector<Sweep> all;
  const auto add = [&](std::string_view op, DeviceKind device, std::span<const Size> sizes) {
    for (const Size& size : sizes) {
      Dims dims{{kN, size.n}, {kL, size.l}, {kC, size.c}, {kDilation, size.dilation}};
      if (op == "cheri_block") dims.set(kHidden.key, kExpansion * size.c);
      all.push_back({.op = op, .device = device, .dtype = size.dtype, .dims = dims});
    }
  };
  for (std::string_view op : {"cheri_conv_norm", "cheri_conv_norm_grad"}) {
    add(op, DeviceKind::kCpu, kCpuSizes);
    add(op, DeviceKind::kCuda, kCudaSizes);
  }
  add("cheri_block", DeviceKind::kCpu, kCpuBlockSizes);
  add("cheri_block", DeviceKind::kCuda, kCudaBlockSizes);
  return all;
}

}  // namespace assay::cheri
