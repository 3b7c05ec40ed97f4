// SPDX-License-Identifier: Apache-2.0
#include "kernels/trimul/trimul.h"

#include <fmt/format.h>

#include "kernels/core/build.h"
#include "kernels/core/operands.h"
#include "kernels/core_cuda/limits.h"
#include "kernels/trimul/cuda_limits.h"
#include "kernels/trimul/tunables.h"

namespace assay::trimul {
namespace {

Tensors tensors_of(const Call& call) {
  const auto& in = call.inputs;
  return {.x = in[kX],
          .mask = in[kMask],
          .norm = {in[kNormWeight], in[kNormBias]},
          .left = {in[kLeftProj], in[kLeftGate]},
          .right = {in[kRightProj], in[kRightGate]},
          .out_gate = in[kOutGate],
          .to_out_norm = {in[kToOutNormWeight], in[kToOutNormBias]},
          .to_out = in[kToOut],
          .out = call.outputs[kOut]};
}

Run run_of(const Call& call) {
  if (!call.versions.empty() && call.versions.size() != call.inputs.size()) {
    throw usage_error("{} versions for {} inputs", call.versions.size(), call.inputs.size());
  }
  return {.context = context_of(call), .stream = call.stream, .versions = call.versions};
}

Cost cost(const Dims& dims, DType storage) {
  const int64_t n = dims[kN], c = dims[kC], h = dims[kH];
  const int64_t positions = dims[kB] * n * n;
  const auto size = static_cast<int64_t>(size_of(storage));
  const int64_t weights = 6 * c * h + 2 * c + 2 * h;
  return {.bytes = (positions * (2 * c + dims[kM]) + weights) * size,
          .flops = positions * (12 * c * h + 2 * n * h)};
}

template <Format kFactor>
void add_cuda_path(Op& op, std::string_view name, std::string_view summary) {
  const auto recipe = [](const Dims&, DType) { return recipe_of(kFactor); };
  if constexpr (kHasCuda) {
    op.paths.push_back(
        {.name = name,
         .device = DeviceKind::kCuda,
         .dtypes = {DType::kF32},
         .deterministic = true,
         .recipe = recipe,
         .unsupported = [](const Dims& dims, DType) { return unsupported_on_cuda(dims[kC], dims[kH]); },
         .run = [](const Call& call) { run_cuda(tensors_of(call), kFactor, run_of(call)); },
         .summary = summary,
         .edges = {{{kN}, kMostTerms.usual()},
                   {{kB}, kGridLimit},
                   {{kC}, kChannelsOfPart},
                   {{kH}, kChannelsOfPart}},
         .stages = [](const Dims& dims, DType) { return stages_of(kFactor, dims); }});
  } else {
    op.absent.push_back({name, {DType::kF32}, recipe});
  }
}

Op trimul_op() {
  // The largest N: one channel of a batch then has 2^32 elements.
  constexpr int64_t kLongest = 1 << 16;
  Op op{.name = "trimul",
        .formula =
            "hidden[b,i,j,h] = sum_k left[b,i,k,h] * right[b,j,k,h], left = mask * sigmoid(left_gate xn) * "
            "(left_proj "
            "xn), right alike, xn = layer_norm(x); out = to_out (layer_norm(hidden) * sigmoid(out_gate xn))",
        .dims = {{kB, 0, int64_t{1} << 40, {}, "batches"},
                 {kN, 0, kLongest, {8, 32, 64}, "nodes; an edge has two of them"},
                 {kC, 0, int64_t{1} << 40, {16, 32, 64}, "channels"},
                 {kH, 0, int64_t{1} << 40, {16, 32, 64}, "hidden channels"},
                 {kM, 0, 1, {}, "1 with a mask, 0 without"}},
        .inputs = {{kX, "b n n c", {}, "edges"},
                   {kMask, "b n n mask", {}, "weight of each edge in left and right, often 0 or 1"},
                   {kNormWeight, "c", {}, "of the norm of x", kIsWeight},
                   {kNormBias, "c", {}, "of the norm of x", kIsWeight},
                   {kLeftProj, "h c", {}, "projection to left", kIsWeight},
                   {kRightProj, "h c", {}, "projection to right", kIsWeight},
                   {kLeftGate, "h c", {}, "gate of left", kIsWeight},
                   {kRightGate, "h c", {}, "gate of right", kIsWeight},
                   {kOutGate, "h c", {}, "gate of the normalised hidden edges", kIsWeight},
                   {kToOutNormWeight, "h", {}, "of the norm of hidden", kIsWeight},
                   {kToOutNormBias, "h", {}, "of the norm of hidden", kIsWeight},
                   {kToOut, "c h", {}, "projection to the output", kIsWeight}},
        .outputs = {{kOut, "b n n c", {}, "update of the edges"}},
        .cost = cost,
        .paths = {},
        // Left and right have three factors each: mask, norm.weight and a projection. One more
        // leaves room for sums of sums.
        .degree = 7,
        .least_degree = 2};
  op.paths.push_back({.name = "cpu",
                      .device = DeviceKind::kCpu,
                      .dtypes = {DType::kF32},
                      .deterministic = true,
                      .recipe = [](const Dims&, DType) { return recipe_of(Format::kStored); },
                      .unsupported = {},
                      .run = [](const Call& call) { run_cpu(tensors_of(call), run_of(call)); },
                      .summary = "SIMD, all products in panels of edges, threads over panels",
                      .tunables = {&cpu_tunable()},
                      .edges = {{{kB, kN, kN, kH}, kTogether.usual() / (4 * int64_t{sizeof(float)})}}});
  add_cuda_path<Format::kF16>(
      op, "cuda.f16",
      "three kernels, the product by cuBLASLt; factors and tensors between them in f16, "
      "scaled by powers of two");
  add_cuda_path<Format::kBF16>(
      op, "cuda.bf16", "three kernels, the product by cuBLASLt; factors and tensors between them in bf16");
  add_cuda_path<Format::kF16x3>(op, "cuda.f32",
                                "three kernels; factors in two parts of f16, scaled by powers of two; three "
                                "products, whose sums stay together");
  return op;
}

}  // namespace

Recipe recipe_of(Format factors) {
  const bool is_short = factors == Format::kF16 || factors == Format::kBF16;
  const bool is_scaled = factors == Format::kF16 || factors == Format::kF16x3;
  Recipe recipe{.storage = DType::kF32};
  const auto round = [&](Site site) {
    recipe.roundings.push_back(
        {.site = site,
         .format = factors,
         .mode = factors == Format::kTF32 ? Rounding::Mode::kNearest : Rounding::Mode::kNearestEven,
         .is_scaled = is_scaled});
  };
  for (Site site : {site::kXn, site::kWeights, site::kSides, site::kZ}) round(site);
  if (is_short) {
    for (Site site : {site::kHidden, site::kGate}) round(site);
  }
  for (Site site : {site::kProjections, site::kContraction, site::kUpdate}) {
    recipe.sums.push_back({.site = site,
                           .factors = factors,
                           .order = Sum::Order::kContiguous,
                           .is_scaled = is_scaled,
                           .truncates = factors != Format::kStored});
  }
  return recipe;
}

std::vector<Stage> stages_of(Format factors, const Dims& dims) {
  const int64_t n = dims[kN], c = dims[kC], h = dims[kH];
  const int64_t edges = dims[kB] * n * n;
  constexpr int64_t kFloat = sizeof(float);
  const bool is_short = factors == Format::kF16 || factors == Format::kBF16;
  // [bytes] of left, right, hidden and the gate of the output each: a factor in two parts has as
  // many as an f32
  const int64_t plane = edges * h * (is_short ? 2 : kFloat);
  return {{.name = "project",
           .bytes = (edges * (c + dims[kM]) + 5 * c * h + 2 * c) * kFloat,
           .writes = 3 * plane,
           .flops = edges * 10 * c * h},
          {.name = "contract", .reads = 2 * plane, .writes = plane, .flops = edges * 2 * n * h},
          {.name = "finish",
           .bytes = (edges * c + c * h + 2 * h) * kFloat,
           .reads = 2 * plane,
           .flops = edges * 2 * c * h}};
}

std::optional<std::string> unsupported_on_cuda(int64_t channels, int64_t hidden) {
  if (channels > kMostChannels) return fmt::format("c={} is more than {}", channels, kMostChannels);
  if (hidden > kMostHidden) return fmt::format("h={} is more than {}", hidden, kMostHidden);
  return std::nullopt;
}

void require_valid(const Tensors& t) {
  const Extents& shape = t.x.shape;
  if (shape.rank() != 4 || shape[1] != shape[2]) {
    throw usage_error("x has shape {}, expected (B, N, N, C)", shape.to_string());
  }
  if (t.left.proj.shape.rank() != 2) {
    throw usage_error("left_proj.weight has shape {}, expected (H, C)", t.left.proj.shape.to_string());
  }
  if (t.mask.shape.rank() != 4 || t.mask.shape[3] > 1) {
    throw usage_error("mask has shape {}, expected (B, N, N, 1), or (B, N, N, 0) without a mask",
                      t.mask.shape.to_string());
  }
  const int64_t c = shape[3], h = t.left.proj.shape[0];
  const DType f32 = DType::kF32;
  const Operand inputs[] = {{kX.name, t.x, shape, f32},
                            {kMask.name, t.mask, {shape[0], shape[1], shape[2], t.mask.shape[3]}, f32},
                            {kNormWeight.name, t.norm.weight, {c}, f32},
                            {kNormBias.name, t.norm.bias, {c}, f32},
                            {kLeftProj.name, t.left.proj, {h, c}, f32},
                            {kRightProj.name, t.right.proj, {h, c}, f32},
                            {kLeftGate.name, t.left.gate, {h, c}, f32},
                            {kRightGate.name, t.right.gate, {h, c}, f32},
                            {kOutGate.name, t.out_gate, {h, c}, f32},
                            {kToOutNormWeight.name, t.to_out_norm.weight, {h}, f32},
                            {kToOutNormBias.name, t.to_out_norm.bias, {h}, f32},
                            {kToOut.name, t.to_out, {c, h}, f32}};
  const Operand outputs[] = {{kOut.name, t.out, shape, f32}};
  require_operands(inputs, outputs);
}

const std::vector<Op>& ops() {
  static const std::vector<Op> all{trimul_op()};
  return all;
}

}  // namespace assay::trimul
