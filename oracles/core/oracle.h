// SPDX-License-Identifier: Apache-2.0
// What an oracle answers for each asked element of an output: the exact value, and how far a right
// path may be from it.
//
// An oracle sees the inputs as stored. It computes in double by another algorithm than any path and
// does not link the kernels. It derives each bound from the recipe and this very data (bound.h).
// Its header holds the derivation.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/core/op.h"
#include "oracles/core/arithmetic.h"

namespace assay {

// What is expected of one element: got is right iff |got - value| <= bound. A NaN value asks for
// NaN, and an infinite value for the same infinity. is_right() (compare.h) has the details.
struct Expected {
  double value;  // exact up to an error that `bound` includes
  double bound;  // >= |got - value| for every path that follows the recipe; finite if `value` is
  // For the rms law: the variance of got - value if each rounding error is uniform between its
  // limits.
  double variance;
  // Anything is right: right paths may differ without limit, because one of them overflows on the
  // way and another does not.
  bool is_open = false;
  // The certificate does not ask about wrong answers closer to the value than this: they look like
  // rounding on this data. Nor does it ask about answers within `bound` if `bound` is at most twice
  // as large. The noise is that before the value is stored; the certificate adds half an ulp. For
  // ops whose sums cancel; 0 where half an ulp is noise enough.
  double noise = 0;
  // The exact value; `value` is then what the recipe makes of it.
  std::optional<double> exact = {};
};

struct Question {
  Dims dims;
  Recipe recipe;
  std::vector<ConstTensorView> inputs;  // in host memory, any strides: inputs[kX]
};

// Fills `expected[i]` for the element whose row-major position in the output is `elements[i]`.
// Elements ascend. Several threads call it at once.
using Answer = std::function<void(std::span<const int64_t> elements, std::span<Expected> expected)>;

// Does the work that all elements of output number `output` share, and returns their answer. The
// question outlives the answer.
using Solve = std::function<Answer(const Question& question, int output)>;

// What an output is at each of the elements, in the arithmetic that it was asked for. Elements
// ascend. Several threads call it at once.
using Evaluate = std::function<void(std::span<const int64_t> elements, std::span<Ball> values)>;

// The op's formula, or its fault number `fault`, counted from 1. Does the work that all elements of
// output number `output` share. Question and arithmetic outlive the result.
using OpFormula = Evaluate (*)(const Question& question, int output, const Arithmetic& arithmetic, int fault);

// A plausible wrong formula. The judge asks whether the comparison would have rejected it on this
// case. If its values equal the right ones on this data, it tells nothing.
struct Counterfeit {
  std::string_view fault;  // "the first tap is dropped"
  // Only the values are read. Returns an empty Answer if all values are the right ones on this
  // data, which is quicker than computing them.
  Solve solve;
};

// One stage of the op: the same values, with bounds and variances as if all other stages were
// exact.
struct StageOracle {
  std::string_view stage;  // "projections"
  Solve solve;
};

struct Oracle {
  std::string_view op;
  // The formula, over an arithmetic, and the faults that it can have: "the first tap is dropped".
  OpFormula formula = nullptr;
  std::vector<std::string_view> faults = {};
  // Of each output. Rounding errors are independent from block to block: the elements that agree in
  // this many leading indices. For the rms law.
  std::vector<int> block_axes = {};
  Solve solve = {};
  std::vector<Counterfeit> counterfeits = {};
  // In the order of the op's formula. Empty if the bound is not divided.
  std::vector<StageOracle> stages = {};
  // Elements that differ in their last index only cost little more than one of them, so they are
  // sampled together.
  bool shares_rows = false;
};

}  // namespace assay
