// SPDX-License-Identifier: Apache-2.0
// The problems that dynamic_conv and its gradient are timed on.
#include "kernels/dynamic_conv/dynamic_conv.h"

#include "bench/core/measure.h"

namespace assay::dynamic_conv {
namespace {

struct Size {
  DType dtype;
  int64_t b, t, d, w;
};

using enum DType;

// Few, and each below a second: a CPU moves a hundredth of what a GPU does.
constexpr Size kCpuSizes[] = {
    {kF32, 1, 16384, 1024, 4},
    {kBF16, 1, 16384, 1024, 4},
};

constexpr Size kCudaSizes[] = {
    // The layers of Jet-Nemotron: training, and one long sequence.
    {kBF16, 8, 2048, 2048, 4},
    {kF32, 8, 2048, 2048, 4},
    {kF16, 8, 2048, 2048, 4},
    {kBF16, 1, 16384, 4096, 4},
    {kF32, 1, 16384, 4096, 4},
    {kF16, 1, 16384, 4096, 4},
    // Other numbers of taps, and rows that no vector width divides.
    {kBF16, 8, 2048, 2048, 1},
    {kBF16, 8, 2048, 2048, 2},
    {kBF16, 8, 2048, 2048, 3},
    {kBF16, 8, 2048, 2048, 8},
    {kBF16, 8, 2048, 2047, 4},
};

}  // namespace

std::vector<Sweep> sweeps() {
  std::vector<Sweep> all;
  const auto add = [&](DeviceKind device, const Size& size) {
    for (std::string_view op : {"dynamic_conv", "dynamic_conv_grad"}) {
      all.push_back({.op = op,
                     .device = device,
                     .dtype = size.dtype,
                     .dims = {{kB, size.b}, {kT, size.t}, {kD, size.d}, {kW, size.w}}});
    }
  };
  for (const Size& size : kCpuSizes) add(DeviceKind::kCpu, size);
  for (const Size& size : kCudaSizes) add(DeviceKind::kCuda, size);
  return all;
}

}  // namespace assay::dynamic_conv
