// SPDX-License-Identifier: Apache-2.0
#include "properties/core/generate.h"

#include <algorithm>
#include <tuple>
#include <vector>

namespace assay {
namespace {

constexpr int64_t kLongestInflated = 2;  // two slices show every wrapped offset

// One of the values. It shrinks toward the first, which rapidcheck's elementOf does not.
template <class T>
rc::Gen<T> one_of(std::vector<T> values) {
  const auto count = static_cast<int64_t>(values.size());
  return rc::gen::map(rc::gen::inRange<int64_t>(0, count),
                      [values = std::move(values)](int64_t i) { return values[static_cast<size_t>(i)]; });
}

// Any size of a short dimension. Else mostly a small size or one beside an edge. Rarely the
// smallest, which may be 0: an empty case shows little. If every path serves multiples of some
// size, often such a multiple.
rc::Gen<int64_t> arbitrary_size(const Op& op, const DimInfo& dim) {
  constexpr int64_t kSmall = 12;
  const int64_t one = std::max<int64_t>(dim.min, 1);
  const auto small =
      is_short(dim) ? rc::gen::inRange(dim.min, dim.max + 1) : rc::gen::inRange(one, one + kSmall + 1);
  std::vector<int64_t> sizes{one};
  for (int64_t edge : dim.edges) {
    for (int64_t size : {edge - 1, edge, edge + 1}) sizes.push_back(size);
  }
  std::erase_if(sizes, [&](int64_t size) { return size < one || size > dim.max; });
  std::ranges::sort(sizes);
  const auto repeated = std::ranges::unique(sizes);
  sizes.erase(repeated.begin(), repeated.end());
  std::vector<int64_t> multiples{one};
  for (int64_t count = 1; count <= 5 && is_summed(op, dim); ++count)
    multiples.push_back(count * dim.edges.front());
  return rc::gen::weightedOneOf<int64_t>({{1, rc::gen::just(dim.min)},
                                          {60, small},
                                          {dim.edges.empty() ? 0 : 60, one_of(std::move(sizes))},
                                          {is_summed(op, dim) ? 125 : 0, one_of(std::move(multiples))}});
}

// Sets the outermost dimension of every tensor to a size that the layout asks for. is_legal() tells
// whether that was enough.
void make_legal(Layout layout, const Op& op, Dims& dims) {
  if (layout != Layout::kInflated && layout != Layout::kBroadcast) return;
  for (const auto* tensors : {&op.inputs, &op.outputs}) {
    for (const TensorInfo& tensor : *tensors) {
      const std::string_view outermost = axes_of(tensor).front();
      if (!dims.contains(outermost)) continue;
      dims.set(outermost,
               layout == Layout::kInflated ? kLongestInflated : std::max<int64_t>(dims.at(outermost), 2));
    }
  }
}

// Halves the largest dimension until the largest tensor is small enough or all dimensions are 0.
// `kept` is halved only after all others, so that an edge that was drawn survives.
void limit(const Op& op, std::string_view kept, int64_t max_elements, Dims& dims) {
  while (largest_tensor(op, dims) > max_elements) {
    const auto weight = [&](const auto& dim) {
      return !is_axis(op, dim.first) || dim.second == 0 ? 0 : dim.first == kept ? 1 : dim.second;
    };
    const auto largest = std::ranges::max_element(dims.values(), {}, weight);
    if (largest == dims.values().end() || weight(*largest) == 0) return;
    dims.set(std::string(largest->first), largest->second / 2);
  }
}

// How the problem of an earlier call differs from the judged one.
constexpr int64_t kOtherDType = -1;  // in its dtype only
// In every size and the dtype. A number from 0 on: in the size of that dimension only.
constexpr int64_t kAllOther = -2;

// What a step of a state is made from. The sizes of the case are drawn later.
struct DrawnStep {
  StepKind kind;
  int64_t config;   // kForced: a number among all configurations of the path
  int64_t input;    // kWeightUpdated: a number among the inputs after the first
  int64_t changed;  // kAfter
  DType dtype;      // kAfter
};

std::vector<StepKind> legal_steps(const Path& path) {
  std::vector<StepKind> kinds(all_steps().begin(), all_steps().end());
  std::erase_if(kinds, [&](StepKind kind) {
    switch (kind) {
      case StepKind::kForced:
      case StepKind::kRetuned:
      case StepKind::kCacheLoaded:
        return path.tunables.empty();
      case StepKind::kOtherStream:
      case StepKind::kGraphReplay:
        return path.device != DeviceKind::kCuda;
      case StepKind::kSecondCall:
      case StepKind::kWarm:
      case StepKind::kAfter:
      case StepKind::kDirtyWorkspace:
      case StepKind::kWeightsUpdated:
      case StepKind::kWeightUpdated:
      case StepKind::kWeightsReplaced:
      case StepKind::kWeightsMoved:
      case StepKind::kWeightsReallocated:
        return false;
    }
    throw Error("StepKind({}) is not a kind of step", static_cast<int>(kind));
  });
  return kinds;
}

int64_t count_configs(const Path& path) {
  int64_t count = 0;
  for (const Tunable* tunable : path.tunables) count += static_cast<int64_t>(tunable->configs.size());
  return count;
}

// Dimensions that are no axis, and the dtype, are drawn more often: a tuner's key easily forgets
// what is in no shape.
std::vector<int64_t> ways_to_differ(const Op& op) {
  std::vector<int64_t> ways{kOtherDType, kOtherDType, kOtherDType, kAllOther};
  for (size_t i = 0; i < op.dims.size(); ++i) {
    ways.insert(ways.end(), is_axis(op, op.dims[i].key) ? 1 : 3, static_cast<int64_t>(i));
  }
  return ways;
}

// None, or up to kMostSteps.
rc::Gen<std::vector<DrawnStep>> arbitrary_steps(const Op& op, const Path& path) {
  constexpr int kMostSteps = 4;
  std::vector<StepKind> kinds = legal_steps(path);
  kinds.insert(kinds.end(), 5, StepKind::kAfter);
  kinds.push_back(StepKind::kWeightUpdated);  // of several weights, one at a time
  const auto weights = static_cast<int64_t>(op.inputs.size()) - 1;
  const auto step = rc::gen::resize(
      rc::kNominalSize,
      rc::gen::map(rc::gen::tuple(one_of(std::move(kinds)),
                                  rc::gen::inRange<int64_t>(0, std::max<int64_t>(count_configs(path), 1)),
                                  rc::gen::inRange<int64_t>(0, std::max<int64_t>(weights, 1)),
                                  one_of(ways_to_differ(op)), one_of(path.dtypes)),
                   [](const std::tuple<StepKind, int64_t, int64_t, int64_t, DType>& drawn) {
                     return std::apply([](auto... field) { return DrawnStep{field...}; }, drawn);
                   }));
  return rc::gen::weightedOneOf<std::vector<DrawnStep>>(
      {{2, rc::gen::just(std::vector<DrawnStep>())},
       {3, rc::gen::resize(kMostSteps, rc::gen::container<std::vector<DrawnStep>>(step))}});
}

Step make_step(const DrawnStep& drawn, const Op& op, const Path& path, const Case& which,
               const Dims& other_sizes, int64_t max_elements) {
  Step step{.kind = drawn.kind};
  if (step.kind == StepKind::kForced) {
    int64_t number = drawn.config;
    for (const Tunable* tunable : path.tunables) {
      const auto count = static_cast<int64_t>(tunable->configs.size());
      if (number >= 0 && number < count) {
        step.tunable = tunable->name;
        step.config = tunable->configs[static_cast<size_t>(number)].to_string();
      }
      number -= count;
    }
  }
  if (step.kind == StepKind::kWeightUpdated) {
    const size_t number = std::min(static_cast<size_t>(drawn.input) + 1, op.inputs.size() - 1);
    step.input = op.inputs[number].name;
  }
  if (step.kind == StepKind::kAfter) {
    const bool is_all = drawn.changed == kAllOther;
    step.dtype = is_all || drawn.changed == kOtherDType ? drawn.dtype : which.dtype;
    step.dims = which.dims;
    for (size_t i = 0; i < op.dims.size(); ++i) {
      const std::string key(op.dims[i].key);
      if (is_all || drawn.changed == static_cast<int64_t>(i)) step.dims.set(key, other_sizes.at(key));
    }
    limit(op, "", max_elements, step.dims);
  }
  return step;
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

rc::Gen<Case> arbitrary_case(const Op& op, const Path& path, int64_t max_elements) {
  return rc::gen::exec([&op, &path, max_elements] {
    Case result;
    result.op = op.name;
    result.path = path.name;
    // The sizes come last. rapidcheck never shrinks a draw again once it has shrunk a later one,
    // and the layout and the data decide what sizes may shrink to.
    const auto layouts = all_layouts();
    result.layout = *one_of(std::vector(layouts.begin(), layouts.end()));
    std::vector<Regime> regimes(all_regimes().begin(), all_regimes().end());
    regimes.push_back(Regime::kNonfinite);  // twice: what it finds may show in one tensor only
    result.data = *one_of(regimes);
    const std::vector<DrawnStep> steps = *arbitrary_steps(op, path);
    result.dtype = *one_of(path.dtypes);
    constexpr uint64_t kSeeds = 1'000'000;
    result.seed = *rc::gen::inRange<uint64_t>(0, kSeeds);
    std::vector<std::string_view> keys;
    for (const DimInfo& dim : op.dims) keys.push_back(dim.key);
    const std::string_view kept = *one_of(keys);
    Dims other_sizes;
    for (const DimInfo& dim : op.dims) other_sizes.set(std::string(dim.key), *arbitrary_size(op, dim));
    for (const DimInfo& dim : op.dims) result.dims.set(std::string(dim.key), *arbitrary_size(op, dim));
    make_legal(result.layout, op, result.dims);
    limit(op, kept, max_elements, result.dims);
    if (!is_legal(result.layout, op, result.dims)) result.layout = Layout::kDense;
    for (const DrawnStep& step : steps) {
      result.state.steps.push_back(make_step(step, op, path, result, other_sizes, max_elements));
    }
    return result;
  });
}

}  // namespace assay
