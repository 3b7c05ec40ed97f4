// SPDX-License-Identifier: Apache-2.0
// Laws of dynamic_conv and its gradient: relations between outputs that hold to the bit for every path,
// because the contract fixes the order of the sums. They need no oracle, so no error of the oracle can hide
// in them.
//
// Values are +-[0.5, 2) rounded to the dtype, far from overflow and underflow. All products are multiples of
// 2^-22 (f16), so sums keep every bit of theirs when they are scaled up by a power of two.
#include "kernels/dynamic_conv/dynamic_conv.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "properties/core/problem.h"
#include "properties/core/random.h"
#include "properties/core/specimen.h"

namespace assay::dynamic_conv {
namespace {

// Dense tensors as doubles, in the order of the op's table.
using Values = std::vector<std::vector<double>>;
using Violation = std::optional<std::string>;

// Something to compute: a path and a problem, and random numbers to build it from.
struct Trial {
  const Op& op;
  const Path& path;
  Device& device;
  CounterRandom random;
  Case which;

  Trial(const Op& op_, const Path& path_, Device& device_, uint64_t seed)
      : op(op_), path(path_), device(device_), random(seed, 0) {
    which.op = op.name;
    which.path = path.name;
    which.dtype = path.dtypes[pick(0, path.dtypes.size())];
    which.dims = {
        {"b", 1 + number(1, 3)}, {"t", 1 + number(2, 40)}, {"d", 1 + number(3, 40)}, {"w", 1 + number(4, 8)}};
    which.seed = seed;
  }

  // Small numbers for the shape of the trial, one for each `lane`.
  int64_t number(uint64_t lane, int64_t below) const {
    return static_cast<int64_t>(random.bits(0, lane) % static_cast<uint64_t>(below));
  }
  size_t pick(uint64_t lane, size_t below) const {
    return static_cast<size_t>(number(lane, static_cast<int64_t>(below)));
  }
  bool is_gradient() const { return op.name == "dynamic_conv_grad"; }
  size_t x() const { return is_gradient() ? 1 : 0; }
  size_t k() const { return is_gradient() ? 2 : 1; }
  int64_t time() const { return which.dims["t"]; }
};

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

Values compute(const Op& op, const Path& path, Device& device, const Case& which, const Values& inputs) {
  Problem problem(op, path, which, device);
  TensorBytes bytes;
  for (const auto& input : inputs) bytes.push_back(encode(input, which.dtype));
  problem.set_inputs(bytes);
  problem.poison_outputs(Poison::kNan);
  problem.run();
  Values outputs;
  for (const auto& output : problem.outputs()) outputs.push_back(decode(output, which.dtype));
  return outputs;
}

Values compute(const Trial& trial, const Values& inputs) {
  return compute(trial.op, trial.path, trial.device, trial.which, inputs);
}

// Tensors of the table `tensors`, element by element from value(tensor, index).
template <class Value>
Values build(const std::vector<TensorInfo>& tensors, const Dims& dims, const Value& value) {
  Values built(tensors.size());
  for (size_t tensor = 0; tensor < tensors.size(); ++tensor) {
    const Extents shape = shape_of(tensors[tensor], dims);
    for (int64_t i = 0; i < element_count(shape); ++i)
      built[tensor].push_back(value(tensor, index_of(i, shape)));
  }
  return built;
}

double at(const Values& values, size_t tensor, const Extents& index, const std::vector<TensorInfo>& tensors,
          const Dims& dims) {
  const Extents strides = dense_strides(shape_of(tensors[tensor], dims));
  return values[tensor][static_cast<size_t>(offset_of(index, strides))];
}

// Inputs of the trial's shape. Another `lane` gives other values.
Values draw(const Trial& trial, uint64_t lane = 0) {
  uint64_t counter = 0;
  return build(trial.op.inputs, trial.which.dims, [&](size_t, const Extents&) {
    const double size = 0.5 + 1.5 * trial.random.uniform(++counter, lane);
    const double sign = trial.random.bits(counter, lane + 1) % 2 == 0 ? 1 : -1;
    const std::vector<double> value = {sign * size};
    return decode(encode(value, trial.which.dtype), trial.which.dtype)[0];
  });
}

// The inputs, replaced where `replaced(tensor, index)` says so.
template <class Replaced>
Values mixed(const Trial& trial, const Values& inputs, const Values& others, const Replaced& replaced) {
  const Op& op = trial.op;
  return build(op.inputs, trial.which.dims, [&](size_t tensor, const Extents& index) {
    return at(replaced(tensor, index) ? others : inputs, tensor, index, op.inputs, trial.which.dims);
  });
}

// Where `source(output, index)` names an element of `want`, `got` at `index` must have its bits.
template <class Source>
Violation differs(const Trial& trial, const Values& got, const Dims& got_dims, const Values& want,
                  const Source& source) {
  const auto& outputs = trial.op.outputs;
  for (size_t output = 0; output < outputs.size(); ++output) {
    const Extents shape = shape_of(outputs[output], got_dims);
    for (int64_t i = 0; i < element_count(shape); ++i) {
      const Extents index = index_of(i, shape);
      const std::optional<Extents> from = source(output, index);
      if (!from) continue;
      const double is = got[output][static_cast<size_t>(i)];
      const double must = at(want, output, *from, outputs, trial.which.dims);
      if (std::bit_cast<uint64_t>(is) != std::bit_cast<uint64_t>(must)) {
        return fmt::format("{}{} is {}, but {}{} of the related problem is {}: {}", outputs[output].name,
                           index.to_string(), is, outputs[output].name, from->to_string(), must,
                           trial.which.to_string());
      }
    }
  }
  return std::nullopt;
}

std::optional<Extents> same_place(size_t, const Extents& index) {
  return index;
}

bool is_padding(const Extents& tap, int64_t taps) {
  return tap[1] + tap[3] - taps + 1 < 0;
}

Violation causality(const Trial& trial) {
  const Values inputs = draw(trial);
  const int64_t now = trial.number(5, trial.time());
  const Values changed =
      mixed(trial, inputs, draw(trial, 2), [&](size_t, const Extents& i) { return i[1] > now; });
  return differs(trial, compute(trial, changed), trial.which.dims, compute(trial, inputs),
                 [&](size_t, const Extents& i) { return i[1] <= now ? std::optional(i) : std::nullopt; });
}

// dk looks back as out does, dx forward: x after `now` is seen by later dk only, dout and k before `now` by
// earlier gradients only.
Violation causality_of_gradients(const Trial& trial) {
  const Values inputs = draw(trial);
  const Values others = draw(trial, 2);
  const Values want = compute(trial, inputs);
  const int64_t now = trial.number(5, trial.time());
  const Values other_past = mixed(trial, inputs, others, [&](size_t tensor, const Extents& i) {
    return tensor != trial.x() && i[1] < now;
  });
  const Values other_future = mixed(trial, inputs, others, [&](size_t tensor, const Extents& i) {
    return tensor == trial.x() && i[1] >= now;
  });
  if (auto violation =
          differs(trial, compute(trial, other_past), trial.which.dims, want,
                  [&](size_t, const Extents& i) { return i[1] >= now ? std::optional(i) : std::nullopt; })) {
    return violation;
  }
  return differs(trial, compute(trial, other_future), trial.which.dims, want,
                 [&](size_t output, const Extents& i) {
                   return output == 0 || i[1] < now ? std::optional(i) : std::nullopt;
                 });
}

// The part of the inputs at position `chosen` of `axis`, as a problem of its own.
Violation independence(const Trial& trial, std::string_view key, int axis) {
  const Values inputs = draw(trial);
  const int64_t chosen = trial.number(5, trial.which.dims[key]);
  const auto inside = [&](Extents index) {
    index[axis] = chosen;
    return index;
  };
  Case alone = trial.which;
  alone.dims.set(key, 1);
  const Values part = build(trial.op.inputs, alone.dims, [&](size_t tensor, const Extents& index) {
    return at(inputs, tensor, inside(index), trial.op.inputs, trial.which.dims);
  });
  return differs(trial, compute(trial.op, trial.path, trial.device, alone, part), alone.dims,
                 compute(trial, inputs),
                 [&](size_t, const Extents& index) { return std::optional(inside(index)); });
}

Violation batch_independence(const Trial& trial) {
  return independence(trial, "b", 0);
}
Violation channel_independence(const Trial& trial) {
  return independence(trial, "d", 2);
}

Violation channel_permutation(const Trial& trial) {
  std::vector<int64_t> order(static_cast<size_t>(trial.which.dims["d"]));
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[trial.pick(100 + i, i)]);
  const auto permuted = [&](Extents index) {
    index[2] = order[static_cast<size_t>(index[2])];
    return index;
  };
  const Values inputs = draw(trial);
  const Values moved = build(trial.op.inputs, trial.which.dims, [&](size_t tensor, const Extents& index) {
    return at(inputs, tensor, permuted(index), trial.op.inputs, trial.which.dims);
  });
  return differs(trial, compute(trial, moved), trial.which.dims, compute(trial, inputs),
                 [&](size_t, const Extents& index) { return std::optional(permuted(index)); });
}

Violation scaling(const Trial& trial) {
  const double factor = std::ldexp(1.0, static_cast<int>(1 + trial.number(5, 4)));
  const Values inputs = draw(trial);
  Values scaled = inputs;
  for (double& value : scaled[0]) value *= factor;
  Values want = compute(trial, inputs);
  for (auto& output : want) {
    for (double& value : output) value *= factor;
  }
  return differs(trial, compute(trial, scaled), trial.which.dims, want, same_place);
}

Violation layout_independence(const Trial& trial) {
  const Values inputs = draw(trial);
  const Values want = compute(trial, inputs);
  for (Layout layout : {Layout::kStrided, Layout::kMisaligned, Layout::kTransposed}) {
    Trial other = trial;
    other.which.layout = layout;
    if (auto violation = differs(other, compute(other, inputs), other.which.dims, want, same_place))
      return violation;
  }
  return std::nullopt;
}

// One step of silence before the sequence moves the result by one step and changes no bit of it.
Violation delay(const Trial& trial) {
  const Values inputs = draw(trial);
  Case later = trial.which;
  later.dims.set("t", trial.time() + 1);
  const Values delayed = build(trial.op.inputs, later.dims, [&](size_t tensor, Extents index) {
    if (--index[1] < 0) return tensor == trial.k() ? 1.0 : 0.0;
    return at(inputs, tensor, index, trial.op.inputs, trial.which.dims);
  });
  return differs(trial, compute(trial.op, trial.path, trial.device, later, delayed), later.dims,
                 compute(trial, inputs),
                 [](size_t, Extents index) { return --index[1] < 0 ? std::nullopt : std::optional(index); });
}

Violation padding_is_left_out(const Trial& trial) {
  const Values inputs = draw(trial);
  const Values poisoned = build(trial.op.inputs, trial.which.dims, [&](size_t tensor, const Extents& index) {
    if (tensor == trial.k() && is_padding(index, trial.which.dims["w"]))
      return std::numeric_limits<double>::infinity();
    return at(inputs, tensor, index, trial.op.inputs, trial.which.dims);
  });
  return differs(trial, compute(trial, poisoned), trial.which.dims, compute(trial, inputs), same_place);
}

Violation padding_has_no_gradient(const Trial& trial) {
  Values inputs = draw(trial);
  for (double& value : inputs[0]) value = std::numeric_limits<double>::infinity();
  const Values zeros = build(trial.op.outputs, trial.which.dims, [](size_t, const Extents&) { return 0.0; });
  return differs(
      trial, compute(trial, inputs), trial.which.dims, zeros, [&](size_t output, const Extents& index) {
        return output == 1 && is_padding(index, trial.which.dims["w"]) ? std::optional(index) : std::nullopt;
      });
}

double inner_product(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// dout.out = sum of dout*k*x over all taps = dx.x = dk.k. Factors in -2..2 make every number an integer of at
// most 32, which each dtype holds.
Violation adjointness(const Trial& trial) {
  uint64_t counter = 0;
  const Values inputs = build(trial.op.inputs, trial.which.dims, [&](size_t, const Extents&) {
    return static_cast<double>(trial.random.bits(++counter, 9) % 5) - 2;
  });
  const Op& forward_op = ops().front();
  for (const Path& forward : forward_op.paths) {
    if (forward.device != trial.path.device) continue;
    Case forward_case = trial.which;
    forward_case.op = forward_op.name;
    forward_case.path = forward.name;
    const Values out = compute(forward_op, forward, trial.device, forward_case, {inputs[1], inputs[2]});
    const Values gradients = compute(trial, inputs);
    const double by_out = inner_product(inputs[0], out[0]);
    const double by_x = inner_product(inputs[1], gradients[0]);
    const double by_k = inner_product(inputs[2], gradients[1]);
    if (by_out == by_x && by_out == by_k) continue;
    return fmt::format("dout.out = {}, dx.x = {}, dk.k = {}: {}", by_out, by_x, by_k,
                       trial.which.to_string());
  }
  return std::nullopt;
}

Law make_law(std::string_view op, std::string_view name, std::string_view statement,
             Violation (*check)(const Trial&)) {
  return {.op = op,
          .name = name,
          .statement = statement,
          .violation = [check](const Op& of, const Path& path, Device& device, uint64_t seed) {
            return check(Trial(of, path, device, seed));
          }};
}

}  // namespace

std::vector<Law> laws() {
  std::vector<Law> all = {
      make_law("dynamic_conv", "causality", "x and k after a time change nothing up to it", causality),
      make_law("dynamic_conv", "delay", "a step of zeros before x moves out by one step", delay),
      make_law("dynamic_conv_grad", "causality",
               "dout and k before a time change no gradient from it on; x from a time on changes no dk "
               "before it, nor dx",
               causality_of_gradients),
      make_law("dynamic_conv_grad", "padding_has_no_gradient",
               "dk is 0 in the padding, even for infinite dout", padding_has_no_gradient),
      make_law("dynamic_conv_grad", "adjointness", "dout.out = dx.x = dk.k, exactly, for small integers",
               adjointness),
  };
  for (std::string_view op : {"dynamic_conv", "dynamic_conv_grad"}) {
    all.push_back(make_law(op, "batch_independence", "an entry of the batch alone gives the same bits",
                           batch_independence));
    all.push_back(
        make_law(op, "channel_independence", "a channel alone gives the same bits", channel_independence));
    all.push_back(
        make_law(op, "channel_permutation", "permuted channels give the permuted bits", channel_permutation));
    all.push_back(
        make_law(op, "scaling", "the first input times a power of two gives the results times it", scaling));
    all.push_back(make_law(op, "layout_independence",
                           "strided, misaligned and transposed tensors give the same bits",
                           layout_independence));
    all.push_back(make_law(op, "padding_is_left_out", "infinite taps in the padding change nothing",
                           padding_is_left_out));
  }
  return all;
}

}  // namespace assay::dynamic_conv
