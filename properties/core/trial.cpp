// SPDX-License-Identifier: Apache-2.0
#include "properties/core/trial.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "properties/core/generate.h"
#include "properties/core/precheck.h"
#include "properties/core/problem.h"

namespace assay {
namespace {

constexpr uint64_t kCaseStream = 4001;          // of a trial on a case
constexpr uint64_t kOthersLane = 1 << 21;       // of seeds for other inputs of a case
constexpr uint64_t kChoiceLane = 64;            // beyond the lanes for dtype and sizes
constexpr uint64_t kPermutationLane = 1 << 20;  // beyond the lanes that laws ask for
constexpr uint64_t kConfigLane = uint64_t{1} << 40;

uint64_t number(const CounterRandom& random, uint64_t lane, int64_t below) {
  return random.bits(0, lane) % static_cast<uint64_t>(below);
}

// A short dimension takes each of its sizes in turn, since paths may have code for each. Half of
// the other sizes are multiples of 8, since paths may have code for rows of whole vectors.
int64_t any_size(const CounterRandom& random, uint64_t lane, const Op& op, const DimInfo& dim,
                 const Dims& largest, uint64_t seed) {
  if (is_short(dim)) {
    const uint64_t turn = seed % static_cast<uint64_t>(dim.max);
    return std::max<int64_t>(dim.min, 1 + static_cast<int64_t>(turn));
  }
  if (is_summed(op, dim)) {
    const int64_t step = dim.edges.front();
    return step *
           (1 + static_cast<int64_t>(number(random, lane, std::max<int64_t>(largest.at(dim.key) / step, 1))));
  }
  constexpr int64_t kVector = 8;
  const int64_t size = 1 + static_cast<int64_t>(number(random, lane, largest.at(dim.key)));
  return size > kVector && number(random, lane + 1, 2) == 0 ? size / kVector * kVector : size;
}

std::vector<std::byte> encode(const std::vector<double>& values, DType dtype) {
  return visit(dtype, [&]<class T>(std::type_identity<T>) {
    std::vector<std::byte> bytes(values.size() * sizeof(T));
    for (size_t i = 0; i < values.size(); ++i) {
      const T stored = from_double<T>(values[i]);
      std::memcpy(&bytes[i * sizeof(T)], &stored, sizeof(T));
    }
    return bytes;
  });
}

std::vector<double> decode(const std::vector<std::byte>& bytes, DType dtype) {
  return visit(dtype, [&]<class T>(std::type_identity<T>) {
    std::vector<double> values(bytes.size() / sizeof(T));
    for (size_t i = 0; i < values.size(); ++i) {
      T stored;
      std::memcpy(&stored, &bytes[i * sizeof(T)], sizeof(T));
      values[i] = to_double(stored);
    }
    return values;
  });
}

Layout layout_for_any_tensors(Layout layout) {
  return layout == Layout::kBroadcast || layout == Layout::kInflated ? Layout::kDense : layout;
}

}  // namespace

Values values_of(const std::vector<TensorInfo>& tensors, const Case& which, const TensorBytes& bytes) {
  Values values{.tensors = &tensors, .dims = which.dims, .shapes = {}, .elements = {}};
  for (size_t i = 0; i < tensors.size(); ++i) {
    values.shapes.push_back(shape_of(tensors[i], which.dims));
    values.elements.push_back(decode(bytes[i], tensors[i].dtype.value_or(which.dtype)));
  }
  return values;
}

TensorBytes bytes_of(const Values& values, DType dtype) {
  TensorBytes bytes;
  for (size_t i = 0; i < values.elements.size(); ++i)
    bytes.push_back(encode(values.elements[i], (*values.tensors)[i].dtype.value_or(dtype)));
  return bytes;
}

Trial::Trial(const Problem& problem)
    : op(problem.op()),
      path(problem.path()),
      device(problem.device()),
      random(problem.which().seed, kCaseStream),
      which(problem.which()),
      inputs(std::make_shared<Values>(values_of(op.inputs, which, problem.inputs()))),
      context(std::make_shared<Context>(device)) {
  which.layout = layout_for_any_tensors(which.layout);
  which.state = {};
  context->tuner().allow_trials(false, random.bits(kConfigLane));
}

Trial::Trial(const Op& op_, const Path& path_, Device& device_, const Dims& largest, uint64_t seed)
    : op(op_), path(path_), device(device_), random(seed, 0) {
  which.op = op.name;
  which.path = path.name;
  which.dtype = path.dtypes[number(random, 0, static_cast<int64_t>(path.dtypes.size()))];
  which.seed = seed;
  uint64_t lane = 1;
  for (const DimInfo& dim : op.dims) {
    which.dims.set(dim.key, any_size(random, lane, op, dim, largest, seed));
    lane += 2;
  }
}

Trial Trial::on(const Op& other_op, const Path& other_path) const {
  Trial other(other_op, other_path, device, which.dims, which.seed);
  other.which.dtype = which.dtype;
  other.which.dims = which.dims;
  other.which.layout = which.layout;
  other.context = context;
  return other;
}

size_t Trial::place_of(Input input) const {
  if (input < op.inputs.size() && op.inputs[input].name == input.name) return input;
  throw Error("{} has no input '{}' in place {}", op.name, input.name, input.place);
}

int64_t Trial::choice(int64_t below, uint64_t lane) const {
  return static_cast<int64_t>(number(random, kChoiceLane + lane, below));
}

std::vector<int64_t> Trial::permutation(int64_t count) const {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[number(random, kPermutationLane + i, static_cast<int64_t>(i))]);
  }
  return order;
}

double Values::at(size_t tensor, const Extents& index) const {
  const Extents& shape = shapes[tensor];
  int64_t position = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) position = position * shape[axis] + index[axis];
  return elements[tensor][static_cast<size_t>(position)];
}

Values build(const std::vector<TensorInfo>& tensors, const Dims& dims, const Element& element) {
  Values built{.tensors = &tensors, .dims = dims, .shapes = {}, .elements = {}};
  for (size_t tensor = 0; tensor < tensors.size(); ++tensor) {
    const Extents shape = shape_of(tensors[tensor], dims);
    std::vector<double> values;
    for (int64_t i = 0; i < element_count(shape); ++i) values.push_back(element(tensor, index_of(i, shape)));
    built.shapes.push_back(shape);
    built.elements.push_back(std::move(values));
  }
  return built;
}

Values draw(const Trial& trial, uint64_t lane) {
  if (trial.inputs != nullptr && lane == 0) return *trial.inputs;
  if (trial.inputs != nullptr) {
    Problem others(trial.op, trial.path, trial.which, trial.device, trial.context);
    others.only_hold_inputs();
    others.draw_inputs(trial.random.bits(0, kOthersLane + lane));
    return values_of(trial.op.inputs, trial.which, others.inputs());
  }
  return draw_ordinary(trial, trial.which.dims, lane);
}

Values draw_ordinary(const Trial& trial, const Dims& dims, uint64_t lane) {
  uint64_t counter = 0;
  return build(trial.op.inputs, dims, [&](size_t tensor, const Extents&) {
    const double size = 0.5 + 1.5 * trial.random.uniform(++counter, lane);
    const double value = trial.random.bits(counter, lane + 1) % 2 == 0 ? size : -size;
    const DType dtype = trial.op.inputs[tensor].dtype.value_or(trial.which.dtype);
    return decode(encode({value}, dtype), dtype)[0];
  });
}

Values draw_integers(const Trial& trial, uint64_t lane) {
  uint64_t counter = 0;
  return build(trial.op.inputs, trial.which.dims, [&](size_t, const Extents&) {
    return static_cast<double>(trial.random.bits(++counter, lane) % 5) - 2;
  });
}

Values rearranged(const Values& values, const Place& place) {
  return build(*values.tensors, values.dims,
               [&](size_t tensor, const Extents& index) { return values.at(tensor, place(tensor, index)); });
}

Values changed(const Values& values, const Where& where, const Element& element) {
  return build(*values.tensors, values.dims, [&](size_t tensor, const Extents& index) {
    return where(tensor, index) ? element(tensor, index) : values.at(tensor, index);
  });
}

Values mixed(const Values& values, const Values& others, const Where& from_others) {
  return changed(values, from_others,
                 [&](size_t tensor, const Extents& index) { return others.at(tensor, index); });
}

Values positive_zeros(Values values) {
  for (auto& tensor : values.elements) {
    for (double& value : tensor) value += 0.0;
  }
  return values;
}

Values compute(const Trial& trial, const Values& inputs, const std::function<void(Call&)>& edit) {
  Case which = trial.which;
  which.dims = inputs.dims;
  Problem problem(trial.op, trial.path, which, trial.device, trial.context);
  Call call = problem.call();
  problem.set_inputs(bytes_of(inputs, which.dtype));
  problem.poison_outputs(Poison::kNan);
  if (edit) edit(call);
  problem.call_path(call);
  trial.device.synchronize();

  for (GuardedTensor& output : problem.output_tensors()) output.download();
  return values_of(trial.op.outputs, which, problem.outputs());
}

Violation differs(const Trial& trial, const Values& got, const Values& want, const Source& source) {
  for (size_t output = 0; output < got.elements.size(); ++output) {
    const std::string_view name = (*got.tensors)[output].name;
    for (size_t i = 0; i < got.elements[output].size(); ++i) {
      const Extents index = index_of(static_cast<int64_t>(i), got.shapes[output]);
      const std::optional<Extents> from = source(output, index);
      if (!from) continue;
      const double is = got.elements[output][i];
      const double must = want.at(output, *from);
      if (std::bit_cast<uint64_t>(is) == std::bit_cast<uint64_t>(must)) continue;
      if (std::isnan(is) && std::isnan(must)) continue;
      return fmt::format("{}{} is {}, but {}{} of the related problem is {}: {}", name, index.to_string(), is,
                         name, from->to_string(), must, trial.which.to_string());
    }
  }
  return std::nullopt;
}

Violation differs(const Trial& trial, const Values& got, const Values& want) {
  return differs(trial, got, want, [](size_t, const Extents& index) { return index; });
}

Law make_law(std::string_view op, const Dims& largest, std::string_view name, std::string_view statement,
             Check check, On on) {
  return {
      .op = op,
      .name = name,
      .statement = statement,
      .violation =
          [largest, check](const Op& of, const Path& path, Device& device, uint64_t seed) {
            const Trial trial(of, path, device, largest, seed);
            const bool is_served = !ask_path(path, trial.which.dims, trial.which.dtype).verdict;
            return is_served ? check(trial) : std::nullopt;
          },
      .violation_by = [check = std::move(check)](const Problem& problem) { return check(Trial(problem)); },
      .is_universal = on == On::kAnyData};
}

}  // namespace assay
