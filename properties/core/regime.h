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

// An input to draw.
struct Drawn {
  int tensor = 0, tensors = 1;  // its number, and how many inputs there are
  DType dtype = DType::kF32;
  Extents shape;
  // Of all tensors of the case: what is subnormal in a wider one would be 0 in the output.
  FloatFormat common = format_of(DType::kF32);
  // Of the op: at most and at least so many values are multiplied. The latter counts in the regime
  // tiny.
  int degree = 2, least_degree = 2;
};

// An axis, and one index along it or each.
struct Along {
  int64_t stride = 1, size = 1;
  int64_t only = -1;

  int64_t index_of(int64_t element) const { return element / stride % size; }
  bool has(int64_t element) const { return only < 0 || index_of(element) == only; }
};

// Draws the values of an input, by row-major position. They are doubles that may need rounding to
// the tensor's dtype, which keeps them finite if Data::is_finite().
class Drawing {
 public:
  Drawing(const Data& data, uint64_t seed, const Drawn& input);
  double operator()(int64_t element) const;
  // Those from `first` on.
  void draw(int64_t first, std::span<double> values) const;

 private:
  void choose_large_index(const Drawn& input);
  void choose_near_limit(const CounterRandom& choice, const Drawn& input);
  double of_regime(int64_t element) const;
  double ordinary(int64_t element) const;  // without infinities and NaNs
  double scaled(int64_t element) const;    // of the regime, times what ingredients multiply by
  int scale_at(int64_t element) const;     // exponent
  double near_limit(int64_t element) const;
  bool is_in(Ingredient ingredient) const { return (ingredients_ >> static_cast<int>(ingredient) & 1) != 0; }
  // Whether an infinity or a NaN lies there.
  bool is_special(Ingredient ingredient, int64_t element) const;

  Regime regime_;
  CounterRandom random_;
  unsigned ingredients_ = 0;  // those in this input, a bit each
  bool chosen_ = false;       // whether this is the input of what only one has
  double scale_ = 1;
  double center_ = 0;
  double lowest_ = 0;     // smallest normal number of the common format
  int64_t elements_ = 0;  // of the input
  int64_t special_ = -1;  // position of the spike, or of one non-finite element
  // Ingredients.
  double equal_ = 1;
  double large_ = 1;          // the power of two near the end of the range
  double lowest_of_own_ = 0;  // smallest normal number of the input's dtype
  double largest_of_own_ = 0;
  Along scaled_along_, large_along_, index_along_;
  int largest_scale_ = 0;                // exponent
  double at_index_ = 1, elsewhere_ = 1;  // what large_index multiplies by
  double limit_ = 0, least_part_ = 0;    // of near_limit: the most, and the least over the most
  uint64_t one_sign_in_ = 2;             // one in so many values of near_limit has the other sign
  double tiny_ = 1;                      // what tiny_products multiplies by
};

// Whether errors of neighbouring elements are independent. The rms law presumes that.
bool is_continuous(const Data& data);

}  // namespace assay
