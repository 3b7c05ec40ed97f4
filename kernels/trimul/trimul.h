// SPDX-License-Identifier: Apache-2.0
// Triangle multiplication (outgoing edges), forward.
//
//   xn[b,i,k,:]     = layer_norm(x[b,i,k,:]) * norm.weight + norm.bias                               over C
//   left[b,i,k,h]   = mask[b,i,k] * sigmoid(sum_c left_gate.weight[h,c] * xn[b,i,k,c])
//                                 * sum_c left_proj.weight[h,c] * xn[b,i,k,c]                        right alike
//   hidden[b,i,j,h] = sum_k left[b,i,k,h] * right[b,j,k,h]
//   z[b,i,j,:]      = (layer_norm(hidden[b,i,j,:]) * to_out_norm.weight + to_out_norm.bias)           over H
//                     * sigmoid(out_gate.weight xn[b,i,j,:])
//   out[b,i,j,c]    = sum_h to_out.weight[c,h] * z[b,i,j,h]
//
//   layer_norm(v)   = (v - mean(v)) / sqrt(mean((v - mean(v))^2) + eps),   eps = 1e-5
//
// shapes   x, out (B,N,N,C); mask (B,N,N,M), M = 1, or 0 without a mask, which is as one of ones; norm.* (C); the five
//          projections (H,C); to_out_norm.* (H); to_out.weight (C,H). B, C, H >= 0; 0 <= N <= 65536
// strides  any, in elements, >= 0; inputs may repeat elements (stride 0); out must not
// dtypes   f32, the mask as well: a boolean one holds 0 and 1
// norms    in f32 at least, in two passes, of deviations from one of the row's own values, so that mean/std adds no error
//          and equal values become 0; squares never overflow where the values themselves do not. A term of a
//          sum of n > 32 goes through 18 + n/64 additions on average and 36 + n/32 at most, as it does in parts of 32. They
//          see values that are not rounded below f32, but for hidden in a path that keeps it in 16 bits. Rounding comes
//          after normalising, the weight after the division by the root
// factors  what a recipe rounds to f16 (the factors of the products, hidden, the gate of the output) is stored times a power of
//          two that depends on the inputs alone. With A, the largest magnitude that the inputs permit (below), A is
//          stored as something from 2^13 to 2^15, of hidden from 2^12 on: nothing overflows, and underflow takes at most
//          A * 2^-38, of hidden A * 2^-37.
//          eps of the second norm is scaled alike. Paths with factors of f32's range need no scale; what is below
//          2^-126 loses up to 2^-134 there (bf16) or 2^-137 (tf32, and so does the rest of a split)
//            xn      sqrt(C) * max|norm.weight| + max|norm.bias|             weights  their largest magnitude
//            left    max_h |left_proj.weight[h]| * (sqrt(C) * max|norm.weight| + |norm.bias|) * max|mask|   |.|: norm;
//                    max|mask| is that of its batch; everywhere finite values count
//            hidden  N * A(left) * A(right)                                  z        as xn, of to_out_norm and H
// aliasing out may overlap no other tensor
// empty    B, N or C = 0: out is empty. H = 0: out = 0
// special  infinities and NaNs propagate as in the formula: one in x makes row i and column i of its batch NaN, also
//          where the mask is 0. Where a sum of products, a norm's row of C or H such deviations, what a norm yields, or a weight
//          as a factor exceeds the range of f32, out is an infinity or a NaN
// repeats  bitwise on one device, whatever the layout, the other batches, the threads, the configuration or what happened
//          before. The order of the sum over k is the same for all i, j and h: left and right are exchangeable, and
//          hidden channels with equal weights have equal bits. A mask of ones has the bits of none
// errors   throws Error (usage) that names the tensor and its values, Error (unsupported) that names the size
// source   AlphaFold 3 (Abramson et al. 2024), Algorithm 12; names of the weights as in its PyTorch form
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
  void* stream = nullptr;            // a cudaStream_t for CUDA; the work is enqueued there and not waited for
  std::vector<uint64_t> versions{};  // of the inputs, as in Call; may be empty

  // The input of this number, as what a derived tensor is made from.
  DerivedTensors::Source source(size_t input, const ConstTensorView& view) const {
    return {.version = input < versions.size() ? versions[input] : 0, .data = view.data};
  }
};

// Positions of the inputs in the op's table, for `versions`.
enum Input : size_t {
  kX,
  kMask,
  kNormWeight,
  kNormBias,
  kLeftProj,
  kRightProj,
  kLeftGate,
  kRightGate,
  kOutGate,
  kToOutNormWeight,
  kToOutNormBias,
  kToOut,
  kInputs,
};

void run_cpu(const Tensors& tensors, const Run& run);

// Who multiplies left and right on a GPU: our own kernel where there is one (split factors, compute capability 9.0), or
// cuBLASLt.
enum class Product : uint8_t { kOwn, kCublasLt };

// Products of `factor`: kF16 or kBF16, which the tensors between the steps are stored in as well (compute capability 9.0),
// kTF32 or kTF32x3, with f32 between the steps (8.0 and later).
void run_cuda(const Tensors& tensors, Factor factor, Product product, const Run& run);

// Why the CUDA paths do not serve these sizes, or nothing.
std::optional<std::string> unsupported_on_cuda(int64_t channels, int64_t hidden);

// Throws Error (usage) unless the tensors satisfy the contract above.
void require_valid(const Tensors& tensors);

// The op trimul with its paths.
const std::vector<Op>& ops();

}  // namespace assay::trimul
