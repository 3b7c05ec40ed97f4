// SPDX-License-Identifier: Apache-2.0
// The values of an input tensor, element by element, in a named regime.
#pragma once

#include <cstdint>

#include "kernels/core/case.h"
#include "properties/core/random.h"

namespace assay {

// Draws input number `tensor` of `tensors` inputs. Values are in double and may need rounding to `storage`;
// all are finite in it, except in the regime nonfinite.
class Drawing {
 public:
  Drawing(Regime regime, uint64_t seed, int tensor, int tensors, DType storage, int64_t elements);
  double operator()(int64_t element) const;

 private:
  Regime regime_;
  CounterRandom random_;
  bool chosen_ = false;  // the one input that is special in the regimes spike, subnormal and nonfinite
  double scale_ = 1;
  double center_ = 0;
  double lowest_ = 0;     // smallest normal number of the storage dtype
  int64_t last_ = -1;     // position of the last element
  int64_t special_ = -1;  // position of the spike, or of one certain non-finite element
};

// Whether errors on neighbouring elements are independent, which the rms law presumes.
bool is_continuous(Regime regime);

}  // namespace assay
