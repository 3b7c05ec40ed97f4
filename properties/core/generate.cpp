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

// Mostly a small size or one next to an edge, now and then the smallest, which may be 0.
rc::Gen<int64_t> arbitrary_size(const DimInfo& dim) {
  constexpr int64_t kSmall = 12;
  const int64_t one = std::max<int64_t>(dim.min, 1);
  const int64_t largest_small = is_short(dim) ? dim.max : one + kSmall;
  std::vector<int64_t> sizes{one};
  for (int64_t edge : dim.edges) {
    for (int64_t size : {edge - 1, edge, edge + 1}) sizes.push_back(size);
  }
  std::erase_if(sizes, [&](int64_t size) { return size < one || size > dim.max; });
  std::ranges::sort(sizes);
  const auto repeated = std::ranges::unique(sizes);
  sizes.erase(repeated.begin(), repeated.end());
  return rc::gen::weightedOneOf<int64_t>({{1, rc::gen::just(dim.min)},
                                          {12, rc::gen::inRange(one, largest_small + 1)},
                                          {dim.edges.empty() ? 0 : 12, one_of(std::move(sizes))}});
}

// Gives the outermost dimension of every tensor the size that a layout asks for, as far as it may have it.
void make_legal(Layout layout, const Op& op, Dims& dims) {
  if (layout != Layout::kInflated && layout != Layout::kBroadcast) return;
  for (const auto* tensors : {&op.inputs, &op.outputs}) {
    for (const TensorInfo& tensor : *tensors) {
      const std::string_view outermost = axes_of(tensor).front();
      if (!dims.contains(outermost)) continue;
      dims.set(outermost,
               layout == Layout::kInflated ? kLongestInflated : std::max<int64_t>(dims[outermost], 2));
    }
  }
}

// Halves the largest dimension, but `kept` only after all others, until the largest tensor is small enough: an edge that
// was drawn should survive.
void limit(const Op& op, std::string_view kept, Dims& dims) {
  while (largest_tensor(op, dims) > kFuzzElements) {
    const auto weight = [&](const auto& dim) { return dim.first == kept ? 1 : dim.second; };
    const auto largest = std::ranges::max_element(dims.values(), {}, weight);
    dims.set(std::string(largest->first), largest->second / 2);
  }
}

}  // namespace

int64_t largest_tensor(const Op& op, const Dims& dims) {
  int64_t largest = 0;
  for (const auto* tensors : {&op.inputs, &op.outputs}) {
    for (const TensorInfo& tensor : *tensors)
      largest = std::max(largest, element_count(shape_of(tensor, dims)));
  }
  return largest;
}

bool is_short(const DimInfo& dim) {
  constexpr int64_t kLongestShort = 64;
  return dim.max <= kLongestShort;
}

bool is_legal(Layout layout, const Op& op, const Dims& dims) {
  const auto outermost = [&](const TensorInfo& tensor) { return shape_of(tensor, dims)[0]; };
  const auto is_inflatable = [&](const TensorInfo& tensor) {
    return !dims.contains(axes_of(tensor).front()) || outermost(tensor) == kLongestInflated;
  };
  switch (layout) {
    case Layout::kDense:
    case Layout::kStrided:
    case Layout::kMisaligned:
    case Layout::kTransposed:
    case Layout::kMixed:
      return true;
    case Layout::kBroadcast:
      return std::ranges::all_of(op.inputs, [&](const TensorInfo& tensor) { return outermost(tensor) > 1; });
    case Layout::kInflated:
      return std::ranges::all_of(op.inputs, is_inflatable) && std::ranges::all_of(op.outputs, is_inflatable);
  }
  throw Error("Layout({}) is not a layout", static_cast<int>(layout));
}

rc::Gen<Case> arbitrary_case(const Op& op, const Path& path) {
  return rc::gen::exec([&op, &path] {
    Case result;
    result.op = op.name;
    result.path = path.name;
    // The sizes come last: rapidcheck never shrinks a draw again once it has shrunk a later one, and what they may
    // shrink to depends on the layout and the data.
    const auto layouts = all_layouts();
    result.layout = *one_of(std::vector(layouts.begin(), layouts.end()));
    std::vector<Regime> regimes(all_regimes().begin(), all_regimes().end());
    regimes.push_back(Regime::kNonfinite);  // twice: what it finds may show in one tensor only
    result.data = *one_of(regimes);
    const auto states = all_states();
    result.state = *one_of(std::vector(states.begin(), states.end()));
    result.dtype = *one_of(path.dtypes);
    constexpr uint64_t kSeeds = 1'000'000;
    result.seed = *rc::gen::inRange<uint64_t>(0, kSeeds);
    std::vector<std::string_view> keys;
    for (const DimInfo& dim : op.dims) keys.push_back(dim.key);
    const std::string_view kept = *one_of(keys);
    for (const DimInfo& dim : op.dims) result.dims.set(std::string(dim.key), *arbitrary_size(dim));
    make_legal(result.layout, op, result.dims);
    limit(op, kept, result.dims);
    if (!is_legal(result.layout, op, result.dims)) result.layout = Layout::kDense;
    return result;
  });
}

}  // namespace assay
