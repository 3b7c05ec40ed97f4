// SPDX-License-Identifier: Apache-2.0
// The values of an input tensor, element by element, in a named regime.
#pragma once

#include <cstdint>
#include <span>

#include "properties/core/case.h"
#include "properties/core/random.h"

namespace assay {

// The lowest precision and narrowest range among dtypes. For the dtypes of a case's tensors it
// tells what each of them can hold, and which products neither vanish nor overflow in the output.
FloatFormat common_format(std::span<const DType> dtypes);

// Draws input number `tensor` of `tensors` inputs. The values are doubles that may need rounding to
// the tensor's dtype. They are finite in it except in the regime nonfinite. `common` is the common
// format of all tensors of the case: what is subnormal in a wider one would be 0 in the output.
// `degree` and `least_degree` are those of its op: at most and at least so many values are
// multiplied. The latter counts in the regime tiny.
class Drawing {
 public:
  Drawing(Regime regime, uint64_t seed, int tensor, int tensors, const FloatFormat& common, int64_t elements,
          int degree = 2, int least_degree = 2);
  double operator()(int64_t element) const;

 private:
  Regime regime_;
  CounterRandom random_;
  bool chosen_ = false;  // whether this is the special input of spike, subnormal and nonfinite
  double scale_ = 1;
  double center_ = 0;
  double lowest_ = 0;     // smallest normal number of the common format
  int64_t last_ = -1;     // position of the last element
  int64_t special_ = -1;  // position of the spike, or of one non-finite element
};

// Whether errors of neighbouring elements are independent. The rms law presumes that.
bool is_continuous(Regime regime);

}  // namespace assay
