// SPDX-License-Identifier: Apache-2.0
// The CPU path. An item of work is a run of positions of one batch entry and a block of its
// channels. The path marches along t, a row of channels at a time. A row that is not dense is
// copied to a dense one first, and the last vector of a row is filled up. So every layout and every
// tail goes through the same vector operations, and equal elements get equal bits. Large outputs
// are written past the caches, which saves reading the lines that they overwrite.
#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <type_traits>
#include <utility>

#include "kernels/core/parallel.h"
#include "kernels/core/specialise.h"
#include "kernels/core/streaming.h"
#include "kernels/dynamic_conv/cpu_rows.h"
#include "kernels/dynamic_conv/dynamic_conv.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/dynamic_conv/cpu.cpp"
#include "kernels/core/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace assay::dynamic_conv {
namespace HWY_NAMESPACE {
namespace {
using namespace simd::HWY_NAMESPACE;

// Converts vectors that hold kCount numbers side by side, at most 4, to one vector for each number,
// and back.
template <int kCount, class Tag>
HWY_INLINE void deinterleave(Tag tag, const hn::TFromD<Tag>* from, hn::Vec<Tag>* v) {
  static_assert(kCount <= 4, "Highway interleaves up to 4 vectors");
  if constexpr (kCount == 1) v[0] = hn::LoadU(tag, from);
  if constexpr (kCount == 2) hn::LoadInterleaved2(tag, from, v[0], v[1]);
  if constexpr (kCount == 3) hn::LoadInterleaved3(tag, from, v[0], v[1], v[2]);
  if constexpr (kCount == 4) hn::LoadInterleaved4(tag, from, v[0], v[1], v[2], v[3]);
}

template <int kCount, class Tag>
HWY_INLINE void interleave(const hn::Vec<Tag>* v, Tag tag, hn::TFromD<Tag>* to, bool stream) {
  static_assert(kCount <= 4, "Highway interleaves up to 4 vectors");
  if constexpr (kCount == 1) return write(v[0], tag, to, stream);
  HWY_ALIGN hn::TFromD<Tag> side_by_side[kCount * kLanes];
  if constexpr (kCount == 2) hn::StoreInterleaved2(v[0], v[1], tag, side_by_side);
  if constexpr (kCount == 3) hn::StoreInterleaved3(v[0], v[1], v[2], tag, side_by_side);
  if constexpr (kCount == 4) hn::StoreInterleaved4(v[0], v[1], v[2], v[3], tag, side_by_side);
  for (int at = 0; at < kCount * kLanes; at += kLanes) {
    write(hn::Load(tag, side_by_side + at), tag, to + at, stream);
  }
}

// The taps of kLanes channels. They lie side by side in memory; here each tap has a vector.
template <int kTaps, class T>
HWY_INLINE void load_taps(const T* from, V32* taps) {
  using S = Storage<T>;
  if constexpr (sizeof(T) == 2 && kTaps % 2 == 0) {
    VU32 pairs[kTaps / 2];
    deinterleave<kTaps / 2>(U32(), reinterpret_cast<const uint32_t*>(from), pairs);
    for (int w = 0; w < kTaps; w += 2) {
      taps[w] = Pairs<T>::first(pairs[w / 2]);
      taps[w + 1] = Pairs<T>::second(pairs[w / 2]);
    }
  } else if constexpr (kTaps <= 4) {
    hn::Vec<typename S::Tag> narrow[kTaps];
    deinterleave<kTaps>(typename S::Tag(), reinterpret_cast<const Lane<T>*>(from), narrow);
    for (int w = 0; w < kTaps; ++w) taps[w] = S::widen(narrow[w]);
  } else {
    HWY_ALIGN float side_by_side[kTaps * kLanes];
    for (int j = 0; j < kTaps; ++j) hn::Store(load(from + j * kLanes), F32(), side_by_side + j * kLanes);
    const auto index = hn::Mul(hn::Iota(I32(), 0), hn::Set(I32(), kTaps));
    for (int w = 0; w < kTaps; ++w) taps[w] = hn::GatherIndex(F32(), side_by_side + w, index);
  }
}

template <int kTaps, class T>
HWY_INLINE void store_taps(const V32* taps, T* to, bool stream) {
  using S = Storage<T>;
  if constexpr (sizeof(T) == 2 && kTaps % 2 == 0) {
    VU32 pairs[kTaps / 2];
    for (int w = 0; w < kTaps; w += 2) pairs[w / 2] = Pairs<T>::round(taps[w], taps[w + 1]);
    interleave<kTaps / 2>(pairs, U32(), reinterpret_cast<uint32_t*>(to), stream);
  } else if constexpr (kTaps <= 4) {
    hn::Vec<typename S::Tag> narrow[kTaps];
    for (int w = 0; w < kTaps; ++w) narrow[w] = S::round(taps[w]);
    interleave<kTaps>(narrow, typename S::Tag(), reinterpret_cast<Lane<T>*>(to), stream);
  } else {
    static constexpr auto kIndex = interleaving<kTaps * kLanes>(kTaps, kLanes);
    HWY_ALIGN float apart[kTaps * kLanes];
    for (int w = 0; w < kTaps; ++w) hn::Store(taps[w], F32(), apart + w * kLanes);
    for (int j = 0; j < kTaps; ++j) {
      const auto index = hn::LoadU(I32(), kIndex.data() + j * kLanes);
      store(hn::GatherIndex(F32(), apart, index), to + j * kLanes, stream);
    }
  }
}

template <class T>
bool is_aligned(const T* row) {
  return reinterpret_cast<uintptr_t>(row) % (kLanes * sizeof(float)) == 0;
}

template <int kTaps, class T>
struct ForwardRow {
  const T* k;
  T* out;
  bool stream = false;
  const T* x[kTaps] = {};  // the row that each tap multiplies; null before t = 0
};

template <int kTaps, class T>
HWY_INLINE void forward_vector(const ForwardRow<kTaps, T>& row, int64_t i) {
  V32 taps[kTaps];
  load_taps<kTaps>(row.k + i * kTaps, taps);
  V32 sum = hn::Zero(F32());
  for (int w = 0; w < kTaps; ++w) {
    if (row.x[w] != nullptr) sum = hn::MulAdd(taps[w], load(row.x[w] + i), sum);
  }
  store(sum, row.out + i, row.stream);
}

template <int kTaps, class T>
void forward_tail(const ForwardRow<kTaps, T>& row, int64_t i, int64_t count) {
  T x[kTaps][kLanes], k[kTaps * kLanes], out[kLanes];
  ForwardRow<kTaps, T> tail{.k = fill_up(row.k + i * kTaps, count * kTaps, k), .out = out};
  for (int w = 0; w < kTaps; ++w) {
    if (row.x[w] != nullptr) tail.x[w] = fill_up(row.x[w] + i, count, x[w]);
  }
  forward_vector(tail, 0);
  std::copy_n(out, count, row.out + i);
}

template <int kTaps, class T>
void forward(const ForwardTensors& tensors, const Item& item) {
  InputRows<T> x(tensors.x, item), k(tensors.k, item);
  OutputRows<T> out(tensors.out, item);
  for (int64_t t = item.t_begin; t < item.t_end; ++t) {
    ForwardRow<kTaps, T> row{.k = k[t], .out = out[t], .stream = out.stream() && is_aligned(out[t])};
    for (int w = 0; w < kTaps; ++w) {
      const int64_t from = t + w - (kTaps - 1);
      if (from >= 0) row.x[w] = x[from];
    }
    const T* next_x = x.ahead(t + 1);
    const T* next_k = k.ahead(t + 1);
    int64_t i = 0;
    for (; i + kLanes <= item.channels; i += kLanes) {
      prefetch<kLanes>(next_x + i);
      prefetch<kTaps * kLanes>(next_k + i * kTaps);
      forward_vector(row, i);
    }
    if (i < item.channels) forward_tail(row, i, item.channels - i);
    out.finish(t);
  }
}

// Adds what position s contributes to the gradients. sums[w] is the row of dx that dout[s] * k[s,w]
// belongs to, null outside the item. A dx gets its term of w = 0 first and that of w = W-1 last.
template <int kTaps, class T>
struct BackwardRow {
  const T* dout;
  const T* k;
  const T* x[kTaps] = {};  // as in ForwardRow
  float* sums[kTaps] = {};
  T* dx = nullptr;  // null if s is in the next item, which computes its dx and dk
  T* dk = nullptr;
  bool stream_dx = false;
  bool stream_dk = false;
};

template <int kTaps, class T>
HWY_INLINE void backward_vector(const BackwardRow<kTaps, T>& row, int64_t i) {
  const F32 f32;
  const V32 dout = load(row.dout + i);
  V32 taps[kTaps];
  load_taps<kTaps>(row.k + i * kTaps, taps);
  V32 sum = hn::Zero(f32);
  for (int w = 0; w < kTaps; ++w) {
    if (row.sums[w] == nullptr) continue;
    sum = hn::MulAdd(dout, taps[w], w == 0 ? hn::Zero(f32) : hn::Load(f32, row.sums[w] + i));
    if (w < kTaps - 1) hn::Store(sum, f32, row.sums[w] + i);
  }
  if (row.dx == nullptr) return;
  store(sum, row.dx + i, row.stream_dx);
  V32 dk[kTaps];
  for (int w = 0; w < kTaps; ++w) {
    dk[w] = row.x[w] != nullptr ? hn::Mul(dout, load(row.x[w] + i)) : hn::Zero(f32);
  }
  store_taps<kTaps>(dk, row.dk + i * kTaps, row.stream_dk);
}

template <int kTaps, class T>
void backward_tail(const BackwardRow<kTaps, T>& row, int64_t i, int64_t count) {
  T dout[kLanes], k[kTaps * kLanes], x[kTaps][kLanes], dx[kLanes], dk[kTaps * kLanes];
  BackwardRow<kTaps, T> tail{.dout = fill_up(row.dout + i, count, dout),
                             .k = fill_up(row.k + i * kTaps, count * kTaps, k)};
  for (int w = 0; w < kTaps; ++w) {
    if (row.sums[w] != nullptr) tail.sums[w] = row.sums[w] + i;
    if (row.x[w] != nullptr) tail.x[w] = fill_up(row.x[w] + i, count, x[w]);
  }
  if (row.dx != nullptr) {
    tail.dx = dx;
    tail.dk = dk;
  }
  backward_vector(tail, 0);
  if (row.dx == nullptr) return;
  std::copy_n(dx, count, row.dx + i);
  std::copy_n(dk, count * kTaps, row.dk + i * kTaps);
}

// Marches from the end to the beginning, so that the terms of a dx arrive in order of w: from
// s = t+W-1 down to s = t. It begins in the next item, which has the terms of the last dx.
template <int kTaps, class T>
void backward(const BackwardTensors& tensors, const Item& item) {
  InputRows<T> dout(tensors.dout, item), x(tensors.x, item), k(tensors.k, item);
  OutputRows<T> dx(tensors.dx, item), dk(tensors.dk, item);
  SumRows sums;
  for (int64_t s = std::min(item.t_end + kTaps - 1, tensors.x.shape[1]) - 1; s >= item.t_begin; --s) {
    const bool inside = s < item.t_end;
    BackwardRow<kTaps, T> row{.dout = dout[s], .k = k[s]};
    for (int w = 0; w < kTaps; ++w) {
      const int64_t t = s + w - (kTaps - 1);
      if (t >= item.t_begin && t < item.t_end) row.sums[w] = sums[t];
      if (t >= 0 && inside) row.x[w] = x[t];
    }
    if (inside) {
      row.dx = dx[s];
      row.dk = dk[s];
      row.stream_dx = dx.stream() && is_aligned(row.dx);
      row.stream_dk = dk.stream() && is_aligned(row.dk);
    }
    const T* next_dout = dout.ahead(s - 1);
    const T* next_x = x.ahead(s - kTaps);
    const T* next_k = k.ahead(s - 1);
    int64_t i = 0;
    for (; i + kLanes <= item.channels; i += kLanes) {
      prefetch<kLanes>(next_dout + i);
      prefetch<kLanes>(next_x + i);
      prefetch<kTaps * kLanes>(next_k + i * kTaps);
      backward_vector(row, i);
    }
    if (i < item.channels) backward_tail(row, i, item.channels - i);
    if (inside) {
      dx.finish(s);
      dk.finish(s);
    }
  }
}

// Calls fn<kTaps, T>() for the sizes and types of the contract.
template <class Fn>
void specialise(const ConstTensorView& k, Fn&& fn) {
  visit_storage(k.dtype, [&]<class T>(std::type_identity<T>) {
    visit_integer<1, kMaxTaps>(k.shape[3], [&]<int kTaps>(std::integral_constant<int, kTaps>) {
      fn.template operator()<kTaps, T>();
    });
  });
}

void forward_item(const ForwardTensors& tensors, const Item& item) {
  specialise(tensors.k, [&]<int kTaps, class T>() { forward<kTaps, T>(tensors, item); });
  hwy::FlushStream();
}

void backward_item(const BackwardTensors& tensors, const Item& item) {
  specialise(tensors.k, [&]<int kTaps, class T>() { backward<kTaps, T>(tensors, item); });
  hwy::FlushStream();
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace assay::dynamic_conv
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay::dynamic_conv {
namespace {

HWY_EXPORT(forward_item);
HWY_EXPORT(backward_item);

template <class Fn>
void for_each_item(const Extents& shape, std::initializer_list<TensorView> outputs, Fn&& fn) {
  const int64_t b = shape[0], t = shape[1], d = shape[2];
  if (b == 0 || t == 0 || d == 0) return;
  const int64_t rows = kRows.value(), channels = kChannelsThreshold.value();
  const int64_t runs = (t + rows - 1) / rows;
  const int64_t blocks = (d + channels - 1) / channels;
  const bool stream = outgrow_caches(outputs);
  const int64_t item_size = std::min(t, rows) * std::min(d, channels);
  parallel_for(b * runs * blocks, std::max<int64_t>(kGrain / item_size, 1), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t t_begin = i / blocks % runs * rows;
      const int64_t d_begin = i % blocks * channels;
      fn(Item{.b = i / blocks / runs,
              .t_begin = t_begin,
              .t_end = std::min(t_begin + rows, t),
              .d = d_begin,
              .channels = std::min(channels, d - d_begin),
              .stream = stream});
    }
  });
}

}  // namespace

void forward_cpu(const ForwardTensors& tensors) {
  require_valid(tensors);
  for_each_item(tensors.x.shape, {tensors.out}, [&](const Item& item) {
    HWY_DYNAMIC_DISPATCH(forward_item)(tensors, item);
  });
}

void backward_cpu(const BackwardTensors& tensors) {
  require_valid(tensors);
  for_each_item(tensors.x.shape, {tensors.dx, tensors.dk}, [&](const Item& item) {
    HWY_DYNAMIC_DISPATCH(backward_item)(tensors, item);
  });
}

}  // namespace assay::dynamic_conv
#endif  // HWY_ONCE
