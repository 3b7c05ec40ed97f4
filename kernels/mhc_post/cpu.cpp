// SPDX-License-Identifier: Apache-2.0
// The CPU path. It widens x and the residual streams of a block to f32 in the first cache level, so
// that each element is read from memory once. Then it computes the output streams, two at a time. A
// row that is not dense is packed first, and the last vectors of a row are filled up. So every
// layout and every tail goes through the same vector operations, and equal elements get equal bits.
// Large outputs are written past the caches.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/core/parallel.h"
#include "kernels/core/specialise.h"
#include "kernels/core/streaming.h"
#include "kernels/mhc_post/cpu_blocks.h"
#include "kernels/mhc_post/mhc_post.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/mhc_post/cpu.cpp"
#include "kernels/core/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace assay::mhc_post {
namespace HWY_NAMESPACE {
namespace {
using namespace simd::HWY_NAMESPACE;

// Vectors of an output that share the load of a weight and hide the latency of the sums.
constexpr int kSums = 4;
constexpr int kStep = kSums * kLanes;
static_assert(kTile % kStep == 0, "a padded row holds whole steps");

// The weights of the terms of each output stream, in order: post, then comb of each stream.
using Weights = float[kMaxStreams][1 + kMaxStreams];

void read_weights(const Tensors& t, int64_t n, Weights& weights) {
  // Only a NaN with an empty lower half can be rounded to bf16.
  const auto plain = [](float w) {
    return std::isnan(w) ? std::copysign(std::numeric_limits<float>::quiet_NaN(), w) : w;
  };
  const int64_t streams = t.out.shape[1];
  const float* post = t.post.as<float>() + n * t.post.strides[0];
  const float* comb = t.comb.as<float>() + n * t.comb.strides[0];
  for (int64_t i = 0; i < streams; ++i) {
    weights[i][0] = plain(post[i * t.post.strides[1]]);
    for (int64_t j = 0; j < streams; ++j) {
      weights[i][1 + j] = plain(comb[j * t.comb.strides[1] + i * t.comb.strides[2]]);
    }
  }
}

// Elements that become whole vectors of f32 together. bf16 elements go in pairs, which takes fewer
// instructions than keeping their order. The order does not matter if each element gets its place
// back.
template <class T>
constexpr int kGroup = std::is_same_v<T, bf16> ? 2 * kLanes : kLanes;

// How many elements lie before the first one that begins a cache line.
template <class T>
int64_t before_line(const T* row) {
  constexpr uintptr_t kLine = 64;  // [bytes]
  return static_cast<int64_t>(-reinterpret_cast<uintptr_t>(row) % kLine / sizeof(T));
}

template <class T>
HWY_INLINE void widen_group(const T* from, float* to) {
  if constexpr (kGroup<T> == kLanes) {
    hn::Store(load(from), F32(), to);
  } else {
    const VU32 pairs = hn::LoadU(U32(), reinterpret_cast<const uint32_t*>(from));
    hn::Store(Pairs<T>::first(pairs), F32(), to);
    hn::Store(Pairs<T>::second(pairs), F32(), to + kLanes);
  }
}

template <class T>
HWY_INLINE void round_group(const V32* v, T* to, bool stream) {
  if constexpr (kGroup<T> == kLanes) {
    store(v[0], to, stream);
  } else {
    write(Pairs<T>::round(v[0], v[1]), U32(), reinterpret_cast<uint32_t*>(to), stream);
  }
}

// Widens a row of `count` elements to f32 and fills it up with zeros to a multiple of kStep.
// `packed` has room for a row.
template <class T>
void widen(const T* from, int64_t stride, int64_t count, T* packed, float* to) {
  if (stride != 1) {
    for (int64_t k = 0; k < count; ++k) packed[k] = from[k * stride];
    from = packed;
  }
  const int64_t whole = count / kStep * kStep;
  for (int64_t k = 0; k < whole; k += kGroup<T>) widen_group(from + k, to + k);
  if (whole == count) return;
  T last[kStep];
  fill_up(from + whole, count - whole, last);
  for (int64_t k = 0; k < kStep; k += kGroup<T>) widen_group(last + k, to + whole + k);
}

// The terms from which the outputs of a block are computed.
struct Terms {
  alignas(64) float rows[kBlockFloats];  // x, then each stream
  Weights weights;
  int64_t pitch;  // [floats] from row to row, a multiple of kStep
  int64_t count;  // 1 + HC
};

// Computes `size` elements, rounded up to a multiple of kStep, of the output streams i, ...,
// i + kOutputs - 1, which share the loads of the rows. Prefetches as many streams of the next block
// meanwhile.
template <int kOutputs, class T>
void mix(const Terms& terms, int64_t i, int64_t size, const Rows<T>& out, bool stream,
         const Rows<const T>& next) {
  const F32 f32;
  for (int64_t k = 0; k < size; k += kStep) {
    V32 row[kSums], sum[kOutputs][kSums];
    for (int s = 0; s < kSums; ++s) row[s] = hn::Load(f32, terms.rows + k + s * kLanes);
    for (int o = 0; o < kOutputs; ++o) {
      const V32 weight = hn::Set(f32, terms.weights[i + o][0]);
      for (int s = 0; s < kSums; ++s) sum[o][s] = hn::Mul(weight, row[s]);
    }
    for (int64_t j = 1; j < terms.count; ++j) {
      for (int s = 0; s < kSums; ++s) row[s] = hn::Load(f32, terms.rows + j * terms.pitch + k + s * kLanes);
      for (int o = 0; o < kOutputs; ++o) {
        const V32 weight = hn::Set(f32, terms.weights[i + o][j]);
        for (int s = 0; s < kSums; ++s) sum[o][s] = hn::MulAdd(weight, row[s], sum[o][s]);
      }
    }
    for (int o = 0; o < kOutputs; ++o) {
      if (next.is_dense()) prefetch<kStep>(next[i + o] + k);
      for (int at = 0; at < kStep; at += kGroup<T>)
        round_group(sum[o] + at / kLanes, out[i + o] + k + at, stream);
    }
  }
}

// Copies a row to its place. If `stream`, whole cache lines go past the caches.
template <class T>
void write_row(const T* row, int64_t count, T* to, int64_t stride, bool stream) {
  if (stride != 1) {
    for (int64_t k = 0; k < count; ++k) to[k * stride] = row[k];
    return;
  }
  int64_t k = 0;
  if (stream) {
    constexpr int64_t kVector = kLanes * sizeof(float) / sizeof(T);
    k = std::min(count, before_line(to));
    std::copy_n(row, k, to);
    for (; k + kVector <= count; k += kVector) {
      const VU32 bits = hn::LoadU(U32(), reinterpret_cast<const uint32_t*>(row + k));
      write(bits, U32(), reinterpret_cast<uint32_t*>(to + k), true);
    }
  }
  std::copy_n(row + k, count - k, to + k);
}

template <class T>
void mix_blocks(const Tensors& t, const Blocks& blocks, int64_t begin, int64_t end) {
  const int64_t streams = t.out.shape[1];
  const bool stream = outgrow_caches({t.out});
  alignas(64) T packed[kBlockFloats];
  const Rows<T> packed_rows{.first = packed, .stride_stream = blocks.size, .stride_h = 1};
  Terms terms;
  terms.pitch = blocks.size;
  terms.count = 1 + streams;
  for (int64_t block = begin; block < end; ++block) {
    const int64_t size = std::min(blocks.size, blocks.h - block % blocks.per_token * blocks.size);
    const auto x = rows_of<const T>(t.x, blocks, block);
    const auto residual = rows_of<const T>(t.residual, blocks, block);
    const auto out = rows_of<T>(t.out, blocks, block);
    const auto next_x = rows_of<const T>(t.x, blocks, std::min(block + 1, end - 1));
    const auto next_residual = rows_of<const T>(t.residual, blocks, std::min(block + 1, end - 1));
    const bool lines = before_line(out[0]) == 0 && (streams == 1 || before_line(out[1]) == 0);
    const bool in_place = out.is_dense() && size % kStep == 0 && (lines || !stream);
    for (int64_t k = 0; next_x.is_dense() && k < size; k += kStep) prefetch<kStep>(next_x[0] + k);
    // The last line of such a row is only written in part, which reads it first.
    for (int64_t i = 0; stream && !in_place && i < streams; ++i) {
      __builtin_prefetch(out[i] + (size - 1) * out.stride_h, 1);
    }

    read_weights(t, block / blocks.per_token, terms.weights);
    widen(x[0], x.stride_h, size, packed, terms.rows);
    for (int64_t j = 0; j < streams; ++j) {
      widen(residual[j], residual.stride_h, size, packed, terms.rows + (1 + j) * terms.pitch);
    }
    const Rows<T>& to = in_place ? out : packed_rows;
    int64_t i = 0;
    for (; i + 2 <= streams; i += 2) mix<2>(terms, i, size, to, in_place && stream, next_residual);
    if (i < streams) mix<1>(terms, i, size, to, in_place && stream, next_residual);
    for (i = 0; i < streams && !in_place; ++i) write_row(packed_rows[i], size, out[i], out.stride_h, stream);
  }
  hwy::FlushStream();
}

void run_blocks(const Tensors& t, const Blocks& blocks, int64_t begin, int64_t end) {
  visit_storage(t.x.dtype, [&]<class T>(std::type_identity<T>) { mix_blocks<T>(t, blocks, begin, end); });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace assay::mhc_post
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay::mhc_post {
namespace {

HWY_EXPORT(run_blocks);

}  // namespace

void run_cpu(const Tensors& t) {
  require_valid(t);
  const Blocks blocks(t.out.shape);
  if (blocks.count == 0) return;
  const int64_t grain = std::max<int64_t>(kGrain / (blocks.size * t.out.shape[1]), 1);
  parallel_for(blocks.count, grain, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(run_blocks)(t, blocks, begin, end);
  });
}

}  // namespace assay::mhc_post
#endif  // HWY_ONCE
