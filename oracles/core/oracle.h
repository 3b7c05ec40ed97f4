// SPDX-License-Identifier: Apache-2.0
// What an oracle is: the formula of an op, written once over an arithmetic (arithmetic.h).
//
// An oracle sees the inputs as stored. It does not link the kernels, so it cannot call what it
// judges. It names the places where a recipe rounds and how sums run; all bounds come from the
// arithmetic.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/core/op.h"
#include "oracles/core/arithmetic.h"

namespace assay {

struct Question {
  Dims dims;
  Recipe recipe;
  std::vector<ConstTensorView> inputs;  // in host memory, any strides: inputs[kX]
};

// What an output is at each of the elements, given by their row-major positions, in the arithmetic
// that it was asked for. Elements ascend. Several threads call it at once.
using Evaluate = std::function<void(std::span<const int64_t> elements, std::span<Ball> values)>;

// The op's formula for output number `output`, with fault number `fault`, counted from 1, or none.
// Does the work that all elements share. Question and arithmetic outlive the result. May return
// nothing if all values of the fault are the right ones on this data.
using OpFormula =
    std::function<Evaluate(const Question& question, int output, const Arithmetic& arithmetic, int fault)>;

struct Oracle {
  std::string_view op;
  OpFormula formula;
  // Plausible mistakes in the formula: "the first tap is dropped". On every case the judge asks
  // whether the comparison would have rejected them.
  std::vector<std::string_view> faults = {};
  // Smaller ones, of one channel or one row, for specimens. Their numbers follow.
  std::vector<std::string_view> slips = {};
  // The sums of the formula, and what a specimen can get wrong of its functions: see Plant.
  std::vector<Site> sums = {};
  std::vector<Plant::Kind> plants = {};
  // In the order of the formula; their numbers are those of Arithmetic::at(). Empty if the formula
  // is one stage.
  std::vector<std::string_view> stages = {};
  // Of each output. Rounding errors are independent from block to block: the elements that agree in
  // this many leading indices.
  std::vector<int> block_axes = {};
  // Recipes that declare roundings inside the formula leave values in doubt. Elements that agree in
  // no more than this many leading indices share few of them.
  int doubt_axes = 0;
  // Elements that differ in their last index only cost little more than one: sampled together.
  bool shares_rows = false;
  bool copies = false;  // values are inputs or their negatives, which no storage dtype rounds
};

}  // namespace assay
