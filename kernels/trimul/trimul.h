// SPDX-License-Identifier: Apache-2.0
// Triangle multiplication (outgoing edges), forward.
//
//   xn[b,i,k,:]     = layer_norm(x[b,i,k,:]) * norm.weight + norm.bias                     over C
//   left[b,i,k,h]   = mask[b,i,k] * sigmoid(sum_c left_gate.weight[h,c] * xn[b,i,k,c])
//                                 * sum_c left_proj.weight[h,c] * xn[b,i,k,c]           right alike
//   hidden[b,i,j,h] = sum_k left[b,i,k,h] * right[b,j,k,h]
//   z[b,i,j,:]      = (layer_norm(hidden[b,i,j,:]) * to_out_norm.weight + to_out_norm.bias) over H
//                     * sigmoid(out_gate.weight xn[b,i,j,:])
//   out[b,i,j,c]    = sum_h to_out.weight[c,h] * z[b,i,j,h]
//
//   layer_norm(v)   = (v - mean(v)) / sqrt(mean((v - mean(v))^2) + eps),   eps = 1e-5
//
// shapes   x, out (B,N,N,C); mask (B,N,N,M), where M = 1, or M = 0 for no mask, which counts as a
//          mask of ones; norm.* (C); the five projections (H,C); to_out_norm.* (H);
//          to_out.weight (C,H). B, C, H >= 0; 0 <= N <= 65536
// strides  any, in elements, >= 0; inputs may repeat elements (stride 0), out may not
// dtypes   f32, also for the mask: a boolean mask holds 0 and 1
// norms    Norms are computed in f32 at least, in two passes, from deviations from one of the row's
//          own values. So mean/std adds no error, and equal values become 0. Squares do not
//          overflow unless the values do. In a sum of n > 32 terms, a term goes through 18 + n/64
//          additions on average and 36 + n/32 at most, as in a sum by parts of 32. Norms read
//          values that are not rounded below f32, except hidden in a path that keeps it in 16 bits.
//          The mean is rounded to f32 where hidden is kept in 16 bits.
//          A value is divided by the root, then multiplied by the weight. It is rounded to a factor
//          after normalising.
// sums     Each sum of products adds up neighbours: ascending, in chunks, or split; only within 32
//          terms any order. So there are no accumulators that take every second term.
// gates    The projection is multiplied by the sigmoid, then by the mask. A sigmoid is right to
//          4u + (8 + 2|z|) u (1 - sigmoid) of itself.
// factors  A recipe with f16 rounds the factors of products, hidden and the gate of the output to
//          f16. Each is stored times a power of two that depends on the inputs alone. Let A be the
//          largest magnitude that the inputs permit for it (see below). The power brings A to
//          2^13 .. 2^15, for hidden to 2^12 .. 2^15. So nothing overflows, and underflow loses at
//          most A * 2^-38, for hidden A * 2^-37. eps of the second norm is scaled alike.
//          A recipe with f16x3 scales the factors alike and keeps each as v = hi + lo + e: hi is v
//          rounded to f16, lo is v - hi rounded to f16. Since |v - hi| <= 2^-11 |v|, e is at most
//          2^-22 |v|, or half of the smallest number of f16, 2^-25, which is at most A * 2^-38. A
//          product leaves out lo * lo and what e makes of it, 2^-22 of it each time: 3 * 2^-22,
//          and what underflows. hidden and the gate are f32.
//          bf16 needs no scale. There a value below 2^-126 loses at most 2^-134.
//          A is as follows. |.| is the norm of a vector, max|mask| is taken over the batch, and
//          only finite values count.
//            xn       sqrt(C) * max|norm.weight| + max|norm.bias|
//            weights  their largest magnitude
//            left     max_h |left_proj.weight[h]| * (sqrt(C) * max|norm.weight| + |norm.bias|)
//                     * max|mask|; right alike
//            hidden   N * A(left) * A(right)
//            gate     1
//            z        as xn, with to_out_norm and H
// aliasing out may overlap no other tensor
// empty    B, N or C = 0: out is empty. H = 0: out = 0
// special  Infinities and NaNs propagate as in the formula: one in x makes row i and column i of
//          its batch NaN, even where the mask is 0. Where a sum of products, C or H times the
//          largest deviation in a norm's row, a result of a norm, or a weight as a factor exceeds
//          the range of f32, out is an infinity or a NaN. Scaled factors may keep out finite there.
//          An infinity that is a factor in two parts makes a NaN.
// repeats  bitwise on one device, for all layouts, other batches, threads, configurations and
//          histories. The order of the sum over k is the same for all i, j and h: left and right
//          are exchangeable. Hidden channels have equal bits if all have equal weights. A mask of
//          ones gives the bits of no mask.
// errors   throws Error (usage) that names the tensor and its values, Error (unsupported) that
//          names the size
// source   AlphaFold 3 (Abramson et al. 2024), Algorithm 12; weights have the names of its PyTorch
//          form
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/core/context.h"
#include "kernels/core/op.h"
#include "kernels/core/tensor.h"

namespace assay::trimul {

inline constexpr double kEpsilon = 1e-5;

inline constexpr Dim kB{0, "b"}, kN{1, "n"}, kC{2, "c"}, kH{3, "h"}, kM{4, "mask"};
inline constexpr Input kX{0, "x"}, kMask{1, "mask"};
inline constexpr Input kNormWeight{2, "norm.weight"}, kNormBias{3, "norm.bias"};
inline constexpr Input kLeftProj{4, "left_proj.weight"}, kRightProj{5, "right_proj.weight"};
inline constexpr Input kLeftGate{6, "left_gate.weight"}, kRightGate{7, "right_gate.weight"};
inline constexpr Input kOutGate{8, "out_gate.weight"};
inline constexpr Input kToOutNormWeight{9, "to_out_norm.weight"}, kToOutNormBias{10, "to_out_norm.bias"};
inline constexpr Input kToOut{11, "to_out.weight"};
inline constexpr Output kOut{0, "out"};

// Sites of the recipes.
namespace site {
inline constexpr Site kXn{0, "xn"}, kWeights{1, "weights"};
inline constexpr Site kProjections{2, "projections"};  // all sums over c
inline constexpr Site kSides{3, "left, right"};
inline constexpr Site kContraction{4, "contraction"};  // the sum over k
inline constexpr Site kHidden{5, "hidden"};
inline constexpr Site kGate{6, "gate of the output"}, kZ{7, "z"};
inline constexpr Site kUpdate{8, "to_out z"};  // the sum over h
}  // namespace site

// Of a path with these factors in all its products. hidden and the gate of the output are kept in
// the same format if that has 16 bits.
Recipe recipe_of(Format factors);

// The launches of a CUDA path with these factors.
std::vector<Stage> stages_of(Format factors, const Dims& dims);

// The weights of one projection and of its gate.
struct Gated {
  ConstTensorView proj;  // (H, C)
  ConstTensorView gate;  // (H, C)
};

struct Norm {
  ConstTensorView weight;  // (C) or (H)
  ConstTensorView bias;    // (C) or (H)
};

struct Tensors {
  ConstTensorView x;         // (B, N, N, C)
  ConstTensorView mask;      // (B, N, N, M)
  Norm norm;                 // (C)
  Gated left, right;         // (H, C)
  ConstTensorView out_gate;  // (H, C)
  Norm to_out_norm;          // (H)
  ConstTensorView to_out;    // (C, H)
  TensorView out;            // (B, N, N, C)
};

// How a call runs, apart from its tensors.
struct Run {
  Context& context;
  void* stream = nullptr;            // a cudaStream_t for CUDA: work is enqueued, not waited for
  std::vector<uint64_t> versions{};  // of the inputs, as in Call; may be empty

  // An input as the source of a derived tensor.
  DerivedTensors::Source source(Input input, const ConstTensorView& view) const {
    return {.version = input < versions.size() ? versions[input] : 0, .data = view.data};
  }
};

void run_cpu(const Tensors& tensors, const Run& run);

// `factor` is the format of the factors of products: kF16, kBF16 or kF16x3. With kF16 or kBF16 the
// tensors between the steps are stored in it, too; with kF16x3 hidden and the gate of the output
// are f32. Compute capability 9.0.
void run_cuda(const Tensors& tensors, Format factor, const Run& run);

// The reason why the CUDA paths do not serve these sizes, if there is one.
std::optional<std::string> unsupported_on_cuda(int64_t channels, int64_t hidden);

// Throws Error (usage) unless the tensors satisfy the contract above.
void require_valid(const Tensors& tensors);

// The op trimul, with its paths.
const std::vector<Op>& ops();

}  // namespace assay::trimul
