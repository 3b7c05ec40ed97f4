// SPDX-License-Identifier: Apache-2.0
#include "properties/core/sizes.h"

#include <algorithm>

namespace assay {

void limit(const Op& op, const std::vector<std::string_view>& kept, const Size& size, DType dtype,
           Dims& dims) {
  while (!size.allows(op, dims, dtype)) {
    const auto weight = [&](const auto& dim) -> int64_t {
      if (!is_axis(op, dim.first) || dim.second == 0) return 0;
      const auto rank = std::ranges::find(kept, dim.first) - kept.begin();
      return dim.second == 1 ? 1 : rank == std::ssize(kept) ? 2 + rank + dim.second : 2 + rank;
    };
    const auto largest = std::ranges::max_element(dims.values(), {}, weight);
    if (largest == dims.values().end() || weight(*largest) == 0) return;
    dims.set(std::string(largest->first), largest->second / 2);
  }
}

bool meet(const Meeting& meeting, int64_t times, int64_t more, const Op& op, DType dtype, const Size& size,
          Dims& dims) {
  const ProductEdge& edge = *meeting.edge;
  const int64_t target = times * edge.at / (edge.is_bytes ? static_cast<int64_t>(size_of(dtype)) : 1);
  Dims placed = dims;
  const auto is_in_product = [&](std::string_view key) {
    return std::ranges::count(edge.dims, key, &Dim::key) != 0;
  };
  for (const auto& [key, length] : dims.values()) {
    if (length == 0 && (is_in_product(key) || is_axis_of_output(op, key))) placed.set(key, 1);
  }
  const auto product_with = [&](int64_t free) {
    double product = 1;
    for (const Dim& dim : edge.dims)
      product *= static_cast<double>(dim.key == meeting.free ? free : placed.at(dim.key));
    return product;
  };
  const auto halve_one = [&](auto&& may) {
    for (const auto& [key, length] : dims.values()) {
      if (!may(key) || placed.at(key) <= 1) continue;
      placed.set(key, placed.at(key) / 2);
      return true;
    }
    return false;
  };
  while (product_with(1) > static_cast<double>(target)) {
    if (!halve_one([&](std::string_view key) { return key != meeting.free && is_in_product(key); }))
      return false;
  }
  int64_t free = 1;
  while (product_with(2 * free) <= static_cast<double>(target)) free *= 2;
  for (int64_t step = free / 2; step > 0; step /= 2) {
    if (product_with(free + step) <= static_cast<double>(target)) free += step;
  }
  placed.set(meeting.free, std::max<int64_t>(free + more, 1));
  while (!size.allows(op, placed, dtype)) {
    if (!halve_one([&](std::string_view key) { return is_axis(op, key) && !is_in_product(key); }))
      return false;
  }
  const auto info = std::ranges::find(op.dims, meeting.free, &DimInfo::key);
  if (placed.at(meeting.free) > info->max) return false;
  dims = std::move(placed);
  return true;
}

std::vector<Meeting> meetings(const Op& op, const Path& path, const Size& size) {
  std::vector<Meeting> possible;
  for (const ProductEdge& edge : path.edges) {
    for (const DimInfo& dim : op.dims) {
      if (std::ranges::count(edge.dims, dim.key, &Dim::key) == 0 || is_short(dim)) continue;
      Dims smallest;
      for (const DimInfo& other : op.dims) smallest.set(other.key, std::max<int64_t>(other.min, 1));
      const Meeting meeting{&edge, dim.key};
      if (meet(meeting, 1, 1, op, path.dtypes.front(), size, smallest)) possible.push_back(meeting);
    }
  }
  return possible;
}

void grow(const Op& op, std::string_view key, const Size& size, DType dtype, Dims& dims) {
  const auto info = std::ranges::find(op.dims, key, &DimInfo::key);
  const auto allows = [&](int64_t length) {
    Dims longer = dims;
    longer.set(key, length);
    return length <= std::min(info->max, size.elements) && size.allows(op, longer, dtype);
  };
  int64_t length = std::max<int64_t>(dims.at(key), 1);
  while (allows(2 * length)) length *= 2;
  for (int64_t step = length / 2; step > 0; step /= 2) {
    if (allows(length + step)) length += step;
  }
  if (allows(length)) dims.set(key, length);
}

}  // namespace assay
