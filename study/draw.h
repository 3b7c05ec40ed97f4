// SPDX-License-Identifier: Apache-2.0
// Draws the inputs of a point. The values depend on the point, the seed and the tensor alone, so
// that all paths and dtypes are compared on the same draws.
#pragma once

#include <span>
#include <vector>

#include "properties/core/problem.h"
#include "study/axis.h"

namespace assay::study {

// The numbers of one input in double, before they are stored.
using Values = std::vector<double>;

// A user's own tensors, to be resampled: in draw k, each index of the outermost axis of the first
// input is that of another one, drawn with repetition. All other inputs whose shapes begin with the
// same axis follow. Draw 0 is the tensors themselves.
struct Given {
  Dims dims = {};
  std::vector<Values> inputs = {};
};

// A hash of the dimensions and all numbers, as 16 hexadecimal digits.
std::string hash_of(const Given& given);

// The dimensions of a point.
Dims dims_at(const std::vector<Axis>& axes, const Point& point, Dims base);

// The number of a draw in the whole study: draws of different points are independent.
constexpr uint64_t draw_at(size_t point, int64_t draw) {
  return (uint64_t{point} << 32) + static_cast<uint64_t>(draw);
}

// The inputs of a point. `draw` is from draw_at(); `given` may be null.
std::vector<Values> draw_inputs(const Op& op, const std::vector<Axis>& axes, const Point& point,
                                const Dims& dims, uint64_t seed, uint64_t draw, const Given* given);

// As they are stored, in the tensor's own dtype or the one given.
std::vector<std::byte> stored(std::span<const double> values, DType dtype);
TensorBytes stored(const Op& op, const std::vector<Values>& inputs, DType dtype);
Values read(std::span<const std::byte> bytes, DType dtype);

}  // namespace assay::study
