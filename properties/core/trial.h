// SPDX-License-Identifier: Apache-2.0
// What laws are written with: a small problem drawn from a seed, its tensors as doubles, and their comparison to
// the bit.
//
// A law computes two related problems and says which elements of their outputs must have the same bits:
//
//   const Values inputs = draw(trial);
//   const Values moved = rearranged(inputs, source);
//   return differs(trial, compute(trial, moved), compute(trial, inputs), source);
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/device.h"
#include "properties/core/case.h"
#include "properties/core/random.h"
#include "properties/core/specimen.h"

namespace assay {

using Violation = std::optional<std::string>;  // what was violated, with values

// A path, a problem for it, and random numbers for the choices of a law.
struct Trial {
  const Op& op;
  const Path& path;
  Device& device;
  CounterRandom random;
  Case which;

  // Sizes from 1 to `largest`; short dimensions need no largest size. One of the path's dtypes.
  Trial(const Op& op, const Path& path, Device& device, const Dims& largest, uint64_t seed);

  // The same problem for a path of another op with the same dimensions.
  Trial on(const Op& other_op, const Path& other_path) const;

  int64_t size(std::string_view key) const { return which.dims[key]; }
  size_t input(std::string_view name) const;  // its position in the op's table; throws Error if there is none
  // One of 0 ... below - 1, another one for each `lane`.
  int64_t choice(int64_t below, uint64_t lane = 0) const;
  // The numbers 0 ... count - 1 in random order.
  std::vector<int64_t> permutation(int64_t count) const;
};

// All inputs or all outputs of an op, dense, as doubles.
struct Values {
  const std::vector<TensorInfo>* tensors;  // the op's table
  Dims dims;
  std::vector<Extents> shapes;
  std::vector<std::vector<double>> elements;  // row-major

  double at(size_t tensor, const Extents& index) const;
};

using Element = std::function<double(size_t tensor, const Extents& index)>;
using Place = std::function<Extents(size_t tensor, const Extents& index)>;
using Where = std::function<bool(size_t tensor, const Extents& index)>;
using Source = std::function<std::optional<Extents>(size_t tensor, const Extents& index)>;

// The tensors of the table, element by element.
Values build(const std::vector<TensorInfo>& tensors, const Dims& dims, const Element& element);

// Inputs of the trial's shape: +-[0.5, 2), far from overflow and underflow, rounded to the dtype of each tensor.
// Another `lane` gives other values.
Values draw(const Trial& trial, uint64_t lane = 0);
// Integers in -2 ... 2: sums of up to 32 products, one factor up to twice as large, are exact in every dtype.
Values draw_integers(const Trial& trial, uint64_t lane = 0);

// The values, each taken from another place; replaced by another value; replaced by those of `others`.
Values rearranged(const Values& values, const Place& place);
Values changed(const Values& values, const Where& where, const Element& element);
Values mixed(const Values& values, const Values& others, const Where& from_others);

// The values with zeros of either sign as +0: which one a sum of zeros is depends on the order of its terms.
Values positive_zeros(Values values);

// The outputs for these inputs, whose dimensions may differ from the trial's. `edit` may change the call before it
// runs.
Values compute(const Trial& trial, const Values& inputs, const std::function<void(Call&)>& edit = {});

// Where `source` names an element of `want`, `got` must have its bits.
Violation differs(const Trial& trial, const Values& got, const Values& want, const Source& source);
Violation differs(const Trial& trial, const Values& got, const Values& want);  // every element in its place

// A law that is tried on problems of at most these sizes along the long dimensions.
using Check = std::function<Violation(const Trial&)>;
Law make_law(std::string_view op, const Dims& largest, std::string_view name, std::string_view statement,
             Check check);

}  // namespace assay
