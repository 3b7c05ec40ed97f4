// SPDX-License-Identifier: Apache-2.0
// The Cheri block as training computes it: conv_norm, two products by cuBLASLt, and elementwise
// kernels between them, all in the storage dtype. Rows go in slabs. The hidden activations of a
// slab stay in the L2 cache from one step to the next.
#include <algorithm>
#include <cstdint>

#include "kernels/cheri/block/block.h"
#include "kernels/cheri/block/gelu.cuh"
#include "kernels/cheri/cheri.h"
#include "kernels/cheri/conv_norm/conv_norm.cuh"
#include "kernels/core/specialise.h"
#include "kernels/core/threshold.h"
#include "kernels/core_cuda/cublas.h"
#include "kernels/core_cuda/cuda_check.h"
#include "kernels/core_cuda/packed.cuh"

namespace assay::cheri {
namespace {

constexpr int kThreads = 256;
constexpr Threshold kMostBlocks{int64_t{1} << 20, 2};
constexpr Threshold kSlabBytes{int64_t{24} << 20, 1};  // of hidden activations
constexpr int64_t kPitch = 8;                          // [elements] rows are padded to this

constexpr int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

unsigned blocks_for(int64_t threads) {
  return static_cast<unsigned>(std::min((threads + kThreads - 1) / kThreads, kMostBlocks.value()));
}

// Works in place on `count` vectors of 16 bytes.
template <class T>
__global__ void __launch_bounds__(kThreads) gelu_kernel(T* z, int64_t count) {
  constexpr int kElements = 16 / int{sizeof(T)};
  const int64_t stride = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += stride) {
    Bits<T, kElements> bits;
    *reinterpret_cast<uint4*>(bits.words) = reinterpret_cast<const uint4*>(z)[i];
    float values[kElements];
#pragma unroll
    for (int e = 0; e < kElements; ++e) values[e] = gelu(bits[e]);
    const auto rounded = round_to<T>(values);
    reinterpret_cast<uint4*>(z)[i] = *reinterpret_cast<const uint4*>(rounded.words);
  }
}

template <class T>
struct ResidualArguments {
  Strided<const T> x;
  const T* sums;  // (rows, pitch); null if they are 0
  Strided<T> out;
  int64_t first_row, rows, length, channels, pitch;
};

// out = x + scale * sums, in vectors of kElements channels. A sum of 0 leaves the bits of x.
template <class T, int kElements>
__global__ void __launch_bounds__(kThreads) residual_kernel(const ResidualArguments<T> a) {
  constexpr int kPiece = kElements * int{sizeof(T)};
  const int64_t stride = int64_t{gridDim.x} * kThreads;
  const int64_t vectors = a.channels / kElements;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < a.rows * vectors; i += stride) {
    const int64_t row = i / vectors, channel = (i - row * vectors) * kElements;
    const int64_t example = (a.first_row + row) / a.length;
    const int64_t position = a.first_row + row - example * a.length;
    Bits<T, kElements> x{}, sums{};
    load_pieces<kPiece>(x, a.x.data + example * a.x.example + position * a.x.row + channel * a.x.channel, 0);
    if (a.sums != nullptr) load_pieces<kPiece>(sums, a.sums + row * a.pitch + channel, 0);
    float values[kElements];
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      values[e] = sums[e] == 0 ? x[e] : fmaf(static_cast<float>(kScale), sums[e], x[e]);
    }
    store_pieces<kPiece>(
        a.out.data + example * a.out.example + position * a.out.row + channel * a.out.channel, 0,
        round_to<T>(values));
  }
}

template <class T>
void add_residual(const BlockTensors& t, const T* sums, int64_t first_row, int64_t rows, int64_t pitch,
                  cudaStream_t stream) {
  constexpr int kElements = 16 / int{sizeof(T)};
  const ResidualArguments<T> a{.x = Strided<const T>(t.x),
                               .sums = sums,
                               .out = Strided<T>(t.out),
                               .first_row = first_row,
                               .rows = rows,
                               .length = t.x.shape[1],
                               .channels = t.x.shape[2],
                               .pitch = pitch};
  if (has_vectors(t.x, 16) && has_vectors(t.out, 16)) {
    residual_kernel<T, kElements><<<blocks_for(rows * (a.channels / kElements)), kThreads, 0, stream>>>(a);
  } else {
    residual_kernel<T, 1><<<blocks_for(rows * a.channels), kThreads, 0, stream>>>(a);
  }
  cuda_check_launch("residual_kernel");
}

// A weight as packed rows, padded with rows of zeros to `rows`. It is kept while its version stays.
DerivedTensors::Held packed(const ConstTensorView& weight, int64_t rows, Input input, const Run& run) {
  const int64_t pitch = round_up(weight.shape[1], kPitch);
  const auto size = static_cast<int64_t>(size_of(weight.dtype));
  const int64_t bytes = weight.shape[0] * pitch * size;
  const auto make = [&](void* data) {
    copy_to_rows(weight, data, pitch, run.stream);
    const int64_t rest = rows * pitch * size - bytes;
    if (rest > 0) run.context.device().fill(static_cast<uint8_t*>(data) + bytes, 0, rest, run.stream);
  };
  return run.context.derived().get(
      fmt::format("cheri_block_train {} {} {}", input.name, name_of(weight.dtype), weight.shape.to_string()),
      rows * pitch * size, {run.source(input, weight)}, run.stream, make);
}

template <class T>
void run_storage(const BlockTensors& t, const Run& run) {
  constexpr int64_t kSize{sizeof(T)};
  const auto stream = static_cast<cudaStream_t>(run.stream);
  const int64_t n = t.x.shape[0], l = t.x.shape[1], c = t.x.shape[2], hidden = t.w1.shape[0];
  const int64_t rows = n * l;
  if (hidden == 0) return add_residual<T>(t, nullptr, 0, rows, 0, stream);

  const int64_t pitch = round_up(c, kPitch), hidden_pitch = round_up(hidden, kPitch);
  // [rows].
  const int64_t slab = std::max<int64_t>(kSlabBytes.value() / (hidden_pitch * kSize) / 256, 1) * 256;
  const RowProduct expand{t.x.dtype, hidden_pitch, c, pitch, pitch, hidden_pitch, slab};
  const RowProduct contract{t.x.dtype, c, hidden, hidden_pitch, hidden_pitch, pitch, slab};
  Workspace& workspace = run.context.workspace();
  const Workspace::Lease y = workspace.lease(rows * pitch * kSize, run.stream);
  const Workspace::Lease h = workspace.lease(std::min(slab, rows) * hidden_pitch * kSize, run.stream);
  const DerivedTensors::Held w1 = packed(t.w1, hidden_pitch, kW1, run);
  const DerivedTensors::Held w2 = packed(t.w2, c, kW2, run);

  clear_padding(y.data(), t.x.dtype, rows, c, pitch, run.stream);
  conv_norm_two_pass({t.x, t.w, {y.data(), t.x.dtype, t.x.shape, {l * pitch, pitch, 1}}}, run);
  for (int64_t first = 0; first < rows; first += slab) {
    const int64_t count = std::min(slab, rows - first);
    T* const sums = y.as<T>() + first * pitch;  // in place of y, which is not needed any more
    multiply_rows(expand, count, sums, w1.data(), h.data(), run.context, run.stream);
    const int64_t vectors = count * hidden_pitch * kSize / 16;
    gelu_kernel<T><<<blocks_for(vectors), kThreads, 0, stream>>>(h.as<T>(), vectors);
    cuda_check_launch("gelu_kernel");
    multiply_rows(contract, count, h.data(), w2.data(), sums, run.context, run.stream);
    add_residual<T>(t, sums, first, count, pitch, stream);
  }
}

}  // namespace

void block_train(const BlockTensors& t, const Run& run) {
  require_valid(t, run.dilation);
  if (t.out.size() == 0) return;
  visit_storage(t.x.dtype, [&]<class T>(std::type_identity<T>) { run_storage<T>(t, run); });
}

}  // namespace assay::cheri
