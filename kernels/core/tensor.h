// SPDX-License-Identifier: Apache-2.0
// Views of strided tensors: a pointer, a dtype, sizes and strides. A view does not own its memory.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "kernels/core/dtype.h"
#include "kernels/core/error.h"

namespace assay {

inline constexpr int kMaxRank = 6;

// Up to kMaxRank 64-bit numbers, one per dimension: the sizes of a tensor, its strides, or an index
// into it.
class Extents {
 public:
  Extents() = default;
  Extents(std::initializer_list<int64_t> values);

  int rank() const { return rank_; }
  int64_t operator[](int i) const { return values_[static_cast<size_t>(i)]; }
  int64_t& operator[](int i) { return values_[static_cast<size_t>(i)]; }
  void push_back(int64_t value);
  std::span<const int64_t> values() const { return {values_.data(), static_cast<size_t>(rank_)}; }
  std::string to_string() const;  // "(8, 2048, 2048)"

  bool operator==(const Extents& other) const;

 private:
  int rank_ = 0;
  std::array<int64_t, kMaxRank> values_{};
};

int64_t element_count(const Extents& shape);                      // the product; throws above 2^62
Extents dense_strides(const Extents& shape);                      // row-major; all 1 if empty
Extents index_of(int64_t flat, const Extents& shape);             // index of a row-major position
int64_t offset_of(const Extents& index, const Extents& strides);  // [elements]

template <class Void>
struct BasicTensorView {
  Void* data = nullptr;
  DType dtype = DType::kF32;
  Extents shape;
  Extents strides;  // [elements], each >= 0; 0 repeats an input along that dimension

  int64_t size() const { return element_count(shape); }
  bool is_dense() const { return size() == 0 || strides == dense_strides(shape) || size() == 1; }

  template <class T>
  auto* as() const {
    using Pointer = std::conditional_t<std::is_const_v<Void>, const T, T>;
    if (dtype != dtype_of<T>())
      throw Error("a {} tensor was read as {}", name_of(dtype), name_of(dtype_of<T>()));
    return static_cast<Pointer*>(data);
  }

  operator BasicTensorView<const void>() const requires(!std::is_const_v<Void>) {
    return {data, dtype, shape, strides};
  }
};

using TensorView = BasicTensorView<void>;
using ConstTensorView = BasicTensorView<const void>;

// Bytes from `data` to the end of the furthest element; 0 for an empty tensor.
int64_t span_bytes(const ConstTensorView& view);

// Each throws Error (usage), naming the operand and its values, unless the tensor is as asked.
void require_shape(std::string_view operand, const ConstTensorView& view, const Extents& shape);
void require_dtype(std::string_view operand, const ConstTensorView& view, DType dtype);
// Asks for strides >= 0, an aligned address, and a pointer that is not null.
void require_input(std::string_view operand, const ConstTensorView& view);
// Asks for what require_input() asks for, and that no two elements share memory.
void require_output(std::string_view operand, const ConstTensorView& view);
// Asks for disjoint byte ranges from the first to the last element. Refuses some interleaved views
// that share no element.
void require_disjoint(std::string_view a_name, const ConstTensorView& a, std::string_view b_name,
                      const ConstTensorView& b);

}  // namespace assay
