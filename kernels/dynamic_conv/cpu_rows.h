// SPDX-License-Identifier: Apache-2.0
// How the CPU path cuts a problem into items, and how it reads and writes their rows in any layout. Nothing
// here depends on the instruction set.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "kernels/core/tensor.h"
#include "kernels/dynamic_conv/dynamic_conv.h"

namespace assay::dynamic_conv {

// In a block at most: W rows of it stay in the first two cache levels.
inline constexpr int64_t kChannels = 1024;
// Positions in an item at most: large beside the W - 1 that two items share.
inline constexpr int64_t kRows = 256;

struct Item {
  int64_t b;
  int64_t t_begin, t_end;
  int64_t d;         // first channel
  int64_t channels;  // at most kChannels
  bool stream;       // write past the caches
};

// The rows of a tensor (B, T, D) or (B, T, D, W) within an item: channel after channel, the taps of each side
// by side.
template <class T, class View>
class Rows {
 public:
  Rows(const View& view, const Item& item)
      : data_(view.template as<T>() + item.b * view.strides[0] + item.d * view.strides[2]),
        channels_(item.channels),
        positions_(view.shape[1]),
        taps_(view.shape.rank() == 4 ? view.shape[3] : 1),
        stride_t_(view.strides[1]),
        stride_d_(view.strides[2]),
        stride_w_(taps_ == 1 ? 1 : view.strides[3]) {}

 protected:
  bool is_dense() const { return stride_w_ == 1 && (stride_d_ == taps_ || channels_ == 1); }
  auto* row(int64_t t) const { return data_ + t * stride_t_; }

  // fn(place in a dense row, place in this row)
  template <class Fn>
  void for_each(Fn&& fn) const {
    for (int64_t d = 0; d < channels_; ++d) {
      for (int64_t w = 0; w < taps_; ++w) fn(d * taps_ + w, d * stride_d_ + w * stride_w_);
    }
  }

  decltype(std::declval<View>().template as<T>()) data_;
  int64_t channels_, positions_, taps_;
  int64_t stride_t_, stride_d_, stride_w_;
};

template <class T>
class InputRows : Rows<T, ConstTensorView> {
  using Base = Rows<T, ConstTensorView>;

 public:
  InputRows(const ConstTensorView& view, const Item& item) : Base(view, item) { position_.fill(-1); }

  // The row as a dense one, which stays as it is until kMaxTaps / W other rows were asked for.
  const T* operator[](int64_t t) {
    const T* from = this->row(t);
    if (this->is_dense()) return from;
    const int64_t slot = t % (kMaxTaps / this->taps_);
    T* packed = packed_ + slot * this->taps_ * kChannels;
    if (std::exchange(position_[static_cast<size_t>(slot)], t) != t) {
      this->for_each([&](int64_t dense, int64_t here) { packed[dense] = from[here]; });
    }
    return packed;
  }

  // Where row t begins, or the nearest row if there is no such row: to be prefetched, not to be read.
  const T* ahead(int64_t t) const { return this->row(std::clamp<int64_t>(t, 0, this->positions_ - 1)); }

 private:
  std::array<int64_t, kMaxTaps> position_;  // whose rows are in packed_
  T packed_[kMaxTaps * kChannels];
};

template <class T>
class OutputRows : Rows<T, TensorView> {
 public:
  OutputRows(const TensorView& view, const Item& item)
      : Rows<T, TensorView>(view, item), stream_(item.stream && this->is_dense()) {}

  // A dense row to write, and then to hand over.
  T* operator[](int64_t t) { return this->is_dense() ? this->row(t) : packed_; }
  void finish(int64_t t) {
    if (this->is_dense()) return;
    T* to = this->row(t);
    this->for_each([&](int64_t dense, int64_t here) { to[here] = packed_[dense]; });
  }
  bool stream() const { return stream_; }

 private:
  bool stream_;
  T packed_[kMaxTaps * kChannels];
};

// The sums of the last kMaxTaps positions.
class SumRows {
 public:
  SumRows() { std::fill_n(values_, kMaxTaps * kPitch, 0.0f); }
  float* operator[](int64_t t) { return values_ + t % kMaxTaps * kPitch; }

 private:
  // [floats] from row to row; not a power of two, so that the rows do not share cache sets
  static constexpr int64_t kPitch = kChannels + 16;
  alignas(64) float values_[kMaxTaps * kPitch];
};

// Where element e of `taps` taps side by side lies when each tap has `lanes` places of its own.
template <size_t kCount>
constexpr std::array<int32_t, kCount> interleaving(size_t taps, size_t lanes) {
  std::array<int32_t, kCount> index{};
  for (size_t e = 0; e < kCount; ++e) index[e] = static_cast<int32_t>(e % taps * lanes + e / taps);
  return index;
}

}  // namespace assay::dynamic_conv
