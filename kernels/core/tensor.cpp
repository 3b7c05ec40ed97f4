// SPDX-License-Identifier: Apache-2.0
#include "kernels/core/tensor.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

namespace assay {

Extents::Extents(std::initializer_list<int64_t> values) {
  for (int64_t value : values) push_back(value);
}

void Extents::push_back(int64_t value) {
  if (rank_ == kMaxRank) throw Error("a tensor has more than {} dimensions", kMaxRank);
  values_[static_cast<size_t>(rank_++)] = value;
}

std::string Extents::to_string() const {
  return fmt::format("({})", fmt::join(values(), ", "));
}

bool Extents::operator==(const Extents& other) const {
  return std::ranges::equal(values(), other.values());
}

int64_t element_count(const Extents& shape) {
  if (std::ranges::any_of(shape.values(), [](int64_t size) { return size < 0; })) {
    throw usage_error("the shape {} has a negative size", shape.to_string());
  }
  if (std::ranges::count(shape.values(), 0) > 0) return 0;
  __int128 count = 1;
  for (int64_t size : shape.values()) {
    count *= size;
    if (count > (int64_t{1} << 62))
      throw usage_error("the shape {} has more than 2^62 elements", shape.to_string());
  }
  return static_cast<int64_t>(count);
}

Extents dense_strides(const Extents& shape) {
  const bool is_empty = element_count(shape) == 0;
  Extents strides = shape;
  int64_t stride = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[i] = stride;
    if (!is_empty) stride *= shape[i];
  }
  return strides;
}

Extents index_of(int64_t flat, const Extents& shape) {
  Extents index = shape;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    index[i] = flat % shape[i];
    flat /= shape[i];
  }
  return index;
}

int64_t offset_of(const Extents& index, const Extents& strides) {
  int64_t offset = 0;
  for (int i = 0; i < index.rank(); ++i) offset += index[i] * strides[i];
  return offset;
}

int64_t span_bytes(const ConstTensorView& view) {
  if (view.size() == 0) return 0;
  int64_t last = 0;
  for (int i = 0; i < view.shape.rank(); ++i) last += (view.shape[i] - 1) * view.strides[i];
  return (last + 1) * static_cast<int64_t>(size_of(view.dtype));
}

void require_shape(std::string_view operand, const ConstTensorView& view, const Extents& shape) {
  if (view.shape != shape) {
    throw usage_error("{} has shape {}, expected {}", operand, view.shape.to_string(), shape.to_string());
  }
}

void require_dtype(std::string_view operand, const ConstTensorView& view, DType dtype) {
  if (view.dtype != dtype) {
    throw usage_error("{} has dtype {}, expected {}", operand, name_of(view.dtype), name_of(dtype));
  }
}

void require_input(std::string_view operand, const ConstTensorView& view) {
  if (view.strides.rank() != view.shape.rank()) {
    throw usage_error("{} has strides {} for shape {}", operand, view.strides.to_string(),
                      view.shape.to_string());
  }
  if (view.size() == 0) return;
  if (std::ranges::any_of(view.strides.values(), [](int64_t stride) { return stride < 0; })) {
    throw usage_error("{} has strides {}: a negative stride is not supported", operand,
                      view.strides.to_string());
  }
  if (view.data == nullptr) throw usage_error("{} of shape {} has no data", operand, view.shape.to_string());
  if (reinterpret_cast<uintptr_t>(view.data) % size_of(view.dtype) != 0) {
    throw usage_error("{} is at address {}, which is not a multiple of {} bytes", operand, view.data,
                      size_of(view.dtype));
  }
}

void require_output(std::string_view operand, const ConstTensorView& view) {
  require_input(operand, view);
  if (view.size() == 0) return;
  // No two elements share memory if each stride, from the smallest up, steps over everything inside
  // it.
  std::vector<std::pair<int64_t, int64_t>> steps;  // (stride, size)
  for (int i = 0; i < view.shape.rank(); ++i) {
    if (view.shape[i] > 1) steps.emplace_back(view.strides[i], view.shape[i]);
  }
  std::ranges::sort(steps);
  int64_t inside = 1;
  for (auto [stride, size] : steps) {
    if (stride < inside) {
      throw usage_error("{} has shape {} and strides {}: its elements overlap", operand,
                        view.shape.to_string(), view.strides.to_string());
    }
    inside = stride * (size - 1) + inside;
  }
}

void require_disjoint(std::string_view a_name, const ConstTensorView& a, std::string_view b_name,
                      const ConstTensorView& b) {
  const auto* a_begin = static_cast<const char*>(a.data);
  const auto* b_begin = static_cast<const char*>(b.data);
  if (a.size() == 0 || b.size() == 0) return;
  if (a_begin < b_begin + span_bytes(b) && b_begin < a_begin + span_bytes(a)) {
    throw usage_error("{} at {} ({} bytes) overlaps {} at {} ({} bytes)", a_name, a.data, span_bytes(a),
                      b_name, b.data, span_bytes(b));
  }
}

}  // namespace assay
