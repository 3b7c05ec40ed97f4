// SPDX-License-Identifier: Apache-2.0
// The end of a layer with manifold-constrained hyper-connections (mHC): the HC residual streams are
// mixed with each other, and the layer's output is added to them.
//
//   out[n,i,h] = post[n,i] * x[n,h] + sum_j comb[n,j,i] * residual[n,j,h]
//
// shapes   x (N,H); residual, out (N,HC,H); post (N,HC) or (N,HC,1); comb (N,HC,HC), where
//          comb[n,j,i] weighs stream j in output i; N, H >= 0, 1 <= HC <= 16
// strides  any, in elements, >= 0; inputs may repeat elements (stride 0), out may not
// dtypes   x, residual and out f32, f16 or bf16, the same for all three; post and comb f32;
//          arithmetic in f32, one rounding to the dtype at the end
// aliasing out may overlap no input
// empty    N or H = 0: returns without touching memory
// special  infinities and NaNs propagate as in the formula
// repeats  bitwise on one device, for all layouts, neighbours and threads: post * x comes first,
//          then j = 0, 1, ... by fused multiply-adds (on CPUs that have them)
// errors   throws Error (usage) that names the tensor and its values
// source   FlagGems' mhc_post
#pragma once

#include <vector>

#include "kernels/core/op.h"
#include "kernels/core/tensor.h"

namespace assay::mhc_post {

inline constexpr int64_t kMaxStreams = 16;
inline constexpr int64_t kGrain = int64_t{1} << 18;  // [output elements] worth another CPU thread

inline constexpr Dim kN{0, "n"}, kHc{1, "hc"}, kH{2, "h"};
inline constexpr Input kX{0, "x"}, kResidual{1, "residual"}, kPost{2, "post"}, kComb{3, "comb"};
inline constexpr Output kOut{0, "out"};

// Site of the recipes: the sum over x and all streams.
namespace site {
inline constexpr Site kOut{0, "out"};
}

struct Tensors {
  ConstTensorView x;         // (N, H)
  ConstTensorView residual;  // (N, HC, H)
  ConstTensorView post;      // (N, HC) or (N, HC, 1), f32
  ConstTensorView comb;      // (N, HC, HC), f32
  TensorView out;            // (N, HC, H)
};

void run_cpu(const Tensors& tensors);

// `stream` is a cudaStream_t. The tensors are in memory of the current device. The work is enqueued
// and not waited for.
void run_cuda(const Tensors& tensors, void* stream);

// Throws Error (usage) unless the tensors satisfy the contract above.
void require_valid(const Tensors& tensors);

// The CUDA path has kernels for four streams with rows of whole vectors.
std::vector<OwnSize> cuda_sizes();

// The op mhc_post, with its paths.
const std::vector<Op>& ops();

}  // namespace assay::mhc_post
