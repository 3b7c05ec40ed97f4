// SPDX-License-Identifier: Apache-2.0
#include "kernels/cheri/cheri.h"

#include <utility>

#include "kernels/cheri/block/block.h"
#include "kernels/cheri/conv_norm/cpu_jobs.h"
#include "kernels/cheri/tunables.h"
#include "kernels/core/build.h"
#include "kernels/core/operands.h"

namespace assay::cheri {
namespace {

// C of x (N, L, C). Checks that the ops serve its dtype and this dilation.
int64_t channels_of(const ConstTensorView& x, int64_t dilation) {
  if (x.dtype == DType::kF64) throw usage_error("x has dtype f64; the Cheri ops serve f32, f16 and bf16");
  if (dilation < 1) throw usage_error("dilation={} is not positive", dilation);
  if (x.shape.rank() != 3) throw usage_error("x has shape {}, expected (N, L, C)", x.shape.to_string());
  return x.shape[2];
}

ConvNormTensors conv_norm_tensors(const Call& call) {
  return {call.inputs[kX], call.inputs[kW], call.outputs[kY]};
}
ConvNormGradTensors conv_norm_grad_tensors(const Call& call) {
  const auto& in = call.inputs;
  return {in[grad::kDy], in[grad::kX], in[grad::kW], call.outputs[grad::kDx], call.outputs[grad::kDw]};
}
BlockTensors block_tensors(const Call& call) {
  const auto& in = call.inputs;
  return {in[kX], in[kW], in[kW1], in[kW2], call.outputs[kOut]};
}
Run run_of(const Call& call) {
  if (!call.versions.empty() && call.versions.size() != call.inputs.size()) {
    throw usage_error("{} versions for {} inputs", call.versions.size(), call.inputs.size());
  }
  return {.dilation = call.dims[kDilation],
          .context = context_of(call),
          .stream = call.stream,
          .versions = call.versions};
}

int64_t positions(const Dims& dims) {
  return dims[kN] * dims[kL] * dims[kC];
}

Cost conv_norm_cost(const Dims& dims, DType storage) {
  const auto size = static_cast<int64_t>(size_of(storage));
  return {.bytes = (2 * positions(dims) + 3 * dims[kC]) * size, .flops = 11 * positions(dims)};
}

Cost conv_norm_grad_cost(const Dims& dims, DType storage) {
  const auto size = static_cast<int64_t>(size_of(storage));
  return {.bytes = (3 * positions(dims) + 6 * dims[kC]) * size, .flops = 33 * positions(dims)};
}

Cost block_cost(const Dims& dims, DType storage) {
  const auto size = static_cast<int64_t>(size_of(storage));
  const int64_t c = dims[kC], hidden = dims[kHidden];
  return {.bytes = (2 * positions(dims) + 3 * c + 2 * c * hidden) * size,
          .flops = positions(dims) * (11 + 4 * hidden)};
}

// The sums over an example: a convolution (5 flops), mean (1) and variance (3). In a first launch
// they read what a second one reads again.
Stage sums_of(const Dims& dims, DType storage) {
  const auto size = static_cast<int64_t>(size_of(storage));
  return {.name = "sums", .bytes = (positions(dims) + 3 * dims[kC]) * size, .flops = 9 * positions(dims)};
}

std::vector<DimInfo> common_dims() {
  return {{kN, 0, int64_t{1} << 40, {}, "examples"},
          {kL, 0, int64_t{1} << 40, {32, 64, 128, 512}, "positions"},
          {kC, 0, int64_t{1} << 40, {4, 8, 16, 32, 64, 128, 256, 512}, "channels"},
          {kDilation, 1, int64_t{1} << 40, {16, 32, 64, 128, 256}, "distance of the taps"}};
}

Path cpu_path(std::function<void(const Call&)> run, std::string_view summary, const Tunable& tunable) {
  Path path = f32_path("cpu", DeviceKind::kCpu, std::move(run), summary);
  path.tunables = {&tunable};
  // The second run and the second chunk of an example; where a second thread has work.
  path.edges = {{{kL, kC}, kRun}, {{kL, kC}, kChunk}, {{kN, kL, kC}, kChunk}};
  return path;
}

Path cuda_path(std::string_view name, std::function<void(const Call&)> run, std::string_view summary,
               const Tunable& tunable) {
  Path path = f32_path(name, DeviceKind::kCuda, std::move(run), summary);
  path.tunables = {&tunable};
  return path;
}

// Parts and jobs of one launch, and more of them than blocks that a GPU runs at a time.
std::vector<ProductEdge> two_pass_edges() {
  return {{{kN}, 2048}, {{kL, kC}, int64_t{1} << 20}};
}

// A second strip and a second tile of an example, and more of them than two blocks hold; a second
// tile of each block, and of each stage of its ring; more tiles than blocks hold at a time.
std::vector<ProductEdge> ring_edges() {
  constexpr int64_t kTile = 256 * 9 * 4;  // [elements]
  return {{{kL, kC}, kTile / 8}, {{kL, kC}, kTile},           {{kL, kC}, 8 * kTile},
          {{kN}, 132},           {{kN, kL, kC}, 132 * kTile}, {{kN}, 5 * 264}};
}

// Rows of whole vectors, which are copied whole, and chains that go on in other tiles.
std::vector<OwnSize> ring_sizes() {
  return {{kL, 32}, {kC, 8}};
}

Op conv_norm_op() {
  Op op{
      .name = "cheri_conv_norm",
      .formula =
          "y = (conv - mean) * rstd over each example, conv[n,l,c] = sum_k w[k,c] * x[n,l+(k-1)*dilation,c]",
      .dims = common_dims(),
      .inputs = {{kX, "n l c", {}, "activations"}, {kW, "3 c", {}, "taps of each channel", kIsWeight}},
      .outputs = {{kY, "n l c", {}, "normalised convolution"}},
      .cost = conv_norm_cost,
      .paths = {}};
  op.paths.push_back(cpu_path([](const Call& call) { conv_norm_cpu(conv_norm_tensors(call), run_of(call)); },
                              "SIMD, threads over examples or parts of them", conv_norm_cpu_tunable()));
  if constexpr (kHasCuda) {
    op.paths.push_back(cuda_path(
        "cuda.two_pass", [](const Call& call) { conv_norm_two_pass(conv_norm_tensors(call), run_of(call)); },
        "sums over each example, then normalisation; any size", conv_norm_two_pass_tunable()));
    op.paths.back().edges = two_pass_edges();
    op.paths.back().stages = conv_norm_two_pass_stages;
    op.paths.push_back(f32_path(
        "cuda.ring", DeviceKind::kCuda,
        [](const Call& call) { conv_norm_ring(conv_norm_tensors(call), run_of(call)); },
        "blocks hold tiles of x until the statistics are there; reads x once, a longer example twice"));
    op.paths.back().edges = ring_edges();
    op.paths.back().own_sizes = ring_sizes();
    op.paths.back().unsupported = [](const Dims& dims, DType) {
      return ring_unsupported({dims[kN], dims[kL], dims[kC]});
    };
  }
  return op;
}

Op conv_norm_grad_op() {
  Op op{.name = "cheri_conv_norm_grad",
        .formula =
            "dconv = rstd * (dy - mean(dy) - y * mean(dy * y)); dx = its convolution backwards; dw[k,c] = "
            "sum_nl "
            "dconv[n,l,c] * x[n,l+(k-1)*dilation,c]",
        .dims = common_dims(),
        .inputs = {{grad::kDy, "n l c", {}, "gradient of the loss by y"},
                   {grad::kX, "n l c", {}, "activations"},
                   {grad::kW, "3 c", {}, "taps of each channel", kIsWeight}},
        .outputs = {{grad::kDx, "n l c", {}, "gradient by x"}, {grad::kDw, "3 c", {}, "gradient by w"}},
        .cost = conv_norm_grad_cost,
        .paths = {}};
  op.paths.push_back(
      cpu_path([](const Call& call) { conv_norm_grad_cpu(conv_norm_grad_tensors(call), run_of(call)); },
               "SIMD, threads over examples or parts of them", conv_norm_grad_cpu_tunable()));
  // Where the window of dconv moves, if each row has 256 elements; with low thresholds and without.
  for (int64_t windows : {1, 4})
    op.paths.back().edges.push_back({{kL, kC}, windows * (kSumGroup * 256 + kRun)});
  // Blocks of the smallest examples, each with a part of dw. With low thresholds they are smaller.
  for (int64_t blocks : {32, 128, 2048})
    op.paths.back().edges.push_back({{kN}, blocks * kRowsPerSum.usual()});
  if constexpr (kHasCuda) {
    op.paths.push_back(cuda_path(
        "cuda.two_pass",
        [](const Call& call) { conv_norm_grad_two_pass(conv_norm_grad_tensors(call), run_of(call)); },
        "sums over each example, then both gradients; any size", conv_norm_grad_two_pass_tunable()));
    op.paths.back().edges = two_pass_edges();
    op.paths.back().stages = conv_norm_grad_two_pass_stages;
    op.paths.push_back(f32_path(
        "cuda.ring", DeviceKind::kCuda,
        [](const Call& call) { conv_norm_grad_ring(conv_norm_grad_tensors(call), run_of(call)); },
        "blocks hold tiles of x and dy until the statistics are there; reads both once, of a longer example "
        "twice"));
    op.paths.back().edges = ring_edges();
    op.paths.back().own_sizes = ring_sizes();
    op.paths.back().unsupported = [](const Dims& dims, DType) {
      return ring_unsupported({dims[kN], dims[kL], dims[kC]});
    };
    op.paths.back().stages = conv_norm_grad_ring_stages;
  }
  for (Path& path : op.paths) path.recipe = grad_recipe;
  return op;
}

Format fused_format(DType storage) {
  return storage == DType::kF16 ? Format::kF16 : Format::kBF16;
}
Recipe block_fused_recipe(const Dims&, DType storage) {
  return block_recipe(storage, fused_format(storage));
}
Recipe block_train_recipe(const Dims&, DType storage) {
  return block_recipe(storage, Format::kStored);
}

[[maybe_unused]] std::optional<std::string> fused_unsupported(const Dims& dims, DType) {
  if constexpr (kHasCuda) return block_fused_unsupported(dims[kC], dims[kHidden]);
  return std::nullopt;
}

Op block_op() {
  Op op{.name = "cheri_block",
        .formula = "out = x + 0.15 * w2 gelu_tanh(w1 conv_norm(x))",
        .dims = common_dims(),
        .inputs = {{kX, "n l c", {}, "activations"},
                   {kW, "3 c", {}, "taps of each channel", kIsWeight},
                   {kW1, "hidden c", {}, "weights of the expansion", kIsWeight},
                   {kW2, "c hidden", {}, "weights of the contraction", kIsWeight}},
        .outputs = {{kOut, "n l c", {}, "activations of the next block"}},
        .cost = block_cost,
        .paths = {}};
  op.dims.push_back({kHidden, 0, int64_t{1} << 40, {16, 32, 64, 128, 256}, "width of the perceptron"});
  op.paths.push_back(cpu_path([](const Call& call) { block_cpu(block_tensors(call), run_of(call)); },
                              "SIMD, both products in tiles of rows; factors in f32", block_cpu_tunable()));
  const std::vector<DType> all{DType::kF32, DType::kF16, DType::kBF16};
  const auto add = [&op](std::string_view name, std::vector<DType> dtypes, auto recipe,
                         std::string_view summary, auto complete) {
    if constexpr (kHasCuda) {
      op.paths.push_back({.name = name,
                          .device = DeviceKind::kCuda,
                          .dtypes = std::move(dtypes),
                          .deterministic = true,
                          .recipe = recipe,
                          .unsupported = {},
                          .run = {},
                          .summary = summary});
      complete(op.paths.back());
    } else {
      op.absent.push_back({name, std::move(dtypes), recipe});
    }
  };
  // Generic, since a build without CUDA has none of these functions.
  add("cuda.train", all, block_train_recipe, "conv_norm, then cuBLASLt; all steps in the storage dtype",
      [](auto& path) {
        path.run = [](const Call& call) { block_train(block_tensors(call), run_of(call)); };
        path.tunables = {&conv_norm_two_pass_tunable()};
      });
  add("cuda.fused", all, block_fused_recipe,
      "one kernel after the statistics; factors in bf16, or f16 for f16 storage", [](auto& path) {
        path.unsupported = fused_unsupported;
        path.run = [](const Call& call) {
          block_fused(block_tensors(call), fused_format(call.dtype), run_of(call));
        };
        path.stages = block_fused_stages;
      });
  add(
      "cuda.fused_bf16x3", {DType::kF32},
      [](const Dims&, DType storage) { return block_recipe(storage, Format::kBF16x3); },
      "the same kernel with factors in two parts",
      [](auto& path) {
        path.unsupported = fused_unsupported;
        path.run = [](const Call& call) { block_fused(block_tensors(call), Format::kBF16x3, run_of(call)); };
        path.stages = block_fused_stages;
      });
  if constexpr (kHasCuda) {
    add(
        "auto", all,
        [](const Dims& dims, DType storage) {
          return fused_unsupported(dims, storage) ? block_train_recipe(dims, storage)
                                                  : block_fused_recipe(dims, storage);
        },
        "cuda.fused where it serves the size, else cuda.train; without gradients",
        [](auto& path) {
          path.run = [](const Call& call) { block_auto(block_tensors(call), false, run_of(call)); };
          path.tunables = {&conv_norm_two_pass_tunable()};
        });
    // More tiles of 64 rows than multiprocessors; a second slab of hidden values.
    for (Path& path : op.paths) {
      if (path.device == DeviceKind::kCuda)
        path.edges = {{{kN, kL}, 132 * 64}, {{kN, kL, kHidden}, int64_t{24} << 20, true}};
    }
  }
  return op;
}

}  // namespace

Recipe grad_recipe(const Dims&, DType storage) {
  return {.storage = storage, .sums = {{.site = site::kDw, .group = kSumGroup}}};
}

Recipe block_recipe(DType storage, Format factors) {
  const bool is_stored = factors == Format::kStored;
  Recipe recipe{.storage = storage};
  const auto round = [&](Site site, Format format) {
    recipe.roundings.push_back({.site = site, .format = format});
  };
  for (Site site : {site::kY, site::kGelu}) round(site, is_stored ? format_for(storage) : factors);
  for (Site site : {site::kZ, site::kUpdate}) round(site, is_stored ? format_for(storage) : Format::kStored);
  for (Site site : {site::kW1, site::kW2}) round(site, factors);
  const bool truncates = !is_stored || storage != DType::kF32;
  for (Site site : {site::kExpansion, site::kContraction})
    recipe.sums.push_back({.site = site, .factors = factors, .truncates = truncates});
  return recipe;
}

std::vector<Stage> conv_norm_two_pass_stages(const Dims& dims, DType storage) {
  const int64_t x = positions(dims) * static_cast<int64_t>(size_of(storage));
  return {sums_of(dims, storage),
          {.name = "normalise", .bytes = x, .reads = x, .flops = 2 * positions(dims)}};
}

std::vector<Stage> conv_norm_grad_two_pass_stages(const Dims& dims, DType storage) {
  const auto size = static_cast<int64_t>(size_of(storage));
  const int64_t x = positions(dims) * size;
  // y (2 flops), the sums of dy and of dy * y (3)
  Stage sums = sums_of(dims, storage);
  sums.bytes += x;
  sums.flops += 5 * positions(dims);
  const int64_t rest = conv_norm_grad_cost(dims, storage).flops - sums.flops;
  return {sums,
          {.name = "gradients", .bytes = x, .reads = 2 * x, .flops = rest},
          {.name = "dw", .bytes = 3 * dims[kC] * size}};
}

std::vector<Stage> conv_norm_grad_ring_stages(const Dims& dims, DType storage) {
  const Cost all = conv_norm_grad_cost(dims, storage);
  const int64_t dw = 3 * dims[kC] * static_cast<int64_t>(size_of(storage));
  return {{.name = "gradients", .bytes = all.bytes - dw, .flops = all.flops}, {.name = "dw", .bytes = dw}};
}

std::vector<Stage> block_fused_stages(const Dims& dims, DType storage) {
  const Cost all = block_cost(dims, storage);
  const Stage sums = sums_of(dims, storage);
  return {sums,
          {.name = "norms"},
          {.name = "block",
           .bytes = all.bytes - sums.bytes,
           .reads = positions(dims) * static_cast<int64_t>(size_of(storage)),
           .flops = all.flops - sums.flops}};
}

void require_valid(const ConvNormTensors& t, int64_t dilation) {
  const Extents taps{3, channels_of(t.x, dilation)};
  const DType dtype = t.x.dtype;
  const Operand inputs[] = {{kX.name, t.x, t.x.shape, dtype}, {kW.name, t.w, taps, dtype}};
  const Operand outputs[] = {{kY.name, t.y, t.x.shape, dtype}};
  require_operands(inputs, outputs);
}

void require_valid(const ConvNormGradTensors& t, int64_t dilation) {
  const Extents taps{3, channels_of(t.x, dilation)};
  const DType dtype = t.x.dtype;
  const Operand inputs[] = {{grad::kDy.name, t.dy, t.x.shape, dtype},
                            {grad::kX.name, t.x, t.x.shape, dtype},
                            {grad::kW.name, t.w, taps, dtype}};
  const Operand outputs[] = {{grad::kDx.name, t.dx, t.x.shape, dtype}, {grad::kDw.name, t.dw, taps, dtype}};
  require_operands(inputs, outputs);
}

void require_valid(const BlockTensors& t, int64_t dilation) {
  const int64_t c = channels_of(t.x, dilation);
  if (t.w1.shape.rank() != 2)
    throw usage_error("w1 has shape {}, expected (hidden, C)", t.w1.shape.to_string());
  const int64_t hidden = t.w1.shape[0];
  const DType dtype = t.x.dtype;
  const Operand inputs[] = {{kX.name, t.x, t.x.shape, dtype},
                            {kW.name, t.w, {3, c}, dtype},
                            {kW1.name, t.w1, {hidden, c}, dtype},
                            {kW2.name, t.w2, {c, hidden}, dtype}};
  const Operand outputs[] = {{kOut.name, t.out, t.x.shape, dtype}};
  require_operands(inputs, outputs);
}

const std::vector<Op>& ops() {
  static const std::vector<Op> all{conv_norm_op(), conv_norm_grad_op(), block_op()};
  return all;
}

}  // namespace assay::cheri
