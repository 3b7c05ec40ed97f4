// SPDX-License-Identifier: Apache-2.0
#include "properties/core/history.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "kernels/core/printable.h"
#include "properties/core/random.h"
#include "properties/core/untuned_call.h"

namespace assay {
namespace {

constexpr uint64_t kPreviousCall = 0x5EED;  // how the seed of a previous call's data differs
constexpr uint64_t kSizeStream = 3004;
constexpr unsigned char kNanByte = 0xFF;  // a NaN in every dtype; -1 in every integer

template <class Range, class Name>
std::string names_in(const Range& range, Name name) {
  std::vector<std::string> names;
  for (const auto& one : range) names.emplace_back(std::invoke(name, one));
  return fmt::format("{}", fmt::join(names, ", "));
}

// The configuration that a step forces. Throws Error (usage) if the path has no such configuration.
const Config& config_of(const Step& step, const Path& path) {
  if (path.tunables.empty())
    throw usage_error("{}: {} chooses among no configurations", excerpt(step.to_string()), path.name);
  const auto name = [](const Tunable* tunable) { return tunable->name; };
  const auto tunable = std::ranges::find(path.tunables, step.tunable, name);
  if (tunable == path.tunables.end()) {
    throw usage_error("{}: {} has no tunable '{}'; it has {}", excerpt(step.to_string()), path.name,
                      excerpt(step.tunable), names_in(path.tunables, name));
  }
  const Config* config = find_config(**tunable, step.config);
  if (config == nullptr) {
    throw usage_error("{}: {} has no configuration '{}'; it has {}", excerpt(step.to_string()), step.tunable,
                      excerpt(step.config), names_in((*tunable)->configs, &Config::to_string));
  }
  return *config;
}

// The number of the input that a step names. Throws Error (usage) if the op has no such input.
size_t input_of(const Step& step, const Op& op) {
  const auto found = std::ranges::find(op.inputs, step.input, &TensorInfo::name);
  if (found == op.inputs.end()) {
    throw usage_error("{}: {} has no input '{}'; it has {}", excerpt(step.to_string()), op.name,
                      excerpt(step.input), names_in(op.inputs, &TensorInfo::name));
  }
  return static_cast<size_t>(found - op.inputs.begin());
}

void require_sizes(const Op& op, const Dims& dims) {
  require_dims(op, dims);
  for (const auto* tensors : {&op.inputs, &op.outputs}) {
    for (const TensorInfo& tensor : *tensors) element_count(shape_of(tensor, dims));
  }
}

std::optional<std::string> inapplicable(const Step& step, const Path& path) {
  switch (step.kind) {
    case StepKind::kSecondCall:
    case StepKind::kWarm:
    case StepKind::kForced:
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
    case StepKind::kOtherSchedule:
      return std::nullopt;
    case StepKind::kRetuned:
    case StepKind::kCacheLoaded:
      if (!path.tunables.empty()) return std::nullopt;
      return fmt::format("{} chooses among no configurations", path.name);
    case StepKind::kAfter:
      if (std::ranges::count(path.dtypes, step.dtype) != 0) return std::nullopt;
      return fmt::format("after: {} does not serve {}", path.name, name_of(step.dtype));
    case StepKind::kOtherStream:
    case StepKind::kGraphReplay:
      if (path.device == DeviceKind::kCuda) return std::nullopt;
      return fmt::format("a {} has no streams and no graphs", name_of(path.device));
  }
  throw Error("StepKind({}) is not a kind of step", static_cast<int>(step.kind));
}

// A new context with the choices of the old one, saved and loaded. No file may be left by a process
// that ends here.
std::shared_ptr<Context> reloaded(const Problem& problem) {
  auto context = std::make_shared<Context>(problem.device());
  const std::vector<std::string> left_out =
      context->tuner().load_saved(problem.context()->tuner().saved(), "the choices", problem.path().tunables);
  if (!left_out.empty()) throw Error("a choice that was just saved is not loaded: {}", left_out.front());
  return context;
}

// Performs the steps of a state.
class History {
 public:
  History(Problem& problem, const TensorBytes* inputs) : problem_(problem), given_(inputs) {}

  void set_inputs() {
    if (given_ != nullptr) {
      problem_.set_inputs(*given_);
    } else {
      problem_.draw_inputs(problem_.which().seed);
    }
  }

  // Returns what the step's call computed wrongly.
  std::optional<WrongStep> perform(const Step& step) {
    problem_.begin(fmt::format("step {} of the state: {}", ++number_, step.to_string()));
    Tuner& tuner = problem_.context()->tuner();
    switch (step.kind) {
      case StepKind::kSecondCall:
        return call_on_other_data();
      case StepKind::kWarm:
        set_inputs();
        return call(problem_);
      case StepKind::kForced:
        forced_.push_back(step);
        force(step);
        return std::nullopt;
      case StepKind::kRetuned: {
        auto wrong = call_on_other_data();
        tuner.forget();
        return wrong;
      }
      case StepKind::kCacheLoaded: {
        auto wrong = call_on_other_data();
        problem_.set_context(reloaded(problem_));
        for (const Step& forced : forced_) force(forced);
        return wrong;
      }
      case StepKind::kAfter:
        return call_other_problem(step);
      case StepKind::kOthersInTurn:
        return call_others_in_turn();
      case StepKind::kDirtyWorkspace: {
        auto wrong = call_on_other_data();
        Device& device = problem_.device();
        problem_.context()->workspace().for_each(
            [&](void* data, int64_t bytes) { device.fill(data, kNanByte, bytes, device.stream()); });
        device.synchronize();
        return wrong;
      }
      case StepKind::kOtherStream:
        draw_other_data();
        return call_directly(problem_.device().other_stream());
      case StepKind::kWeightsUpdated:
        set_inputs();
        problem_.draw_inputs(other_seed(), 1);
        return call(problem_);
      case StepKind::kWeightUpdated:
        set_inputs();
        problem_.draw_input(other_seed(), input_of(step, problem_.op()));
        return call(problem_);
      case StepKind::kWeightsUpdatedInTurn:
        return update_in_turn();
      case StepKind::kWeightsReplaced:
        return call_on_other_tensors(std::nullopt, [&] { draw_other_data(); });
      case StepKind::kWeightsMoved:
        return call_on_other_tensors(std::nullopt, [&] { set_inputs(); });
      case StepKind::kWeightMoved:
        return call_on_other_tensors(input_of(step, problem_.op()), [&] { set_inputs(); });
      case StepKind::kWeightsReallocated: {
        problem_.swap_memory_of_inputs();
        draw_other_data();
        auto wrong = call_directly(problem_.device().stream());
        problem_.swap_memory_of_inputs();
        return wrong;
      }
      case StepKind::kGraphReplay: {
        problem_.release_graph();  // a replay allocates nothing that a capture needs
        auto wrong = call_on_other_data();
        problem_.capture();
        return wrong;
      }
      case StepKind::kLowThresholds:
        problem_.lower_thresholds();
        return std::nullopt;
      case StepKind::kOtherSchedule:  // run_path() does it
        return std::nullopt;
    }
    throw Error("StepKind({}) is not a kind of step", static_cast<int>(step.kind));
  }

 private:
  uint64_t other_seed() const { return problem_.which().seed ^ kPreviousCall * number_; }
  void draw_other_data() { problem_.draw_inputs(other_seed()); }

  void force(const Step& step) {
    problem_.context()->tuner().force(step.tunable, config_of(step, problem_.path()));
  }

  // Makes the tensors of a step.
  void allocate(const std::function<void()>& make) const {
    try {
      make();
    } catch (const OutOfMemory& error) {
      throw StepIsImpossible(number_, error.what());
    }
  }

  // With one input in another tensor, or with all.
  std::optional<WrongStep> call_on_other_tensors(std::optional<size_t> input,
                                                 const std::function<void()>& fill) {
    allocate([&] { problem_.swap_inputs(input); });
    fill();
    auto wrong = call_directly(problem_.device().stream());
    problem_.swap_inputs(input);
    problem_.poison_other_inputs();
    return wrong;
  }

  // On ordinary data, in which each input matters: with subnormal weights or with NaNs in x, a call
  // on the values before may give the same bits.
  std::optional<WrongStep> update_in_turn() {
    const size_t inputs = problem_.op().inputs.size();
    for (size_t input = 0; input < inputs; ++input)
      problem_.draw_input(~other_seed(), input, Regime::kNormal);
    auto wrong = call(problem_);
    for (size_t input = 1; input < inputs && !wrong; ++input) {
      problem_.draw_input(other_seed(), input, Regime::kNormal);
      wrong = call(problem_);
    }
    return wrong;
  }

  std::optional<WrongStep> call_on_other_data() {
    draw_other_data();
    return call(problem_);
  }

  std::optional<WrongStep> call_other_problem(const Step& step) {
    Case other = problem_.which();
    other.dtype = step.dtype;
    other.dims = step.dims;
    other.layout = step.layout;
    other.state = {};
    std::optional<Problem> before;
    allocate([&] {
      before.emplace(problem_.op(), problem_.path(), other, problem_.device(), problem_.context());
    });
    before->draw_inputs(other_seed());
    before->poison_outputs(Poison::kNan);
    try {
      before->run();
    } catch (const Error& error) {
      if (error.kind() != Error::Kind::kUnsupported) throw;
      problem_.device().synchronize();  // work enqueued before uses tensors that are freed now
      return std::nullopt;
    }
    return compare(*before);
  }

  std::optional<WrongStep> call_others_in_turn() {
    const Case& which = problem_.which();
    const Step same{
        .kind = StepKind::kAfter, .dtype = which.dtype, .dims = which.dims, .layout = which.layout};
    std::vector<Step> others;
    for (const DimInfo& dim : problem_.op().dims) {
      others.push_back(same);
      others.back().dims.set(std::string(dim.key), other_size(dim));
    }
    for (DType dtype : problem_.path().dtypes) {
      others.push_back(same);
      others.back().dtype = dtype;
    }
    for (const Step& other : others) {
      if (other == same) continue;
      if (auto wrong = call_other_problem(other)) {
        wrong->reason += fmt::format("; the call is {}", other.to_string());
        return wrong;
      }
    }
    return std::nullopt;
  }

  // A legal size near that of the case, by its seed; the same if there is no other.
  int64_t other_size(const DimInfo& dim) const {
    const int64_t size = problem_.which().dims.at(dim.key);
    std::vector<int64_t> sizes{size - 1, size + 1, size / 2, size * 2};
    std::erase_if(sizes, [&](int64_t other) { return other < dim.min || other > dim.max || other == size; });
    if (sizes.empty()) return size;
    const uint64_t bits = CounterRandom(other_seed(), kSizeStream).bits(static_cast<uint64_t>(size));
    return sizes[bits % sizes.size()];
  }

  std::optional<WrongStep> call_directly(void* stream) {
    problem_.poison_outputs(Poison::kNan);
    problem_.run_directly(stream);
    return compare(problem_);
  }

  std::optional<WrongStep> call(Problem& problem) {
    problem.poison_outputs(Poison::kNan);
    problem.run();
    return compare(problem);
  }

  // Compares with an untuned call in a new context. The first call of the first step is not
  // compared: it is such a call itself, apart from tuning.
  std::optional<WrongStep> compare(Problem& problem) {
    const bool is_first = !std::exchange(has_called_, true) && number_ == 1;
    if (!problem.path().deterministic || is_first) return std::nullopt;
    TensorBytes got = problem.outputs();
    TensorBytes untuned = outputs_of_untuned_call(problem);
    for (size_t i = 0; i < got.size(); ++i) {
      problem.output_tensors()[i].scatter(got[i]);
      problem.output_tensors()[i].upload();
    }
    const auto difference = first_difference(problem, got, untuned);
    if (!difference) return std::nullopt;
    WrongStep wrong{
        fmt::format("the call of step {} of the state gave another result: {}", number_, *difference),
        evidence_for(problem)};
    if (!wrong.evidence.left_out.empty()) return wrong;
    const Op& op = problem.op();
    const Case& which = problem.which();
    wrong.evidence.add(named(op.inputs, which, problem.inputs(), kOfStep));
    wrong.evidence.add(named(op.outputs, which, std::move(got), kOfStep));
    wrong.evidence.add_differing(
        named(op.outputs, which, std::move(untuned), fmt::format("{}{}", kOfStep, kUntunedCall)));
    return wrong;
  }

  Problem& problem_;
  const TensorBytes* given_;
  uint64_t number_ = 0;  // steps begun so far
  bool has_called_ = false;
  std::vector<Step> forced_;  // so far
};

}  // namespace

void require_state(const State& state, const Op& op, const Path& path) {
  for (const Step& step : state.steps) {
    if (step.kind == StepKind::kForced) config_of(step, path);
    if (names_input(step.kind)) input_of(step, op);
    if (step.kind != StepKind::kAfter) continue;
    try {
      require_sizes(op, step.dims);
    } catch (const Error& error) {
      throw usage_error("{}: {}", excerpt(step.to_string()), error.what());
    }
  }
}

std::optional<std::string> inapplicable(const State& state, const Path& path) {
  for (const Step& step : state.steps) {
    if (auto why = inapplicable(step, path)) return why;
  }
  return std::nullopt;
}

std::optional<WrongStep> prepare(Problem& problem, const TensorBytes* inputs) {
  History history(problem, inputs);
  const std::vector<Step>& steps = problem.which().state.steps;
  problem.poison_outputs(Poison::kNan);
  std::optional<WrongStep> wrong;
  for (size_t i = 0; i < steps.size() && !wrong; ++i) wrong = history.perform(steps[i]);
  problem.begin("the preparation of the inputs");
  history.set_inputs();
  if (!problem.which().state.ends_with(StepKind::kSecondCall)) problem.poison_outputs(Poison::kNan);
  return wrong;
}

}  // namespace assay
