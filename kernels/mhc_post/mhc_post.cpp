// SPDX-License-Identifier: Apache-2.0
#include "kernels/mhc_post/mhc_post.h"

#include <utility>

#include "kernels/core/build.h"
#include "kernels/core/operands.h"
#include "kernels/core/streaming.h"
#include "kernels/core_cuda/limits.h"

namespace assay::mhc_post {
namespace {

Tensors tensors_of(const Call& call) {
  const auto& in = call.inputs;
  return {in[kX], in[kResidual], in[kPost], in[kComb], call.outputs[kOut]};
}

Cost cost(const Dims& dims, DType storage) {
  const int64_t n = dims[kN], hc = dims[kHc], h = dims[kH];
  const auto mix_bytes = static_cast<int64_t>(sizeof(float));
  return {
      .bytes = n * h * (1 + 2 * hc) * static_cast<int64_t>(size_of(storage)) + n * hc * (1 + hc) * mix_bytes,
      .flops = 2 * n * h * hc * (1 + hc)};
}

}  // namespace

void require_valid(const Tensors& t) {
  if (t.x.dtype == DType::kF64) throw usage_error("x has dtype f64; mhc_post serves f32, f16 and bf16");
  if (t.x.shape.rank() != 2) throw usage_error("x has shape {}, expected (N, H)", t.x.shape.to_string());
  const int64_t n = t.x.shape[0], h = t.x.shape[1];
  const int64_t hc = t.residual.shape.rank() == 3 ? t.residual.shape[1] : 0;
  if (hc < 1 || hc > kMaxStreams) {
    throw usage_error("residual has shape {}, expected (N, HC, H) with HC in 1..{}",
                      t.residual.shape.to_string(), kMaxStreams);
  }
  const Extents streams{n, hc, h};
  const Extents post = t.post.shape.rank() == 3 ? Extents{n, hc, 1} : Extents{n, hc};
  const DType dtype = t.x.dtype;
  const Operand inputs[] = {{kX.name, t.x, t.x.shape, dtype},
                            {kResidual.name, t.residual, streams, dtype},
                            {kPost.name, t.post, post, DType::kF32},
                            {kComb.name, t.comb, {n, hc, hc}, DType::kF32}};
  const Operand outputs[] = {{kOut.name, t.out, streams, dtype}};
  require_operands(inputs, outputs);
}

std::vector<OwnSize> cuda_sizes() {
  return {{kHc, 4}, {kH, 16}};
}

const std::vector<Op>& ops() {
  static const std::vector<Op> all = [] {
    Op op{
        .name = "mhc_post",
        .formula = "out[n,i,h] = post[n,i] * x[n,h] + sum_j comb[n,j,i] * residual[n,j,h]",
        .dims =
            {{kN, 0, int64_t{1} << 40, {64}, "tokens"},
             {kHc, 1, kMaxStreams, {}, "streams"},
             {kH, 0, int64_t{1} << 40, {2, 4, 8, 16, 32, 64, 128, 256, 258, 512, 514, 1024, 2048}, "hidden"}},
        .inputs = {{kX, "n h", {}, "output of the layer"},
                   {kResidual, "n hc h", {}, "streams before the layer"},
                   {kPost, "n hc", DType::kF32, "weight of x in each output stream"},
                   {kComb, "n hc hc", DType::kF32, "weight of stream j in output stream i, at [j,i]"}},
        .outputs = {{kOut, "n hc h", {}, "streams after the layer"}},
        .cost = cost,
        .paths = {}};
    op.paths.push_back(f32_path(
        "cpu", DeviceKind::kCpu, [](const Call& call) { run_cpu(tensors_of(call)); },
        "SIMD across h, threads across tokens; a block of all streams stays in the first cache level"));
    op.paths.back().edges = {{{kN, kHc, kH}, kGrain}, {{kN, kHc, kH}, kStreamingThreshold.usual(), true}};
    if constexpr (kHasCuda) {
      op.paths.push_back(f32_path(
          "cuda", DeviceKind::kCuda, [](const Call& call) { run_cuda(tensors_of(call), call.stream); },
          "each thread loads its part of x and of every stream once, and writes all outputs"));
      op.paths.back().edges = {{{kN}, kGridLimit}};
      op.paths.back().own_sizes = cuda_sizes();
    }
    return std::vector<Op>{std::move(op)};
  }();
  return all;
}

}  // namespace assay::mhc_post
