// SPDX-License-Identifier: Apache-2.0
#include "properties/core/generate.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "properties/core/generate_steps.h"
#include "properties/core/guarded_tensor.h"
#include "properties/core/one_of.h"
#include "properties/core/sizes.h"

namespace assay {
namespace {

// The sizes within the range of a dimension, once each, after `one`.
std::vector<int64_t> legal_sizes(const DimInfo& dim, int64_t one, std::vector<int64_t> sizes) {
  std::erase_if(sizes, [&](int64_t size) { return size <= one || size > dim.max; });
  sizes.push_back(one);
  std::ranges::sort(sizes);
  const auto repeated = std::ranges::unique(sizes);
  sizes.erase(repeated.begin(), repeated.end());
  return sizes;
}

// Any size of a short dimension. Else mostly a small size or one beside an edge, else one beyond an
// edge: beside two or three times the edge, or a few elements past it. Rarely the smallest, which
// may be 0: an empty case shows little, and a sum of no terms more. If every path serves multiples
// of some size, often such a multiple.
rc::Gen<int64_t> arbitrary_size(const Op& op, const DimInfo& dim) {
  constexpr int64_t kSmall = 12;
  const int64_t one = std::max<int64_t>(dim.min, 1);
  const auto small =
      is_short(dim) ? rc::gen::inRange(dim.min, dim.max + 1) : rc::gen::inRange(one, one + kSmall + 1);
  constexpr int64_t kHalo = 16;
  std::vector<int64_t> beside, beyond, multiples{one};
  for (int64_t edge : dim.edges) {
    for (int64_t size : {edge - 1, edge, edge + 1}) beside.push_back(size);
    for (int64_t past = 2; past <= kHalo; ++past) beyond.push_back(edge + past);
    for (int64_t times : {2, 3}) {
      for (int64_t size : {times * edge - 1, times * edge, times * edge + 1}) beyond.push_back(size);
    }
  }
  for (int64_t count = 1; count <= 5 && is_summed(op, dim); ++count)
    multiples.push_back(count * dim.edges.front());
  return rc::gen::weightedOneOf<int64_t>({{is_summed(op, dim) ? 8 : 1, rc::gen::just(dim.min)},
                                          {90, small},
                                          {dim.edges.empty() ? 0 : 60, one_of(legal_sizes(dim, one, beside))},
                                          {dim.edges.empty() ? 0 : 20, one_of(legal_sizes(dim, one, beyond))},
                                          {is_summed(op, dim) ? 125 : 0, one_of(std::move(multiples))}});
}

// Of all dimensions, in their order. Shrinking draws a case hundreds of times.
using Sizes = std::shared_ptr<const std::vector<rc::Gen<int64_t>>>;

Sizes arbitrary_sizes(const Op& op) {
  std::vector<rc::Gen<int64_t>> sizes;
  for (const DimInfo& dim : op.dims) sizes.push_back(arbitrary_size(op, dim));
  return std::make_shared<const std::vector<rc::Gen<int64_t>>>(std::move(sizes));
}

Dims draw_all(const Op& op, const Sizes& sizes) {
  Dims dims;
  for (size_t i = 0; i < op.dims.size(); ++i) dims.set(op.dims[i].key, *(*sizes)[i]);
  return dims;
}

const DimInfo& dim_of(const Op& op, std::string_view key) {
  return *std::ranges::find(op.dims, key, &DimInfo::key);
}

// Sets the sizes that the layout asks for: the outermost of every tensor, or one that can be
// inflated. is_legal() tells whether that was enough.
void make_legal(Layout layout, std::string_view inflated, const Op& op, Dims& dims) {
  if (layout == Layout::kInflated) {
    const std::string_view axis = is_axis(op, inflated) && dim_of(op, inflated).max >= 4
                                      ? inflated
                                      : axes_of(op.inputs.front()).front();
    // Any more than a low threshold.
    const int64_t few = 2 + dims.at(axis) % 3, many = 33 + dims.at(axis) % 32;
    dims.set(std::string(axis), dims.at(axis) % 2 == 0 && many <= dim_of(op, axis).max ? many : few);
  }
  if (layout != Layout::kBroadcast) return;
  for (const auto* tensors : {&op.inputs, &op.outputs}) {
    for (const TensorInfo& tensor : *tensors) {
      const std::string_view outermost = axes_of(tensor).front();
      if (dims.contains(outermost)) dims.set(outermost, std::max<int64_t>(dims.at(outermost), 2));
    }
  }
}

// The dimensions of a case. In an eighth of the cases two are equal. If it is large, one of them
// grows unless a product edge is met.
Dims draw_dims(const Op& op, const Path& path, const Case& which, const Size& size, const Sizes& sizes) {
  const bool is_large = size.flops == kLargeFlops;
  std::vector<std::string_view> keys, long_axes;
  for (const DimInfo& dim : op.dims) {
    keys.push_back(dim.key);
    if (is_axis(op, dim.key) && !is_short(dim)) long_axes.push_back(dim.key);
  }
  const std::vector<std::string_view> kept{*one_of(keys), *one_of(keys)};
  const std::vector<Meeting> possible = meetings(op, path, size);
  std::vector<Meeting> drawn_from(possible.empty() ? 1 : is_large ? possible.size() : 5 * possible.size());
  drawn_from.insert(drawn_from.end(), possible.begin(), possible.end());
  const Meeting meeting = *one_of(std::move(drawn_from));
  const int64_t times = *one_of<int64_t>({1, 1, 1, 2, 3});
  const int64_t more = *one_of<int64_t>({0, 1, -1, 0, 1, -1, 2, 3, 5, 9, 16});
  const bool are_equal = *one_of<int>({0, 0, 0, 0, 0, 0, 0, 1}) == 1;
  Dims dims = draw_all(op, sizes);
  if (are_equal) {
    const DimInfo& dim = dim_of(op, kept[0]);
    dims.set(std::string(kept[0]), std::clamp(dims.at(kept[1]), dim.min, dim.max));
  }
  make_legal(which.layout, kept.front(), op, dims);
  const bool is_met = meeting.edge != nullptr && meet(meeting, times, more, op, which.dtype, size, dims);
  if (!is_met) limit(op, kept, size, which.dtype, dims);
  if (is_large && !long_axes.empty()) {
    const std::string_view grown = *one_of(std::move(long_axes));
    if (!is_met) grow(op, grown, size, which.dtype, dims);
  }
  return dims;
}

// The same with the path's own sizes. They are kept, so that other dimensions get smaller.
Dims draw_own_dims(const Op& op, const Path& path, const Case& which, const Size& size, Dims dims) {
  constexpr int64_t kMostTimes = 80;
  std::vector<std::string_view> kept;
  for (const OwnSize& own : path.own_sizes) {
    const int64_t times = *rc::gen::inRange<int64_t>(1, kMostTimes + 1);
    dims.set(std::string(own.dim.key), is_short(dim_of(op, own.dim.key)) ? own.size : times * own.size);
    kept.push_back(own.dim.key);
  }
  limit(op, kept, size, which.dtype, dims);
  return dims;
}

// Mostly none, else up to three.
void mix_in_some(Data& data) {
  const bool is_mixed = *one_of<int>({0, 0, 1}) == 1;
  std::vector<std::optional<Ingredient>> choices(4);
  choices.insert(choices.end(), all_ingredients().begin(), all_ingredients().end());
  for (int i = 0; i < 3; ++i) {
    const std::optional<Ingredient> drawn = *one_of(choices);
    if (is_mixed && drawn) data.mix_in(*drawn);
  }
}

// Of its own sizes a path asks what the tensors allow: all dense, or one alone that is not.
Layout draw_layout(bool is_own) {
  using enum Layout;
  std::vector<Layout> layouts(all_layouts().begin(), all_layouts().end());
  layouts.push_back(kMixed);  // twice: paths ask much of several tensors at once
  const Layout usual = *one_of(layouts);
  if (!is_own) return usual;
  return *one_of<Layout>({kDense, kDense, kMixed, kMixed, kMixed, kMixed, kMixed, kMixed, kMixed, usual});
}

Case draw_case(const Op& op, const Path& path, const Size& size, const Sizes& sizes, int most_steps) {
  Case result;
  result.op = op.name;
  result.path = path.name;
  const bool is_large = size.flops == kLargeFlops;
  const bool is_own = !path.own_sizes.empty() && !is_large && *one_of<int>({0, 0, 0, 1, 1}) == 1;
  // The sizes come last. rapidcheck never shrinks a draw again once it has shrunk a later one, and
  // the layout and the data decide what sizes may shrink to.
  result.layout = draw_layout(is_own);
  std::vector<Regime> regimes(all_regimes().begin(), all_regimes().end());
  regimes.push_back(Regime::kNonfinite);  // twice: what it finds may show in one tensor only
  result.data = *one_of(regimes);
  mix_in_some(result.data);
  std::vector<DrawnStep> steps = *arbitrary_steps(op, path, most_steps);
  // A quarter of the cases has low thresholds from the first call on, unless it is large anyway; a
  // quarter is on other schedules, unless it is large and has another step. Inflated tensors have
  // no large dimensions, so most of them have low thresholds.
  enum : int { kLow = 1, kOther = 2 };
  const int more = result.layout == Layout::kInflated
                       ? *one_of<int>({0, kLow, kLow, kLow | kOther})
                       : *one_of<int>({0, 0, 0, 0, 0, 0, 0, kLow, kLow, kOther, kOther, kLow | kOther});
  const bool are_low = (more & kLow) != 0 && !is_large;
  const bool is_other_schedule = (more & kOther) != 0 && (!is_large || steps.empty());
  result.dtype = *one_of(path.dtypes);
  constexpr uint64_t kSeeds = 1'000'000;
  result.seed = *rc::gen::inRange<uint64_t>(0, kSeeds);
  const Dims other_sizes = draw_all(op, sizes);
  result.dims = draw_dims(op, path, result, size, sizes);
  if (is_own) result.dims = draw_own_dims(op, path, result, size, result.dims);
  if (!is_legal(result.layout, op, result.dims)) result.layout = Layout::kDense;
  if (are_low) result.state.steps.push_back({.kind = StepKind::kLowThresholds});
  if (is_other_schedule) result.state.steps.push_back({.kind = StepKind::kOtherSchedule});
  const Size of_steps{.elements = std::min(size.elements, kFuzzElements)};
  for (DrawnStep& step : steps) {
    // One call, not many.
    if (is_large && step.kind == StepKind::kOthersInTurn) step.kind = StepKind::kAfter;
    result.state.steps.push_back(make_step(step, op, path, result, other_sizes, of_steps));
  }
  return result;
}

bool is_axis_of(const std::vector<TensorInfo>& tensors, std::string_view key) {
  return std::ranges::any_of(tensors, [&](const TensorInfo& tensor) {
    const std::vector<std::string_view> axes = axes_of(tensor);
    return std::ranges::count(axes, key) != 0;
  });
}

}  // namespace

bool is_axis(const Op& op, std::string_view key) {
  return is_axis_of(op.inputs, key) || is_axis_of(op.outputs, key);
}

bool is_axis_of_output(const Op& op, std::string_view key) {
  return is_axis_of(op.outputs, key);
}

bool is_summed(const Op& op, const DimInfo& dim) {
  return is_axis(op, dim.key) && !is_axis_of_output(op, dim.key) && !is_short(dim) && !dim.edges.empty();
}

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
    return !inflatable_axes(shape_of(tensor, dims)).empty();
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
      return std::ranges::any_of(op.inputs, is_inflatable) || std::ranges::any_of(op.outputs, is_inflatable);
  }
  throw Error("Layout({}) is not a layout", static_cast<int>(layout));
}

rc::Gen<Case> arbitrary_case(const Op& op, const Path& path, int64_t max_elements) {
  return rc::gen::exec([&op, &path, max_elements, sizes = arbitrary_sizes(op)] {
    constexpr int kMostSteps = 4;
    return draw_case(op, path, {.elements = max_elements}, sizes, kMostSteps);
  });
}

rc::Gen<Case> arbitrary_large_case(const Op& op, const Path& path) {
  return rc::gen::exec([&op, &path, sizes = arbitrary_sizes(op)] {
    // Mostly less than twice the least.
    const auto elements = rc::gen::map(
        rc::gen::tuple(rc::gen::inRange(kLargeElements, 2 * kLargeElements),
                       one_of<int>({0, 0, 0, 0, 1, 1, 2, 3})),
        [](const std::tuple<int64_t, int>& drawn) { return std::get<0>(drawn) << std::get<1>(drawn); });
    const int64_t most =
        *rc::gen::shrink(elements, [](int64_t drawn) { return rc::shrink::towards<int64_t>(drawn, 1); });
    return draw_case(op, path, {.elements = most, .flops = kLargeFlops}, sizes, 1);
  });
}

}  // namespace assay
