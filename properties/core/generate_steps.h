// SPDX-License-Identifier: Apache-2.0
// The random steps of a state: what happens before the judged call of a case.
#pragma once

#include <rapidcheck.h>

#include <cstdint>
#include <vector>

#include "properties/core/case.h"
#include "properties/core/sizes.h"

namespace assay {

// What a step of a state is made from. The sizes of the case are drawn later.
struct DrawnStep {
  StepKind kind;
  int64_t config;   // kForced: a number among all configurations of the path
  int64_t input;    // of a step that names one: a number among the inputs after the first
  int64_t changed;  // kAfter
  DType dtype;      // kAfter
  Layout layout;    // kAfter
};

// None, or up to `most`.
rc::Gen<std::vector<DrawnStep>> arbitrary_steps(const Op& op, const Path& path, int most);

// The step before a call of this case. An earlier problem has some of the other sizes, as far as
// the size allows.
Step make_step(const DrawnStep& drawn, const Op& op, const Path& path, const Case& which,
               const Dims& other_sizes, const Size& size);

}  // namespace assay
