// SPDX-License-Identifier: Apache-2.0
#include "properties/core/generate_steps.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "properties/core/one_of.h"

namespace assay {
namespace {

// How the problem of an earlier call differs from the judged one.
constexpr int64_t kOtherDType = -1;  // in its dtype only
// In every size and the dtype. A number from 0 on: in the size of that dimension only.
constexpr int64_t kAllOther = -2;
constexpr int64_t kOtherLayout = -3;  // in how the tensors lie in memory only

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
      case StepKind::kOthersInTurn:
      case StepKind::kDirtyWorkspace:
      case StepKind::kWeightsUpdated:
      case StepKind::kWeightUpdated:
      case StepKind::kWeightsUpdatedInTurn:
      case StepKind::kWeightsReplaced:
      case StepKind::kWeightsMoved:
      case StepKind::kWeightMoved:
      case StepKind::kWeightsReallocated:
      case StepKind::kLowThresholds:
        return false;
      case StepKind::kOtherSchedule:  // drawn apart
        return true;
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

// Dimensions that are no axis are drawn more often: a key easily forgets what is in no shape.
std::vector<int64_t> ways_to_differ(const Op& op) {
  std::vector<int64_t> ways{kOtherDType, kOtherDType, kOtherLayout, kOtherLayout, kAllOther};
  for (size_t i = 0; i < op.dims.size(); ++i) {
    ways.insert(ways.end(), is_axis(op, op.dims[i].key) ? 2 : 3, static_cast<int64_t>(i));
  }
  return ways;
}

}  // namespace

rc::Gen<std::vector<DrawnStep>> arbitrary_steps(const Op& op, const Path& path, int most) {
  std::vector<StepKind> kinds = legal_steps(path);
  kinds.insert(kinds.end(), 5, StepKind::kAfter);
  // Of several things or weights, one at a time.
  kinds.insert(kinds.end(), {StepKind::kOthersInTurn, StepKind::kOthersInTurn,
                             StepKind::kWeightsUpdatedInTurn, StepKind::kWeightMoved});
  const auto weights = static_cast<int64_t>(op.inputs.size()) - 1;
  const auto step = rc::gen::resize(
      rc::kNominalSize,
      rc::gen::map(rc::gen::tuple(one_of(std::move(kinds)),
                                  rc::gen::inRange<int64_t>(0, std::max<int64_t>(count_configs(path), 1)),
                                  rc::gen::inRange<int64_t>(0, std::max<int64_t>(weights, 1)),
                                  one_of(ways_to_differ(op)), one_of(path.dtypes),
                                  one_of(std::vector(all_layouts().begin(), all_layouts().end()))),
                   [](const std::tuple<StepKind, int64_t, int64_t, int64_t, DType, Layout>& drawn) {
                     return std::apply([](auto... field) { return DrawnStep{field...}; }, drawn);
                   }));
  return rc::gen::weightedOneOf<std::vector<DrawnStep>>(
      {{2, rc::gen::just(std::vector<DrawnStep>())},
       {3, rc::gen::resize(most, rc::gen::container<std::vector<DrawnStep>>(step))}});
}

Step make_step(const DrawnStep& drawn, const Op& op, const Path& path, const Case& which,
               const Dims& other_sizes, const Size& size) {
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
  if (names_input(step.kind)) {
    const size_t number = std::min(static_cast<size_t>(drawn.input) + 1, op.inputs.size() - 1);
    step.input = op.inputs[number].name;
  }
  if (step.kind == StepKind::kAfter) {
    const bool is_all = drawn.changed == kAllOther;
    step.dtype = is_all || drawn.changed == kOtherDType ? drawn.dtype : which.dtype;
    step.dims = which.dims;
    step.layout = is_all || drawn.changed == kOtherLayout ? drawn.layout : which.layout;
    for (size_t i = 0; i < op.dims.size(); ++i) {
      const std::string key(op.dims[i].key);
      if (is_all || drawn.changed == static_cast<int64_t>(i)) step.dims.set(key, other_sizes.at(key));
    }
    limit(op, {}, size, step.dtype, step.dims);
  }
  return step;
}

}  // namespace assay
