// SPDX-License-Identifier: Apache-2.0
#include "study/question.h"

#include <algorithm>

namespace assay::study {
namespace {

template <class Tensor, class DTypeOf>
Question made(const Op& op, const Dims& dims, const std::vector<Tensor>& inputs, Recipe recipe,
              const DTypeOf& dtype_of) {
  Question question{.dims = dims, .recipe = std::move(recipe), .inputs = {}};
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Extents shape = shape_of(op.inputs[i], dims);
    question.inputs.push_back({.data = inputs[i].data(),
                               .dtype = dtype_of(op.inputs[i]),
                               .shape = shape,
                               .strides = dense_strides(shape)});
  }
  return question;
}

}  // namespace

Question question_of(const Op& op, const Dims& dims, const TensorBytes& inputs, DType dtype, Recipe recipe) {
  return made(op, dims, inputs, std::move(recipe),
              [&](const TensorInfo& info) { return info.dtype.value_or(dtype); });
}

Question question_of_values(const Op& op, const Dims& dims, const std::vector<Values>& inputs,
                            Recipe recipe) {
  return made(op, dims, inputs, std::move(recipe), [](const TensorInfo&) { return DType::kF64; });
}

std::vector<double> middles(const std::vector<Ball>& balls) {
  std::vector<double> values;
  values.reserve(balls.size());
  for (const Ball& ball : balls) values.push_back(ball.is_open() ? kNan : ball.mid);
  return values;
}

int64_t row_of(const Extents& shape) {
  return shape.rank() == 0 ? 1 : std::max<int64_t>(1, shape[shape.rank() - 1]);
}

}  // namespace assay::study
