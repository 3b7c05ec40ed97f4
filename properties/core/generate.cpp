// SPDX-License-Identifier: Apache-2.0
#include "properties/core/generate.h"

#include <algorithm>
#include <vector>

namespace assay {
namespace {

constexpr int64_t kLongestInflated = 2;  // two slices 2^32 elements apart show every wrapped offset

// One of the values, shrinking toward the first. rapidcheck's elementOf does not shrink.
template <class T>
rc::Gen<T> one_of(std::vector<T> values) {
  const auto count = static_cast<int64_t>(values.size());
  return rc::gen::map(rc::gen::inRange<int64_t>(0, count),
                      [values = std::move(values)](int64_t i) { return values[static_cast<size_t>(i)]; });
}

// Half the time a small size, half the time one next to an edge.
rc::Gen<int64_t> arbitrary_size(const DimInfo& dim) {
  constexpr int64_t kSmall = 6;
  std::vector<int64_t> sizes;
  for (int64_t edge : dim.edges) {
    for (int64_t size : {edge - 1, edge, edge + 1}) sizes.push_back(size);
  }
  for (int64_t size = dim.min; size < dim.min + kSmall; ++size) sizes.push_back(size);
  std::erase_if(sizes, [&](int64_t size) { return size < dim.min || size > dim.max; });
  std::ranges::sort(sizes);
  const auto repeated = std::ranges::unique(sizes);
  sizes.erase(repeated.begin(), repeated.end());
  const int64_t small_end = std::min(dim.max, dim.min + 2 * kSmall) + 1;
  return rc::gen::oneOf(rc::gen::inRange(dim.min, small_end), one_of(std::move(sizes)));
}

int64_t largest_tensor(const Op& op, const Dims& dims) {
  int64_t largest = 0;
  for (const auto* tensors : {&op.inputs, &op.outputs}) {
    for (const TensorInfo& tensor : *tensors)
      largest = std::max(largest, element_count(shape_of(tensor, dims)));
  }
  return largest;
}

// Halves the largest dimension until the largest tensor is small enough.
void limit(const Op& op, Dims& dims) {
  while (largest_tensor(op, dims) > kFuzzElements) {
    const auto largest =
        std::ranges::max_element(dims.values(), {}, [](const auto& dim) { return dim.second; });
    dims.set(std::string(largest->first), largest->second / 2);
  }
}

}  // namespace

bool is_legal(Layout layout, const Op& op, const Dims& dims) {
  const auto outermost = [&](const TensorInfo& tensor) { return shape_of(tensor, dims)[0]; };
  switch (layout) {
    case Layout::kDense:
    case Layout::kStrided:
    case Layout::kMisaligned:
    case Layout::kTransposed:
      return true;
    case Layout::kBroadcast:
      return std::ranges::all_of(op.inputs, [&](const TensorInfo& tensor) { return outermost(tensor) > 1; });
    case Layout::kInflated:
      return std::ranges::all_of(op.inputs,
                                 [&](const TensorInfo& t) { return outermost(t) == kLongestInflated; }) &&
             std::ranges::all_of(op.outputs,
                                 [&](const TensorInfo& t) { return outermost(t) == kLongestInflated; });
  }
  throw Error("Layout({}) is not a layout", static_cast<int>(layout));
}

rc::Gen<Case> arbitrary_case(const Op& op, const Path& path) {
  return rc::gen::exec([&op, &path] {
    Case result;
    result.op = op.name;
    result.path = path.name;
    for (const DimInfo& dim : op.dims) result.dims.set(std::string(dim.key), *arbitrary_size(dim));
    limit(op, result.dims);
    result.dtype = *one_of(path.dtypes);
    const auto regimes = all_regimes();
    result.data = *one_of(std::vector(regimes.begin(), regimes.end()));
    std::vector<Layout> layouts;
    for (Layout layout : all_layouts()) {
      if (is_legal(layout, op, result.dims)) layouts.push_back(layout);
    }
    result.layout = *one_of(layouts);
    const auto states = all_states();
    result.state = *one_of(std::vector(states.begin(), states.end()));
    constexpr uint64_t kSeeds = 1'000'000;
    result.seed = *rc::gen::inRange<uint64_t>(0, kSeeds);
    return result;
  });
}

}  // namespace assay
