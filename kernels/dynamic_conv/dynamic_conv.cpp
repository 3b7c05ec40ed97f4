// SPDX-License-Identifier: Apache-2.0
#include "kernels/dynamic_conv/dynamic_conv.h"

#include <utility>

#include "kernels/core/build.h"
#include "kernels/core/operands.h"
#include "kernels/core/streaming.h"

namespace assay::dynamic_conv {
namespace {

// The shape that k must have for x (B, T, D). Checks that the op serves the dtype of x and both
// ranks.
Extents taps_shape(const ConstTensorView& x, const ConstTensorView& k) {
  if (x.dtype == DType::kF64) throw usage_error("x has dtype f64; dynamic_conv serves f32, f16 and bf16");
  if (x.shape.rank() != 3) throw usage_error("x has shape {}, expected (B, T, D)", x.shape.to_string());
  const int64_t w = k.shape.rank() == 4 ? k.shape[3] : 0;
  if (w < 1 || w > kMaxTaps) {
    throw usage_error("k has shape {}, expected (B, T, D, W) with W in 1..{}", k.shape.to_string(), kMaxTaps);
  }
  Extents taps = x.shape;
  taps.push_back(w);
  return taps;
}

ForwardTensors forward_tensors(const Call& call) {
  return {call.inputs[kX], call.inputs[kK], call.outputs[kOut]};
}
BackwardTensors backward_tensors(const Call& call) {
  const auto& in = call.inputs;
  return {in[grad::kDout], in[grad::kX], in[grad::kK], call.outputs[grad::kDx], call.outputs[grad::kDk]};
}

int64_t positions(const Dims& dims) {
  return dims[kB] * dims[kT] * dims[kD];
}

Cost forward_cost(const Dims& dims, DType storage) {
  const int64_t w = dims[kW];
  return {.bytes = (2 + w) * positions(dims) * static_cast<int64_t>(size_of(storage)),
          .flops = 2 * w * positions(dims)};
}

Cost backward_cost(const Dims& dims, DType storage) {
  const int64_t w = dims[kW];
  return {.bytes = (3 + 2 * w) * positions(dims) * static_cast<int64_t>(size_of(storage)),
          .flops = 3 * w * positions(dims)};
}

// Where a second thread has work, and where the largest output goes past the caches.
std::vector<ProductEdge> cpu_edges(std::vector<Dim> output) {
  return {{{kB, kT, kD}, kGrain}, {std::move(output), kStreamingThreshold.usual(), true}};
}

Op forward_op() {
  Op op{
      .name = "dynamic_conv",
      .formula = "out[b,t,d] = sum_w k[b,t,d,w] * x[b,t+w-W+1,d]",
      .dims = {},
      .inputs = {{kX, "b t d", {}, "activations"}, {kK, "b t d w", {}, "taps of each position and channel"}},
      .outputs = {{kOut, "b t d", {}, "convolved activations"}},
      .cost = forward_cost,
      .paths = {}};
  op.paths.push_back(f32_path(
      "cpu", DeviceKind::kCpu, [](const Call& call) { forward_cpu(forward_tensors(call)); },
      "SIMD across channels, threads across batch and time"));
  op.paths.back().edges = cpu_edges({kB, kT, kD});
  if constexpr (kHasCuda) {
    op.paths.push_back(f32_path(
        "cuda", DeviceKind::kCuda, [](const Call& call) { forward_cuda(forward_tensors(call), call.stream); },
        "each thread marches along t with the last W-1 inputs in registers"));
  }
  return op;
}

Op backward_op() {
  Op op{.name = "dynamic_conv_grad",
        .formula =
            "dk[b,t,d,w] = dout[b,t,d] * x[b,t+w-W+1,d]; dx[b,t,d] = sum_w dout[b,s,d] * k[b,s,d,w], s = "
            "t+W-1-w",
        .dims = {},
        .inputs = {{grad::kDout, "b t d", {}, "gradient of the loss by out"},
                   {grad::kX, "b t d", {}, "activations"},
                   {grad::kK, "b t d w", {}, "taps of each position and channel"}},
        .outputs = {{grad::kDx, "b t d", {}, "gradient by x"}, {grad::kDk, "b t d w", {}, "gradient by k"}},
        .cost = backward_cost,
        .paths = {}};
  op.paths.push_back(f32_path(
      "cpu", DeviceKind::kCpu, [](const Call& call) { backward_cpu(backward_tensors(call)); },
      "both gradients in one pass; SIMD across channels, threads across batch and time"));
  op.paths.back().edges = cpu_edges({kB, kT, kD, kW});
  if constexpr (kHasCuda) {
    op.paths.push_back(f32_path(
        "cuda", DeviceKind::kCuda,
        [](const Call& call) { backward_cuda(backward_tensors(call), call.stream); },
        "both gradients in one kernel; each thread marches along t with W pending sums in registers"));
  }
  return op;
}

}  // namespace

void require_valid(const ForwardTensors& t) {
  const Extents taps = taps_shape(t.x, t.k);
  const DType dtype = t.x.dtype;
  const Operand inputs[] = {{kX.name, t.x, t.x.shape, dtype}, {kK.name, t.k, taps, dtype}};
  const Operand outputs[] = {{kOut.name, t.out, t.x.shape, dtype}};
  require_operands(inputs, outputs);
}

void require_valid(const BackwardTensors& t) {
  const Extents taps = taps_shape(t.x, t.k);
  const DType dtype = t.x.dtype;
  const Operand inputs[] = {{grad::kDout.name, t.dout, t.x.shape, dtype},
                            {grad::kX.name, t.x, t.x.shape, dtype},
                            {grad::kK.name, t.k, taps, dtype}};
  const Operand outputs[] = {{grad::kDx.name, t.dx, t.x.shape, dtype}, {grad::kDk.name, t.dk, taps, dtype}};
  require_operands(inputs, outputs);
}

const std::vector<Op>& ops() {
  static const std::vector<Op> all = [] {
    std::vector<Op> result{forward_op(), backward_op()};
    for (Op& op : result) {
      op.dims = {{kB, 0, int64_t{1} << 40, {}, "batch"},
                 {kT, 0, int64_t{1} << 40, {16, 64, 128, 256}, "time"},
                 {kD, 0, int64_t{1} << 40, {2, 4, 8, 16, 32, 64, 256, 1024}, "channels"},
                 {kW, 1, kMaxTaps, {}, "taps"}};
    }
    return result;
  }();
  return all;
}

}  // namespace assay::dynamic_conv
