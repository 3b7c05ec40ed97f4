// SPDX-License-Identifier: Apache-2.0
// Dynamic causal depthwise convolution: every position of every channel has its own W taps.
//
//   out[b,t,d]    = sum_w k[b,t,d,w] * x[b,t+w-W+1,d]             x is 0 before t = 0
//   dk[b,t,d,w]   = dout[b,t,d] * x[b,t+w-W+1,d]                  0 where x lies before t = 0
//   dx[b,t,d]     = sum_w dout[b,t+W-1-w,d] * k[b,t+W-1-w,d,w]    without terms at t+W-1-w >= T
//
// shapes   x, dout, out, dx (B,T,D); k, dk (B,T,D,W); B, T, D >= 0, 1 <= W <= 8
// strides  any, in elements, >= 0; inputs may repeat elements (stride 0), outputs may not
// dtypes   f32, f16 or bf16, the same for all tensors of a call; arithmetic in f32, one rounding to
//          the dtype at the end
// aliasing no output may overlap another tensor
// empty    B, T or D = 0: returns without touching memory
// special  infinities and NaNs propagate as in the formula; taps before t = 0 are left out, not
//          multiplied by 0
// repeats  bitwise on one device: the order of each sum is fixed for all layouts, neighbours and
//          threads; cpu adds the terms of a dx in order of w, cuda in order of t, so the two may
//          differ in the last bit
// errors   throws Error (usage) that names the tensor and its values
// source   Jet-Nemotron's dynamic_conv (NVIDIA)
#pragma once

#include <vector>

#include "kernels/core/op.h"
#include "kernels/core/tensor.h"

namespace assay::dynamic_conv {

inline constexpr int64_t kMaxTaps = 8;
// [positions x channels] that are worth another CPU thread.
inline constexpr int64_t kGrain = int64_t{1} << 16;

inline constexpr Dim kB{0, "b"}, kT{1, "t"}, kD{2, "d"}, kW{3, "w"};

// dynamic_conv
inline constexpr Input kX{0, "x"}, kK{1, "k"};
inline constexpr Output kOut{0, "out"};

// dynamic_conv_grad
namespace grad {
inline constexpr Input kDout{0, "dout"}, kX{1, "x"}, kK{2, "k"};
inline constexpr Output kDx{0, "dx"}, kDk{1, "dk"};
}  // namespace grad

// Sites of the recipes: the sums over w.
namespace site {
inline constexpr Site kOut{0, "out"}, kDx{1, "dx"};
}

struct ForwardTensors {
  ConstTensorView x;  // (B, T, D)
  ConstTensorView k;  // (B, T, D, W)
  TensorView out;     // (B, T, D)
};

struct BackwardTensors {
  ConstTensorView dout;  // (B, T, D)
  ConstTensorView x;     // (B, T, D)
  ConstTensorView k;     // (B, T, D, W)
  TensorView dx;         // (B, T, D)
  TensorView dk;         // (B, T, D, W)
};

void forward_cpu(const ForwardTensors& tensors);
void backward_cpu(const BackwardTensors& tensors);

// `stream` is a cudaStream_t. The tensors are in memory of the current device. The work is enqueued
// and not waited for.
void forward_cuda(const ForwardTensors& tensors, void* stream);
void backward_cuda(const BackwardTensors& tensors, void* stream);

// Throw Error (usage) unless the tensors satisfy the contract above.
void require_valid(const ForwardTensors& tensors);
void require_valid(const BackwardTensors& tensors);

// The ops dynamic_conv and dynamic_conv_grad, with their paths.
const std::vector<Op>& ops();

}  // namespace assay::dynamic_conv
