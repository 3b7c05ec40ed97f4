// SPDX-License-Identifier: Apache-2.0
// The words in which laws are written: a small problem drawn from a seed, its tensors as doubles,
// and comparison to the bit.
//
// Rule 11 of the judge tries a law on the inputs of a case instead.
//
// A law computes two related problems and says which elements of their outputs must have the same
// bits:
//
//   const Values inputs = draw(trial);
//   const Values moved = rearranged(inputs, source);
//   return differs(trial, compute(trial, moved), compute(trial, inputs), source);
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/device.h"
#include "properties/core/case.h"
#include "properties/core/problem.h"
#include "properties/core/random.h"
#include "properties/core/specimen.h"

namespace assay {

using Violation = std::optional<std::string>;  // what was violated, with values

// All inputs or all outputs of an op, dense, as doubles.
struct Values {
  const std::vector<TensorInfo>* tensors;  // the op's table
  Dims dims;
  std::vector<Extents> shapes;
  std::vector<std::vector<double>> elements;  // row-major

  double at(size_t tensor, const Extents& index) const;
};

// A path, a problem for it, and random numbers for the choices of a law.
struct Trial {
  const Op& op;
  const Path& path;
  Device& device;
  CounterRandom random;
  Case which;
  // Of a trial on the inputs of a case: these, and a context for all calls that tunes nothing. The
  // seed draws the configurations.
  std::shared_ptr<const Values> inputs = {};
  std::shared_ptr<Context> context = {};

  // Draws one of the path's dtypes, and sizes from 1 to `largest`. Short dimensions need no entry
  // there.
  Trial(const Op& op, const Path& path, Device& device, const Dims& largest, uint64_t seed);

  // On the inputs that a problem holds, in its layout if any tensors can lie so, else dense.
  explicit Trial(const Problem& problem);

  // The same problem for a path of another op with the same dimensions.
  Trial on(const Op& other_op, const Path& other_path) const;

  int64_t size(Dim dim) const { return which.dims[dim]; }
  // Its place in the op's table; throws Error if the op has another input there.
  size_t place_of(Input input) const;
  // A number from 0 to below - 1; each `lane` draws its own.
  int64_t choice(int64_t below, uint64_t lane = 0) const;
  // The numbers from 0 to count - 1 in random order.
  std::vector<int64_t> permutation(int64_t count) const;
};

// Tensors of a case as doubles, and back: rounded to the dtype of each.
Values values_of(const std::vector<TensorInfo>& tensors, const Case& which, const TensorBytes& bytes);
TensorBytes bytes_of(const Values& values, DType dtype);

using Element = std::function<double(size_t tensor, const Extents& index)>;
using Place = std::function<Extents(size_t tensor, const Extents& index)>;
using Where = std::function<bool(size_t tensor, const Extents& index)>;
using Source = std::function<std::optional<Extents>(size_t tensor, const Extents& index)>;

// Makes the tensors of a table, element by element.
Values build(const std::vector<TensorInfo>& tensors, const Dims& dims, const Element& element);

// Inputs of the trial's shape: +-[0.5, 2), far from overflow and underflow, rounded to the dtype of
// each tensor; or those of the case. Another `lane` gives other values.
Values draw(const Trial& trial, uint64_t lane = 0);
// The former, never those of the case, of any size.
Values draw_ordinary(const Trial& trial, const Dims& dims, uint64_t lane = 0);
// Draws integers from -2 to 2. Sums of up to 32 products are exact in every dtype, even if one
// factor is twice as large.
Values draw_integers(const Trial& trial, uint64_t lane = 0);

// Copies of the values: each taken from another place; with `element` in some places; with `others`
// in some places.
Values rearranged(const Values& values, const Place& place);
Values changed(const Values& values, const Where& where, const Element& element);
Values mixed(const Values& values, const Values& others, const Where& from_others);

// The values with -0 replaced by +0: the sign of a sum of zeros depends on the order of its terms.
Values positive_zeros(Values values);

// The outputs for these inputs, whose dimensions may differ from the trial's. `edit` may change the
// call before it runs.
Values compute(const Trial& trial, const Values& inputs, const std::function<void(Call&)>& edit = {});

// If `source` names an element of `want` for an index, `got` must have its bits there, or both are
// NaN.
Violation differs(const Trial& trial, const Values& got, const Values& want, const Source& source);
Violation differs(const Trial& trial, const Values& got, const Values& want);  // element by element

// A law that is tried on problems of at most `largest` along the long dimensions, and on cases with
// any data, or with ordinary data only (Data::is_ordinary).
using Check = std::function<Violation(const Trial&)>;
enum class On : uint8_t { kOrdinaryData, kAnyData };
Law make_law(std::string_view op, const Dims& largest, std::string_view name, std::string_view statement,
             Check check, On on = On::kOrdinaryData);

}  // namespace assay
