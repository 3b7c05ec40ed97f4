// SPDX-License-Identifier: Apache-2.0
// Questions to an oracle about tensors that are held as bytes, or as doubles.
#pragma once

#include <vector>

#include "properties/core/problem.h"
#include "study/draw.h"

namespace assay::study {

// Views of dense tensors, which outlive the question.
Question question_of(const Op& op, const Dims& dims, const TensorBytes& inputs, DType dtype, Recipe recipe);
Question question_of_values(const Op& op, const Dims& dims, const std::vector<Values>& inputs, Recipe recipe);

std::vector<double> middles(const std::vector<Ball>& balls);  // NaN for an open ball
int64_t row_of(const Extents& shape);                         // the length of a row, at least 1

}  // namespace assay::study
