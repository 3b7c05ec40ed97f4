// SPDX-License-Identifier: Apache-2.0
// What an oracle answers: for each asked element of an output, the exact value and how wrong a right path may
// be.
//
// An oracle sees the inputs as stored, computes in double by another algorithm than any path, does not link
// the kernels, and derives each bound from the recipe and this very data (see bound.h). Its header holds the
// derivation.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/core/op.h"

namespace assay {

// The verdict of one element: right iff |got - value| <= bound. A NaN value asks for NaN, an infinite one for
// the same infinity.
struct Expected {
  double value;     // exact up to an error that `bound` includes
  double bound;     // >= |got - value| for every path that follows the recipe; finite where value is finite
  double variance;  // of got - value, if each rounding error were uniform between its limits; for the rms law
  // Right paths may differ without limit: one of them overflows on the way and another does not. Anything is right.
  bool is_open = false;
  // Wrong answers that are closer than this to the value look like rounding on this data, and the certificate does not
  // ask about them; nor about those within the bound where it is at most twice as large. Before the value is stored: the
  // certificate adds half an ulp. For ops whose sums cancel; 0 where a unit in the last place is noise enough.
  double noise = 0;
};

struct Question {
  Dims dims;
  Recipe recipe;
  std::vector<ConstTensorView> inputs;  // in host memory, any strides, in the order of the op's table
};

// Fills `expected[i]` for the element whose row-major position in the output is `elements[i]`. Called from several
// threads at once, with ascending elements.
using Answer = std::function<void(std::span<const int64_t> elements, std::span<Expected> expected)>;

// Does once what all elements of output number `output` share, and returns their answer. The question outlives it.
using Solve = std::function<Answer(const Question& question, int output)>;

// A plausible wrong formula. The judge asks whether the comparison would have rejected it on this case; where
// its values equal the right ones on this data, it says nothing.
struct Counterfeit {
  std::string_view fault;  // "the first tap is dropped"
  // Only the values are read. Returns an empty Answer where the values are the right ones on all of this data, which is
  // quicker than computing them.
  Solve solve;
};

// A stage of the op by itself: the same values, with bounds and variances as if all other stages were exact.
struct StageOracle {
  std::string_view stage;  // "projections"
  Solve solve;
};

struct Oracle {
  std::string_view op;
  Solve solve;
  std::vector<Counterfeit> counterfeits;
  std::vector<StageOracle> stages =
      {};  // in the order of the op's formula; empty where the bound is not divided
  // Elements that differ in their last index alone cost little more than one of them: they are sampled together.
  bool shares_rows = false;
};

}  // namespace assay
