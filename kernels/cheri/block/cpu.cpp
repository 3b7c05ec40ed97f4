// SPDX-License-Identifier: Apache-2.0
// The CPU path of cheri_block. After the statistics of all examples it takes a tile of rows at a
// time, convolves and normalises it, and takes it through both products. So nothing between x and
// out is larger than a tile, which the second cache level holds.
//
// Every sum of a product runs over its inputs in order, in one fused chain, for any tile and any
// row in it. So equal rows get equal bits.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <type_traits>

#include "kernels/cheri/cheri.h"
#include "kernels/cheri/conv_norm/cpu_jobs.h"
#include "kernels/cheri/tunables.h"
#include "kernels/core/parallel.h"
#include "kernels/core/specialise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cheri/block/cpu.cpp"
#include "kernels/core/simd-inl.h"
// after it
#include "kernels/cheri/block/cpu_perceptron-inl.h"
#include "kernels/cheri/conv_norm/cpu_conv-inl.h"

HWY_BEFORE_NAMESPACE();
namespace assay::cheri {
namespace HWY_NAMESPACE {
namespace {

// Puts the normalised values of a row into a tile.
template <class T>
struct WriteRow {
  HWY_INLINE void put(int64_t at, V32 y) { hn::Store(y, F32(), tile.at(row, at - begin)); }
  HWY_INLINE void whole(int64_t at, V32 conv) { put(at, normalise(conv)); }
  HWY_INLINE void two(int64_t at, V32 first, V32 second) {
    float y[kTwo];
    put_in_order<T>(normalise(first), normalise(second), y);
    put(at, hn::LoadU(F32(), y));
    put(at + kLanes, hn::LoadU(F32(), y + kLanes));
  }
  HWY_INLINE void part(int64_t at, V32 conv, int64_t) { whole(at, conv); }

  Normalise normalise;
  Tile tile;
  int64_t row;
  int64_t begin;  // of the row in its example
};

// Fills a tile with the rows [begin, end), counted through all examples.
template <class T>
void fill_tile(const BlockJob& job, int64_t begin, int64_t end, const Tile& tile) {
  const Examples<const T> x(job.x);
  const int64_t channels = job.geometry.channels, positions = job.geometry.positions;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t n = row / positions, at = row % positions * channels;
    const Source<T> source(job.geometry, x[n], job.taps);
    // Whole vectors, as far as the example reaches. They may write columns that nobody reads.
    const int64_t row_end = std::min(at + (channels + kLanes - 1) / kLanes * kLanes, job.geometry.size);
    WriteRow<T> write{Normalise(job.norms[n]), tile, row - begin, at};
    for_convolution(source, at, row_end, write);
  }
}

// x + scale * sum for `count` elements of one row. It has the bits of x where the sum is 0.
template <class T>
HWY_INLINE void add_residual(const T* x, const float* sum, int64_t count, float scale, T* out,
                             int64_t stride) {
  const F32 f32;
  const auto residual = [&](const T* from, const float* sums) HWY_ATTR {
    const V32 input = load(from), total = hn::Load(f32, sums);
    const V32 result = hn::MulAdd(hn::Set(f32, scale), total, input);
    return hn::IfThenElse(hn::Eq(total, hn::Zero(f32)), input, result);
  };
  for (int64_t i = 0; i < count; i += kLanes) {
    if (stride == 1 && i + kLanes <= count) {
      store(residual(x + i, sum + i), out + i, false);
      continue;
    }
    const int64_t rest = std::min<int64_t>(kLanes, count - i);
    T input[kLanes] = {}, result[kLanes] = {};
    store(residual(fill_up(x + i, rest, input), sum + i), result, false);
    for (int64_t j = 0; j < rest; ++j) out[(i + j) * stride] = result[j];
  }
}

template <class T>
void block_tile(const BlockJob& job, int64_t begin, int64_t end, const Tile& y, const Tile& g) {
  const Panels expand(job.hidden, job.geometry.channels, kWidth);
  const Panels contract(job.geometry.channels, job.hidden, kWidth);
  const int64_t channels = job.geometry.channels, positions = job.geometry.positions;
  const int64_t rows = end - begin;
  fill_tile<T>(job, begin, end, y);
  for (int64_t row = rows; row % kRows != 0; ++row) {
    for (int64_t column = 0; column < channels; column += kPiece)
      std::fill_n(y.at(row, column), kPiece, 0.0f);
  }
  for (int64_t panel = 0; panel < expand.count; ++panel) {
    for (int64_t row = 0; row < rows; row += kRows) {
      float* to = g.at(row, panel * kWidth);
      multiply_panel(y, row, expand, job.w1, panel, to);
      const int64_t wanted = std::min(kWidth, job.hidden - panel * kWidth);
      for (int64_t r = 0; r < kRows; ++r) {
        for (int64_t i = 0; i < wanted; i += kLanes) {
          float* z = to + r * kPitch + i;
          hn::Store(gelu(hn::Load(F32(), z), job.shift), F32(), z);
        }
      }
    }
  }
  const Examples<const T> x(job.x);
  const Examples<T> out(job.out);
  alignas(64) float sums[kRows * kPitch];
  const float scale = static_cast<float>(kScale) / scale_of_shift(job.shift);
  for (int64_t panel = 0; panel < contract.count; ++panel) {
    const int64_t column = panel * kWidth;
    const int64_t wanted = std::min(kWidth, channels - column);
    for (int64_t row = 0; row < rows; row += kRows) {
      multiply_panel(g, row, contract, job.w2, panel, sums);
      for (int64_t r = 0; r < std::min<int64_t>(kRows, rows - row); ++r) {
        const int64_t n = (begin + row + r) / positions, l = (begin + row + r) % positions;
        add_residual(x[n] + l * channels + column, sums + r * kPitch, wanted, scale,
                     out[n] + l * out.stride_l + column * out.stride_c, out.stride_c);
      }
    }
  }
}

// The rows of a tile with room for at least `rows`.
int64_t rows_of_tile(int64_t rows) {
  return (rows + kRows - 1) / kRows * kRows;
}

// [bytes] The size of a tile with its hidden values.
int64_t tile_bytes(const BlockJob& job, int64_t rows) {
  const int64_t floats = tile_floats(rows, job.geometry.channels) + tile_floats(rows, job.hidden);
  return floats * int64_t{sizeof(float)};
}

// Computes the rows [begin, end) in tiles of `rows`. `memory` holds one tile.
void block_rows(const BlockJob& job, int64_t begin, int64_t end, int64_t rows, float* memory) {
  const Tile y{memory, rows}, g{memory + tile_floats(rows, job.geometry.channels), rows};
  visit_storage(job.x.dtype, [&]<class T>(std::type_identity<T>) {
    for (int64_t row = begin; row < end; row += rows) {
      block_tile<T>(job, row, std::min(row + rows, end), y, g);
    }
  });
}

int64_t panel_width() {
  return kWidth;
}

// The largest magnitude among a whole number of vectors; NaNs do not count.
float largest_of(const float* values, int64_t count) {
  V32 largest = hn::Zero(F32());
  for (int64_t i = 0; i < count; i += kLanes) {
    const V32 size = hn::Abs(hn::Load(F32(), values + i));
    largest = hn::IfThenElse(hn::Gt(size, largest), size, largest);
  }
  return hn::GetLane(hn::MaxOfLanes(F32(), largest));
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace assay::cheri
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay::cheri {

void pack_panels(const ConstTensorView& weight, const Panels& panels, float* to) {
  const int64_t grain = std::max<int64_t>(kChunk / std::max<int64_t>(panels.inputs * panels.width, 1), 1);
  visit_storage(weight.dtype, [&]<class T>(std::type_identity<T>) {
    parallel_for(panels.count, grain, [&](int64_t begin, int64_t end) {
      for (int64_t panel = begin; panel < end; ++panel) {
        float* first = to + panel * panels.inputs * panels.width;
        for (int64_t j = 0; j < panels.width; ++j) {
          const int64_t output = panel * panels.width + j;
          if (output >= panels.outputs) {
            for (int64_t k = 0; k < panels.inputs; ++k) first[k * panels.width + j] = 0;
            continue;
          }
          const T* row = weight.as<T>() + output * weight.strides[0];
          for (int64_t k = 0; k < panels.inputs; ++k) {
            first[k * panels.width + j] = static_cast<float>(to_double(row[k * weight.strides[1]]));
          }
        }
      }
    });
  });
}

namespace {

HWY_EXPORT(rows_of_tile);
HWY_EXPORT(tile_bytes);
HWY_EXPORT(block_rows);
HWY_EXPORT(panel_width);
HWY_EXPORT(largest_of);

// [bytes] The size of a packed weight, with its largest magnitude behind it.
int64_t packed_weight_bytes(const Panels& panels) {
  return (panels.floats() + 1) * int64_t{sizeof(float)};
}

// Packs a weight. It is packed again only for another version.
DerivedTensors::Held packed_weight(Input input, const ConstTensorView& weight, const Panels& panels,
                                   const Run& run) {
  const std::string full_name = fmt::format("cheri_block cpu {} {} {} {}", input.name, name_of(weight.dtype),
                                            weight.shape.to_string(), panels.width);
  const auto make = [&](void* data) {
    auto* to = static_cast<float*>(data);
    pack_panels(weight, panels, to);
    to[panels.floats()] = HWY_DYNAMIC_DISPATCH(largest_of)(to, panels.floats());
  };
  return run.context.derived().get(full_name, packed_weight_bytes(panels), {run.source(input, weight)},
                                   run.stream, make);
}

// GELU yields values far below the normal numbers of f32, for which many processors need a hundred
// times as long. Multiplied by 2^32 they are normal. This is done if neither the hidden values nor
// the sums over them can overflow then. |y| is at most sqrt(L*C).
int32_t shift_for(const Geometry& geometry, int64_t hidden, double largest_w1, double largest_w2) {
  constexpr double kRoom = 0x1p120;
  constexpr int32_t kShift = 32;
  const double y = std::sqrt(static_cast<double>(geometry.size)) + 1;
  const double z = static_cast<double>(geometry.channels) * y * largest_w1;
  const double sum = z * static_cast<double>(hidden) * largest_w2;
  return std::max(z, sum) * 0x1p32 < kRoom ? kShift : 0;
}

// Computes all rows, in tasks of tiles of about `wanted` rows, or fewer if a tile would be huge.
void run_tiles(const BlockJob& job, int64_t wanted, const Run& run) {
  constexpr Threshold kMostBytes{int64_t{64} << 20, 1 << 14};  // of a tile
  constexpr int64_t kTask = int64_t{1} << 22;                  // [flop] worth another thread
  const int64_t rows_in_all = job.geometry.examples * job.geometry.positions;
  const int64_t row_bytes = HWY_DYNAMIC_DISPATCH(tile_bytes)(job, 1);
  wanted = std::clamp<int64_t>(kMostBytes.value() / row_bytes, 1, wanted);
  const int64_t rows = HWY_DYNAMIC_DISPATCH(rows_of_tile)(wanted);
  const int64_t tile_work = rows * job.geometry.channels * (4 * job.hidden + 64);
  const int64_t tiles = (rows_in_all + rows - 1) / rows;
  parallel_for(tiles, std::max<int64_t>(kTask / tile_work, 1), [&](int64_t begin, int64_t end) {
    const auto memory =
        run.context.workspace().lease(HWY_DYNAMIC_DISPATCH(tile_bytes)(job, rows), run.stream);
    HWY_DYNAMIC_DISPATCH(block_rows)
    (job, begin * rows, std::min(end * rows, rows_in_all), rows, memory.as<float>());
  });
}

}  // namespace

const Tunable& block_cpu_tunable() {
  static const Tunable tunable{.name = "cheri_block_cpu",
                               .version = 1,
                               .configs = {{{"rows", 112}}, {{"rows", 56}}, {{"rows", 224}}, {{"rows", 28}}}};
  return tunable;
}

void block_cpu(const BlockTensors& t, const Run& run) {
  require_valid(t, run.dilation);
  const Geometry geometry(t.x.shape, run.dilation);
  const int64_t chunks = geometry.examples * geometry.chunks;
  if (chunks == 0) return;
  const int64_t hidden = t.w1.shape[0], width = HWY_DYNAMIC_DISPATCH(panel_width)();
  const Panels expand(hidden, geometry.channels, width), contract(geometry.channels, hidden, width);
  const auto held_w1 = packed_weight(kW1, t.w1, expand, run);
  const auto held_w2 = packed_weight(kW2, t.w2, contract, run);
  const auto* w1 = static_cast<const float*>(held_w1.data());
  const auto* w2 = static_cast<const float*>(held_w2.data());
  Workspace& workspace = run.context.workspace();
  const auto packed = workspace.lease(packed_bytes(t.x), run.stream);
  const auto taps = workspace.lease(Taps::bytes(geometry), run.stream);
  const auto moments = workspace.lease(chunks * int64_t{sizeof(Moments)}, run.stream);
  const auto norms = workspace.lease(geometry.examples * int64_t{sizeof(Norm)}, run.stream);

  repeat_taps(t.w, geometry, taps.as<float>());
  BlockJob job{.geometry = geometry,
               .hidden = hidden,
               .x = pack_examples(t.x, packed.data()),
               .taps = taps.as<float>(),
               .norms = norms.as<Norm>(),
               .w1 = w1,
               .w2 = w2,
               .shift = shift_for(geometry, hidden, static_cast<double>(w1[expand.floats()]),
                                  static_cast<double>(w2[contract.floats()])),
               .out = t.out};
  norms_of_examples({.geometry = geometry, .x = job.x, .taps = job.taps, .y = {}, .stream = false},
                    moments.as<Moments>(), norms.as<Norm>());

  Call call;  // to name the problem
  call.dims = geometry.dims(run.dilation);
  call.dims.set(kHidden.key, hidden);
  call.dtype = t.x.dtype;
  call.inputs = {t.x, t.w, t.w1, t.w2};
  call.outputs = {t.out};
  run.context.tuner().run(
      {.tunable = &block_cpu_tunable(),
       .key = tuning_key(call),
       .unfit = {},
       .buffers = {buffer_of("x", Role::kRead, job.x),
                   {"taps", Role::kRead, taps.data(), Taps::bytes(geometry)},
                   {"norms", Role::kRead, norms.data(), geometry.examples * int64_t{sizeof(Norm)}},
                   {"w1", Role::kRead, held_w1.data(), packed_weight_bytes(expand)},
                   {"w2", Role::kRead, held_w2.data(), packed_weight_bytes(contract)},
                   buffer_of("out", Role::kWrite, t.out)},
       .run =
           [&](const Config& config, std::span<void* const> data) {
             BlockJob here = job;
             here.out.data = data[5];
             run_tiles(here, config["rows"], run);
           },
       .stream = run.stream});
}

}  // namespace assay::cheri
#endif  // HWY_ONCE
