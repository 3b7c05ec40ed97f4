// SPDX-License-Identifier: Apache-2.0
// The Cheri block: a dilated depthwise convolution with three taps, normalised over each example. A
// two-layer perceptron with a scaled residual connection follows.
//
//   conv[n,l,c] = x[n,l-d,c] * w[0,c] + x[n,l,c] * w[1,c] + x[n,l+d,c] * w[2,c]
//                 x is 0 outside 0 <= l < L
//   mean[n]     = sum_lc conv[n,l,c] / (L*C)
//   rstd[n]     = 1 / sqrt(sum_lc (conv[n,l,c] - mean[n])^2 / (L*C) + eps),    eps = 1e-3
//
// cheri_conv_norm
//   y[n,l,c]     = (conv[n,l,c] - mean[n]) * rstd[n]
//
// cheri_conv_norm_grad
//   dconv[n,l,c] = rstd[n] * (dy[n,l,c] - sum_lc dy / (L*C) - y[n,l,c] * sum_lc (dy*y) / (L*C))
//   dx[n,l,c]    = dconv[n,l,c] * w[1,c] + dconv[n,l+d,c] * w[0,c] + dconv[n,l-d,c] * w[2,c]
//   dw[k,c]      = sum_nl dconv[n,l,c] * x[n,l+(k-1)*d,c]
//                  terms outside 0 <= l < L are left out
//
// cheri_block
//   out[n,l,c]   = x[n,l,c] + scale * sum_h w2[c,h] * gelu(sum_c' w1[h,c'] * y[n,l,c'])
//   gelu(z)      = z/2 * (1 + tanh(sqrt(2/pi) * (z + 0.044715 z^3))),    scale = 0.15
//
// shapes   x, y, dy, dx, out (N,L,C); w, dw (3,C); w1 (hidden,C); w2 (C,hidden);
//          N, L, C, hidden >= 0; d >= 1, also d >= L
// strides  any, in elements, >= 0; inputs may repeat elements (stride 0), outputs may not
// dtypes   f32, f16 or bf16, the same for all tensors of a call
// sums     The convolution is computed in f32, with or without fused multiply-adds, in any order of
//          its three terms. It is not rounded again before the statistics. The statistics describe
//          the very values that are normalised.
//          Sums over an example (for mean, variance, dy and dy*y) are in f64 from the first
//          addition. Mean and variance come from sums of deviations from one of the example's own
//          values. The means of conv and of dy are kept in f64 or in two f32.
//          Sums over examples (dw) add at most kSumGroup products in f32 and add up groups in f64.
//          The order of all these sums depends on the shape and the device alone. So neither
//          mean/std nor L*C nor N adds error.
// functions 1/sqrt is right to 4u of itself; gelu to 8u of itself and 4u |z|, u = 2^-24
// aliasing no output may overlap another tensor
// empty    N, L or C = 0: y, dx and out are empty; dw is 0. hidden = 0: out = x
// special  An infinity or a NaN in conv or in dy makes its whole example NaN: all of its y, dx and
//          out, and each dw[k,c] that sums a term of it. Terms outside 0 <= l < L are left out, not
//          multiplied by 0: for d >= L, dw is 0 except for the middle tap. Elsewhere infinities and
//          NaNs propagate as in the formula. dx is finite if its value is, though dy - mean(dy)
//          exceeds the range of f32.
// zero     with w2 = 0 or w1 = 0 (all finite), out has the bits of x
// repeats  bitwise on one device, for all layouts, other examples, threads, configurations and
//          histories; dw depends on the other examples by its definition
// errors   throws Error (usage) that names the tensor and its values, Error (unsupported) that
//          names the size
// source   Cherimoya (Jacob Schreiber)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/core/context.h"
#include "kernels/core/op.h"
#include "kernels/core/tensor.h"

namespace assay::cheri {

inline constexpr double kEpsilon = 1e-3;
inline constexpr double kScale = 0.15;
inline constexpr int64_t kSumGroup = 32;

inline constexpr Dim kN{0, "n"}, kL{1, "l"}, kC{2, "c"}, kDilation{3, "dilation"};
inline constexpr Dim kHidden{4, "hidden"};  // of cheri_block alone

// cheri_conv_norm, cheri_block
inline constexpr Input kX{0, "x"}, kW{1, "w"};
inline constexpr Input kW1{2, "w1"}, kW2{3, "w2"};  // of cheri_block alone
inline constexpr Output kY{0, "y"};                 // of cheri_conv_norm
inline constexpr Output kOut{0, "out"};             // of cheri_block

// cheri_conv_norm_grad
namespace grad {
inline constexpr Input kDy{0, "dy"}, kX{1, "x"}, kW{2, "w"};
inline constexpr Output kDx{0, "dx"}, kDw{1, "dw"};
}  // namespace grad

struct ConvNormTensors {
  ConstTensorView x;  // (N, L, C)
  ConstTensorView w;  // (3, C)
  TensorView y;       // (N, L, C)
};

struct ConvNormGradTensors {
  ConstTensorView dy;  // (N, L, C)
  ConstTensorView x;   // (N, L, C)
  ConstTensorView w;   // (3, C)
  TensorView dx;       // (N, L, C)
  TensorView dw;       // (3, C)
};

struct BlockTensors {
  ConstTensorView x;   // (N, L, C)
  ConstTensorView w;   // (3, C)
  ConstTensorView w1;  // (hidden, C)
  ConstTensorView w2;  // (C, hidden)
  TensorView out;      // (N, L, C)
};

// Sites of the recipes.
namespace site {
inline constexpr Site kConv{0, "conv"};                   // the sum of three products
inline constexpr Site kDx{1, "dx"}, kDw{2, "dw"};         // of cheri_conv_norm_grad: both sums
inline constexpr Site kY{3, "y"}, kW1{4, "w1"};           // of cheri_block, from here on
inline constexpr Site kExpansion{5, "w1 y"}, kZ{6, "z"};  // the sum over c, and its values
inline constexpr Site kGelu{7, "gelu(z)"}, kW2{8, "w2"};  // w2 is rounded times the scale
inline constexpr Site kContraction{9, "w2 gelu(z)"};      // the sum over hidden
inline constexpr Site kUpdate{10, "update"};              // its values, before the scale
}  // namespace site

// Of cheri_conv_norm_grad. The other ops' CPU paths have f32_recipe().
Recipe grad_recipe(const Dims&, DType storage);
// Of cheri_block on tensor cores. Factors of both products have a format of their own; w2 then
// holds the scale. Or they are as they are stored, and so is what lies between the steps.
Recipe block_recipe(DType storage, Format factors);

// How a call runs, apart from its tensors.
struct Run {
  int64_t dilation;
  Context& context;
  void* stream = nullptr;            // a cudaStream_t for CUDA: work is enqueued, not waited for
  std::vector<uint64_t> versions{};  // of the inputs, as in Call; may be empty

  // An input as the source of a derived tensor.
  DerivedTensors::Source source(Input input, const ConstTensorView& view) const {
    return {.version = input < versions.size() ? versions[input] : 0, .data = view.data};
  }
};

void conv_norm_cpu(const ConvNormTensors& tensors, const Run& run);
void conv_norm_grad_cpu(const ConvNormGradTensors& tensors, const Run& run);
void block_cpu(const BlockTensors& tensors, const Run& run);

// Any size is served.
void conv_norm_two_pass(const ConvNormTensors& tensors, const Run& run);
void conv_norm_grad_two_pass(const ConvNormGradTensors& tensors, const Run& run);

// All blocks of the GPU hold some examples in shared memory and read x (and dy) once. They read an
// example that is larger than what they hold twice. Throws Error (unsupported) if
// ring_unsupported(), on a device without compute capability 9.0, or on one that runs fewer blocks
// at a time than an example has groups of 256 channels.
void conv_norm_ring(const ConvNormTensors& tensors, const Run& run);
void conv_norm_grad_ring(const ConvNormGradTensors& tensors, const Run& run);
// Why an example of tensors (N,L,C) is too large, if it is.
std::optional<std::string> ring_unsupported(const Extents& shape);

// conv_norm, then products by cuBLASLt. Products and the tensors between steps are in the storage
// dtype.
void block_train(const BlockTensors& tensors, const Run& run);
// After the statistics, one kernel does the normalisation, both products and the residual. `factor`
// is kBF16 or kBF16x3 for f32 storage; for 16-bit storage it is the storage format. hidden % 16 ==
// 0.
void block_fused(const BlockTensors& tensors, Format factor, const Run& run);
// Chooses as the source does: block_train if gradients are wanted or block_fused does not serve the
// size, else block_fused. The path in the table is for inference and wants no gradients.
void block_auto(const BlockTensors& tensors, bool gradients_wanted, const Run& run);

// The launches of CUDA paths, as far as they have several: Path::stages. block_train has as many as
// slabs need, which pass values through the cache, so it declares none.
std::vector<Stage> conv_norm_two_pass_stages(const Dims& dims, DType storage);
std::vector<Stage> conv_norm_grad_two_pass_stages(const Dims& dims, DType storage);
std::vector<Stage> conv_norm_grad_ring_stages(const Dims& dims, DType storage);
std::vector<Stage> block_fused_stages(const Dims& dims, DType storage);

// Throw Error (usage) unless the tensors satisfy the contract above.
void require_valid(const ConvNormTensors& tensors, int64_t dilation);
void require_valid(const ConvNormGradTensors& tensors, int64_t dilation);
void require_valid(const BlockTensors& tensors, int64_t dilation);

// The ops cheri_conv_norm, cheri_conv_norm_grad and cheri_block with their paths.
const std::vector<Op>& ops();

}  // namespace assay::cheri
