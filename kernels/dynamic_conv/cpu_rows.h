// SPDX-License-Identifier: Apache-2.0
// How the CPU path cuts a problem into items, and how it reads and writes their rows in any layout.
// None of this depends on the instruction set.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "kernels/core/tensor.h"
#include "kernels/core/threshold.h"
#include "kernels/dynamic_conv/dynamic_conv.h"

namespace assay::dynamic_conv {

// Most channels of a block: W rows of them stay in the first two cache levels.
inline constexpr int64_t kChannels = 1024;
inline constexpr Threshold kChannelsThreshold{kChannels, 32};
// Most positions of an item: many more than the W - 1 that two items share.
inline constexpr Threshold kRows{256, 16};

struct Item {
  int64_t b;
  int64_t t_begin, t_end;
  int64_t d;         // first channel
  int64_t channels;  // at most kChannels
  bool stream;       // write past the caches
};

// The rows of a tensor (B, T, D) or (B, T, D, W) within an item. A dense row holds channel after
// channel, and for each channel its taps side by side.
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

  // Calls fn(place in a dense row, place in this row) for each element.
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

  // A dense row. It stays valid until kMaxTaps / W other rows have been asked for.
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

  // The address of row t, or of the nearest row if there is no row t. It may be prefetched, not
  // read.
  const T* ahead(int64_t t) const { return this->row(std::clamp<int64_t>(t, 0, this->positions_ - 1)); }

 private:
  std::array<int64_t, kMaxTaps> position_;  // positions of the rows in packed_
  T packed_[kMaxTaps * kChannels];
};

template <class T>
class OutputRows : Rows<T, TensorView> {
 public:
  OutputRows(const TensorView& view, const Item& item)
      : Rows<T, TensorView>(view, item), stream_(item.stream && this->is_dense()) {}

  // A dense row to write. finish() then puts it into place.
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
  // [floats] From row to row. No power of two, so rows do not share cache sets.
  static constexpr int64_t kPitch = kChannels + 16;
  alignas(64) float values_[kMaxTaps * kPitch];
};

// Element e has `taps` taps side by side; here each tap gets `lanes` places of its own. Returns the
// new place of each element.
template <size_t kCount>
constexpr std::array<int32_t, kCount> interleaving(size_t taps, size_t lanes) {
  std::array<int32_t, kCount> index{};
  for (size_t e = 0; e < kCount; ++e) index[e] = static_cast<int32_t>(e % taps * lanes + e / taps);
  return index;
}

}  // namespace assay::dynamic_conv
