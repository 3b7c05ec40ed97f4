// SPDX-License-Identifier: Apache-2.0
// The CPU path of trimul. Its three steps work on panels of edges that differ in their first node:
//
//   project    normalises x of a panel and multiplies it with all five projections. It stores left
//              and right as panels that the pairwise product reads from one end to the other, and
//              the gate of the output as the last step reads it.
//   contract   computes the pairwise product, for each hidden channel by itself.
//   finish     normalises hidden of a panel over its channels, gates it, and projects it to the
//              output.
//
// Normalised x is never in memory. Every sum of products is one chain in the order of its inputs.
// So equal rows get equal bits, for all panels, batches and configurations.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "kernels/core/parallel.h"
#include "kernels/trimul/trimul.h"
#include "kernels/trimul/tunables.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/trimul/cpu.cpp"
#include "kernels/core/simd-inl.h"
// after it
#include "kernels/trimul/cpu_panels-inl.h"

#ifndef ASSAY_KERNELS_TRIMUL_CPU_JOB
#define ASSAY_KERNELS_TRIMUL_CPU_JOB
namespace assay::trimul {
namespace {

constexpr int64_t kProjections = 5;  // left_proj, left_gate, right_proj, right_gate, out_gate

int64_t round_up(int64_t size, int64_t to) {
  return (size + to - 1) / to * to;
}

// The sizes of a call, and the memory layout for panels of `width` edges.
struct Geometry {
  int64_t batches, nodes, channels, hidden;
  int64_t width, rows;  // kWidth, kRows

  int64_t panels() const { return (nodes + width - 1) / width; }
  // [floats] left, right, hidden or the gate of one batch.
  int64_t edges() const { return hidden * nodes * panels() * width; }
  // left and right: (hidden channel, panel of the first node, second node, edge of the panel)
  int64_t factor(int64_t h, int64_t panel) const { return (h * panels() + panel) * nodes * width; }
  // hidden and the gate: (second node, panel of the first node, hidden channel, edge of the panel)
  int64_t tile(int64_t second, int64_t panel) const { return (second * panels() + panel) * hidden * width; }
  // The projections: (projection, block of hidden channels, channel, one of the block).
  int64_t projection_floats() const { return round_up(hidden, rows) * channels; }
  // to_out: (panel of channels, hidden channel, one of the panel).
  int64_t to_out_floats() const { return round_up(channels, width) * hidden; }
};

// Some batches of a call, and the places of their intermediate tensors.
struct Job {
  Geometry geometry;
  ConstTensorView x, mask;
  TensorView out;
  const float* projections;
  const float* to_out;
  const float *norm_weight, *norm_bias;                // (C), dense
  const float *to_out_norm_weight, *to_out_norm_bias;  // (H), dense
  float *left, *right, *hidden, *gate;                 // of `count` batches
  int64_t first, count;                                // batches
};

}  // namespace
}  // namespace assay::trimul
#endif

HWY_BEFORE_NAMESPACE();
namespace assay::trimul {
namespace HWY_NAMESPACE {
namespace {

// Gathers x of a panel, transposed. Edges beyond the last one are 0.
void gather(const Job& job, int64_t batch, int64_t panel, int64_t second, float* to) {
  const Geometry& g = job.geometry;
  const auto* x = job.x.as<float>() + batch * job.x.strides[0] + second * job.x.strides[2];
  const int64_t stride = job.x.strides[3];
  for (int64_t lane = 0; lane < kWidth; ++lane) {
    const int64_t node = panel * kWidth + lane;
    const float* row = x + node * job.x.strides[1];
    for (int64_t c = 0; c < g.channels; ++c) to[c * kWidth + lane] = node < g.nodes ? row[c * stride] : 0.0f;
  }
}

void gather_mask(const Job& job, int64_t batch, int64_t panel, int64_t second, float* to) {
  const ConstTensorView& mask = job.mask;
  for (int64_t lane = 0; lane < kWidth; ++lane) {
    const int64_t node = panel * kWidth + lane;
    const int64_t offset = batch * mask.strides[0] + node * mask.strides[1] + second * mask.strides[2];
    to[lane] = node >= job.geometry.nodes ? 0.0f : mask.shape[3] == 0 ? 1.0f : mask.as<float>()[offset];
  }
}

// Turns a row of sums into gate * proj * mask.
HWY_INLINE void write_gated(const float* proj, const float* gate, const float* mask, float* to) {
  const F32 f32;
  for (int64_t lane = 0; lane < kWidth; lane += kLanes) {
    const V32 gated = hn::Mul(hn::Load(f32, proj + lane), sigmoid(hn::Load(f32, gate + lane)));
    hn::Store(hn::Mul(gated, hn::Load(f32, mask + lane)), f32, to + lane);
  }
}

// [floats] Memory for `panels` panels of edges with their channels and their mask.
int64_t project_floats(const Geometry& g, int64_t panels) {
  return panels * (g.channels + 1) * kWidth;
}

// Projects `count` panels from `first` on, for one second node of batch job.first + `at`.
void project(const Job& job, int64_t at, int64_t second, int64_t first, int64_t count, float* memory) {
  const Geometry& g = job.geometry;
  const int64_t tile = g.channels * kWidth;
  float* masks = memory + count * tile;
  for (int64_t p = 0; p < count; ++p) {
    gather(job, job.first + at, first + p, second, memory + p * tile);
    gather_mask(job, job.first + at, first + p, second, masks + p * kWidth);
    normalise(memory + p * tile, g.channels, job.norm_weight, job.norm_bias, kEpsilon, memory + p * tile);
  }
  float* const factors[] = {job.left + at * g.edges(), job.right + at * g.edges()};
  float* const gates = job.gate + at * g.edges();
  alignas(64) float proj[kRows * kWidth], gate[kRows * kWidth];
  for (int64_t h = 0; h < g.hidden; h += kRows) {
    const float* weights = job.projections + h * g.channels;
    const int64_t wanted = std::min<int64_t>(kRows, g.hidden - h);
    for (int64_t p = 0; p < count; ++p) {
      const float* edges = memory + p * tile;
      for (int64_t side = 0; side < 2; ++side) {
        multiply(weights + 2 * side * g.projection_floats(), kRows, edges, g.channels, proj);
        multiply(weights + (2 * side + 1) * g.projection_floats(), kRows, edges, g.channels, gate);
        for (int64_t r = 0; r < wanted; ++r) {
          write_gated(proj + r * kWidth, gate + r * kWidth, masks + p * kWidth,
                      factors[side] + g.factor(h + r, first + p) + second * kWidth);
        }
      }
      multiply(weights + 4 * g.projection_floats(), kRows, edges, g.channels, gate);
      float* to = gates + g.tile(second, first + p) + h * kWidth;
      for (int64_t i = 0; i < wanted * kWidth; i += kLanes) {
        hn::Store(sigmoid(hn::Load(F32(), gate + i)), F32(), to + i);
      }
    }
  }
}

// Computes hidden of channel h for the second nodes of one panel and all first nodes.
void contract(const Job& job, int64_t at, int64_t h, int64_t second_panel) {
  const Geometry& g = job.geometry;
  const float* left = job.left + at * g.edges();
  const float* right = job.right + at * g.edges() + g.factor(h, second_panel);
  float* hidden = job.hidden + at * g.edges() + h * kWidth;
  const int64_t begin = second_panel * kWidth, end = std::min(g.nodes, begin + kWidth);
  alignas(64) float sums[kRows * kWidth];
  for (int64_t panel = 0; panel < g.panels(); ++panel) {
    const float* firsts = left + g.factor(h, panel);
    for (int64_t second = begin; second < end; second += kRows) {
      multiply(right + (second - begin), kWidth, firsts, g.nodes, sums);
      for (int64_t r = 0; r < std::min<int64_t>(kRows, end - second); ++r) {
        std::copy_n(sums + r * kWidth, kWidth, hidden + g.tile(second + r, panel));
      }
    }
  }
}

int64_t finish_floats(const Geometry& g, int64_t panels) {
  return panels * g.hidden * kWidth;
}

// Computes the output of `count` panels from `first` on.
void finish(const Job& job, int64_t at, int64_t second, int64_t first, int64_t count, float* memory) {
  const Geometry& g = job.geometry;
  const int64_t tile = g.hidden * kWidth;
  for (int64_t p = 0; p < count; ++p) {
    const float* hidden = job.hidden + at * g.edges() + g.tile(second, first + p);
    const float* gate = job.gate + at * g.edges() + g.tile(second, first + p);
    float* z = memory + p * tile;
    normalise(hidden, g.hidden, job.to_out_norm_weight, job.to_out_norm_bias, kEpsilon, z);
    for (int64_t i = 0; i < tile; i += kLanes) {
      hn::Store(hn::Mul(hn::Load(F32(), z + i), hn::Load(F32(), gate + i)), F32(), z + i);
    }
  }
  const Extents& strides = job.out.strides;
  float* out = job.out.as<float>() + (job.first + at) * strides[0] + second * strides[2];
  alignas(64) float sums[kRows * kWidth];
  for (int64_t c = 0; c < g.channels; c += kWidth) {
    const float* weights = job.to_out + c * g.hidden;
    const int64_t wanted = std::min<int64_t>(kWidth, g.channels - c);
    for (int64_t p = 0; p < count; ++p) {
      const int64_t begin = (first + p) * kWidth, edges = std::min<int64_t>(kWidth, g.nodes - begin);
      for (int64_t edge = 0; edge < edges; edge += kRows) {
        multiply(memory + p * tile + edge, kWidth, weights, g.hidden, sums);
        for (int64_t r = 0; r < std::min<int64_t>(kRows, edges - edge); ++r) {
          float* row = out + (begin + edge + r) * strides[1] + c * strides[3];
          if (strides[3] == 1) {
            std::copy_n(sums + r * kWidth, wanted, row);
          } else {
            for (int64_t i = 0; i < wanted; ++i) row[i * strides[3]] = sums[r * kWidth + i];
          }
        }
      }
    }
  }
}

Geometry geometry_of(int64_t batches, int64_t nodes, int64_t channels, int64_t hidden) {
  return {batches, nodes, channels, hidden, kWidth, kRows};
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace assay::trimul
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay::trimul {
namespace {

HWY_EXPORT(project);
HWY_EXPORT(project_floats);
HWY_EXPORT(contract);
HWY_EXPORT(finish);
HWY_EXPORT(finish_floats);
HWY_EXPORT(geometry_of);

constexpr int64_t kFloat = sizeof(float);

// Packs a weight (outputs, inputs) in panels of `width` outputs. The outputs of a panel lie side by
// side, input after input. Zeros fill up the last panel.
void pack(const ConstTensorView& weight, int64_t width, float* to) {
  const int64_t outputs = weight.shape[0], inputs = weight.shape[1];
  const int64_t grain = std::max<int64_t>((1 << 16) / std::max<int64_t>(inputs * width, 1), 1);
  parallel_for((outputs + width - 1) / width, grain, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin * width; at < end * width; ++at) {
      float* first = to + at / width * width * inputs + at % width;
      const float* row = weight.as<float>() + at * weight.strides[0];
      for (int64_t k = 0; k < inputs; ++k) first[k * width] = at < outputs ? row[k * weight.strides[1]] : 0;
    }
  });
}

// The weights as the steps read them. They are packed again only for other versions.
struct PackedWeights {
  PackedWeights(const Tensors& t, const Geometry& g, const Run& run) {
    const std::string sizes = fmt::format("{} {} {} {}", g.channels, g.hidden, g.rows, g.width);
    projections = run.context.derived().get(
        "trimul cpu projections " + sizes, kProjections * g.projection_floats() * kFloat,
        {run.source(kLeftProj, t.left.proj), run.source(kLeftGate, t.left.gate),
         run.source(kRightProj, t.right.proj), run.source(kRightGate, t.right.gate),
         run.source(kOutGate, t.out_gate)},
        run.stream, [&](void* data) {
          auto* to = static_cast<float*>(data);
          for (const auto& weight : {t.left.proj, t.left.gate, t.right.proj, t.right.gate, t.out_gate}) {
            pack(weight, g.rows, to);
            to += g.projection_floats();
          }
        });
    to_out = run.context.derived().get(
        "trimul cpu to_out " + sizes, g.to_out_floats() * kFloat, {run.source(kToOut, t.to_out)}, run.stream,
        [&](void* data) { pack(t.to_out, g.width, static_cast<float*>(data)); });
  }
  DerivedTensors::Held projections, to_out;
};

// Copies the weight and the bias of a norm, one after the other.
void copy_norm(const Norm& norm, float* to) {
  for (const ConstTensorView& view : {norm.weight, norm.bias}) {
    for (int64_t i = 0; i < view.shape[0]; ++i) *to++ = view.as<float>()[i * view.strides[0]];
  }
}

// Calls body(batch, node, first panel, panels, memory) for all panels of the job's batches, at most
// `most` panels at a time.
template <class Body>
void for_panels(const Job& job, const Run& run, int64_t most, int64_t floats, const Body& body) {
  const Geometry& g = job.geometry;
  const int64_t groups = (g.panels() + most - 1) / most, tasks = job.count * g.nodes * groups;
  // A small panel alone is not worth another thread.
  const int64_t flops = 2 * most * g.width * g.channels * g.hidden;
  const int64_t grain = std::max<int64_t>((int64_t{1} << 20) / std::max<int64_t>(flops, 1), 1);
  parallel_for(tasks, std::min<int64_t>(grain, 1024), [&](int64_t begin, int64_t end) {
    const auto memory = run.context.workspace().lease(floats * kFloat, run.stream);
    for (int64_t task = begin; task < end; ++task) {
      const int64_t first = task % groups * most;
      body(task / groups / g.nodes, task / groups % g.nodes, first, std::min(most, g.panels() - first),
           memory.as<float>());
    }
  });
}

void run_batches(const Job& job, int64_t panels, const Run& run) {
  const Geometry& g = job.geometry;
  panels = std::clamp<int64_t>(panels, 1, g.panels());
  for_panels(job, run, panels, HWY_DYNAMIC_DISPATCH(project_floats)(g, panels),
             [&](int64_t at, int64_t second, int64_t first, int64_t count, float* memory) {
               HWY_DYNAMIC_DISPATCH(project)(job, at, second, first, count, memory);
             });
  const int64_t flops = 2 * g.nodes * g.nodes * g.width;  // of one panel
  parallel_for(job.count * g.hidden * g.panels(), std::max<int64_t>((1 << 20) / flops, 1),
               [&](int64_t begin, int64_t end) {
                 for (int64_t task = begin; task < end; ++task) {
                   const int64_t channel = task / g.panels();
                   HWY_DYNAMIC_DISPATCH(contract)
                   (job, channel / g.hidden, channel % g.hidden, task % g.panels());
                 }
               });
  for_panels(job, run, panels, HWY_DYNAMIC_DISPATCH(finish_floats)(g, panels),
             [&](int64_t at, int64_t second, int64_t first, int64_t count, float* memory) {
               HWY_DYNAMIC_DISPATCH(finish)(job, at, second, first, count, memory);
             });
}

void clear(const TensorView& out) {
  for (int64_t i = 0; i < out.size(); ++i) {
    out.as<float>()[offset_of(index_of(i, out.shape), out.strides)] = 0;
  }
}

}  // namespace

const Tunable& cpu_tunable() {
  static const Tunable tunable{
      .name = "trimul_cpu", .version = 1, .configs = {{{"panels", 2}}, {{"panels", 1}}, {{"panels", 4}}}};
  return tunable;
}

void run_cpu(const Tensors& t, const Run& run) {
  require_valid(t);
  const Geometry g =
      HWY_DYNAMIC_DISPATCH(geometry_of)(t.x.shape[0], t.x.shape[1], t.x.shape[3], t.left.proj.shape[0]);
  if (t.out.size() == 0) return;
  if (g.hidden == 0) return clear(t.out);
  const PackedWeights weights(t, g, run);
  Workspace& workspace = run.context.workspace();
  const auto norms = workspace.lease(2 * (g.channels + g.hidden) * kFloat, run.stream);
  copy_norm(t.norm, norms.as<float>());
  copy_norm(t.to_out_norm, norms.as<float>() + 2 * g.channels);

  const int64_t batches = std::clamp<int64_t>(kTogether.value() / (4 * g.edges() * kFloat), 1, g.batches);
  const int64_t bytes = batches * g.edges() * kFloat;
  const auto left = workspace.lease(bytes, run.stream), right = workspace.lease(bytes, run.stream);
  const auto hidden = workspace.lease(bytes, run.stream), gate = workspace.lease(bytes, run.stream);

  const Job job{.geometry = g,
                .x = t.x,
                .mask = t.mask,
                .out = t.out,
                .projections = static_cast<const float*>(weights.projections.data()),
                .to_out = static_cast<const float*>(weights.to_out.data()),
                .norm_weight = norms.as<float>(),
                .norm_bias = norms.as<float>() + g.channels,
                .to_out_norm_weight = norms.as<float>() + 2 * g.channels,
                .to_out_norm_bias = norms.as<float>() + 2 * g.channels + g.hidden,
                .left = left.as<float>(),
                .right = right.as<float>(),
                .hidden = hidden.as<float>(),
                .gate = gate.as<float>(),
                .first = 0,
                .count = batches};
  Call call;  // to name the problem
  call.dims = {{kB, g.batches}, {kN, g.nodes}, {kC, g.channels}, {kH, g.hidden}};
  call.dtype = DType::kF32;
  call.inputs = {t.x};
  call.outputs = {t.out};
  run.context.tuner().run(
      {.tunable = &cpu_tunable(),
       .key = tuning_key(call),
       .unfit = {},
       .buffers = {buffer_of("x", Role::kRead, t.x),
                   buffer_of("mask", Role::kRead, t.mask),
                   {"projections", Role::kRead, weights.projections.data(),
                    kProjections * g.projection_floats() * kFloat},
                   {"to_out", Role::kRead, weights.to_out.data(), g.to_out_floats() * kFloat},
                   {"norms", Role::kRead, norms.data(), 2 * (g.channels + g.hidden) * kFloat},
                   {"left", Role::kScratch, left.data(), bytes},
                   {"right", Role::kScratch, right.data(), bytes},
                   {"hidden", Role::kScratch, hidden.data(), bytes},
                   {"gate", Role::kScratch, gate.data(), bytes},
                   buffer_of("out", Role::kWrite, t.out)},
       .run =
           [&](const Config& config, std::span<void* const> data) {
             Job here = job;
             here.out.data = data[9];
             for (here.first = 0; here.first < g.batches; here.first += batches) {
               here.count = std::min(batches, g.batches - here.first);
               run_batches(here, config["panels"], run);
             }
           },
       .stream = run.stream});
}

}  // namespace assay::trimul
#endif  // HWY_ONCE
