// SPDX-License-Identifier: Apache-2.0
// The problems that mhc_post is timed on.
#include "kernels/mhc_post/mhc_post.h"

#include "bench/core/measure.h"

namespace assay::mhc_post {
namespace {

struct Size {
  DType dtype;
  int64_t n, hc, h;
};

using enum DType;

// Few, and each below a second: a CPU moves a hundredth of what a GPU does.
constexpr Size kCpuSizes[] = {
    {kF32, 2048, 4, 4096},
    {kBF16, 2048, 4, 4096},
};

constexpr Size kCudaSizes[] = {
    // Four streams: the hidden sizes of DeepSeek's models, in training and in decoding.
    {kBF16, 4096, 4, 1280},
    {kBF16, 4096, 4, 2560},
    {kBF16, 4096, 4, 4096},
    {kBF16, 4096, 4, 7168},
    {kBF16, 512, 4, 4096},
    {kF16, 4096, 4, 4096},
    {kF32, 4096, 4, 4096},
    // Other numbers of streams, and rows that no vector width divides.
    {kBF16, 4096, 1, 4096},
    {kBF16, 4096, 2, 4096},
    {kBF16, 4096, 3, 2560},
    {kBF16, 4096, 5, 4096},
    {kBF16, 4096, 8, 4096},
    {kBF16, 4096, 16, 4096},
    {kF32, 4096, 8, 4096},
    {kBF16, 4096, 4, 4095},
    {kBF16, 4096, 4, 4100},
    // More than 2^31 elements in residual and in out.
    {kBF16, 140000, 4, 4096},
};

}  // namespace

std::vector<Sweep> sweeps() {
  std::vector<Sweep> all;
  const auto add = [&](DeviceKind device, const Size& size) {
    all.push_back({.op = "mhc_post",
                   .device = device,
                   .dtype = size.dtype,
                   .dims = {{kN, size.n}, {kHc, size.hc}, {kH, size.h}}});
  };
  for (const Size& size : kCpuSizes) add(DeviceKind::kCpu, size);
  for (const Size& size : kCudaSizes) add(DeviceKind::kCuda, size);
  return all;
}

}  // namespace assay::mhc_post
